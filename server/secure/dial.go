package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Client returns the configuration of connections that the server opens to a Redis. As in
// Redis, the certificate of the other side must be signed by a known authority; its name is
// not checked. It reads all files anew.
func Client(s Settings) (*tls.Config, error) {
	if s.CACertFile == "" && s.CACertDir == "" {
		return nil, errors.New("connections to a master with tls-replication need tls-ca-cert-file or tls-ca-cert-dir")
	}
	roots, err := authorities(s.CACertFile, s.CACertDir)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, but for the name
		VerifyConnection:   func(state tls.ConnectionState) error { return verify(state, roots) },
	}
	if c.MinVersion, c.MaxVersion, err = versions(s.Protocols); err != nil {
		return nil, err
	}
	if c.CipherSuites, err = ciphers(s.Ciphers); err != nil {
		return nil, err
	}
	certFile, keyFile, pass := s.ClientCertFile, s.ClientKeyFile, s.ClientKeyFilePass
	if certFile == "" || keyFile == "" {
		certFile, keyFile, pass = s.CertFile, s.KeyFile, s.KeyFilePass
	}
	if certFile != "" {
		cert, err := keyPair(certFile, keyFile, pass)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// verify checks the chain of certificates of the other side.
func verify(state tls.ConnectionState, roots *x509.CertPool) error {
	chain := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		chain.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: chain})
	return err
}
