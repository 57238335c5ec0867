package peers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// configurations returns the TLS configurations for connections between front ends. They
// follow that for clients. As in Redis, a certificate must be signed by a known authority;
// its name is not checked, since front ends have addresses and not names.
func configurations(clients func() *tls.Config) (serve, dial *tls.Config) {
	current := func() (*tls.Config, error) {
		if c := clients(); c != nil {
			return c, nil
		}
		return nil, errors.New("TLS is not configured")
	}
	serve = &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := current()
			if err != nil {
				return nil, err
			}
			c = c.Clone()
			// Front ends must always present a certificate, even if clients need none.
			c.GetConfigForClient, c.ClientAuth = nil, tls.RequireAndVerifyClientCert
			return c, nil
		},
	}
	dial = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, but for the name
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c, err := current()
			if err != nil {
				return nil, err
			}
			return &c.Certificates[0], nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			c, err := current()
			if err != nil {
				return err
			}
			chain := x509.NewCertPool()
			for _, cert := range s.PeerCertificates[1:] {
				chain.AddCert(cert)
			}
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.ClientCAs, Intermediates: chain})
			return err
		},
	}
	return serve, dial
}
