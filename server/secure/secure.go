// Package secure makes a TLS configuration from Redis's directives: certificates and keys
// in PEM files, OpenSSL's names of ciphers.
//
// The standard library's TLS is used. It decides some things itself that
// OpenSSL leaves to the user, so some directives are honoured in part only:
//   - It chooses the cipher, so tls-prefer-server-ciphers changes nothing.
//   - It has no list of the suites of TLS 1.3. A client that offers a suite that
//     tls-ciphersuites does not allow is served with TLS 1.2, see limitSuites13.
//   - It has no finite field Diffie-Hellman: tls-dh-params-file must exist, but is not read.
//   - Sessions are resumed by tickets, which take no memory here: the size of
//     the session cache has no meaning.
package secure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Settings are the directives without their "tls-". Those with Client are for the
// connections that the server opens.
type Settings struct {
	CertFile, KeyFile, KeyFilePass                   string
	ClientCertFile, ClientKeyFile, ClientKeyFilePass string
	CACertFile, CACertDir                            string
	AuthClients                                      string // yes, no or optional
	Protocols, Ciphers, CipherSuites                 string
	DHParamsFile                                     string
	SessionCaching                                   bool
	NeedCA                                           bool // for connections that the server opens
}

// Server returns the configuration of a server. It reads all files anew.
func Server(s Settings) (*tls.Config, error) {
	switch {
	case s.CertFile == "":
		return nil, errors.New("no tls-cert-file configured")
	case s.KeyFile == "":
		return nil, errors.New("no tls-key-file configured")
	case (s.AuthClients != "no" || s.NeedCA) && s.CACertFile == "" && s.CACertDir == "":
		return nil, errors.New("either tls-ca-cert-file or tls-ca-cert-dir must be given when tls-auth-clients, " +
			"tls-cluster or tls-replication are on")
	}
	c := &tls.Config{
		SessionTicketsDisabled: !s.SessionCaching,
		// A reply is better sent in few records than early in many.
		DynamicRecordSizingDisabled: true,
	}
	cert, err := keyPair(s.CertFile, s.KeyFile, s.KeyFilePass)
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{cert}
	if c.MinVersion, c.MaxVersion, err = versions(s.Protocols); err != nil {
		return nil, err
	}
	if c.CipherSuites, err = ciphers(s.Ciphers); err != nil {
		return nil, err
	}
	if s.CACertFile != "" || s.CACertDir != "" {
		if c.ClientCAs, err = authorities(s.CACertFile, s.CACertDir); err != nil {
			return nil, err
		}
	}
	switch s.AuthClients {
	case "no":
		c.ClientAuth = tls.NoClientCert
	case "optional":
		c.ClientAuth = tls.VerifyClientCertIfGiven
	default:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if s.DHParamsFile != "" {
		if _, err := os.Stat(s.DHParamsFile); err != nil {
			return nil, fmt.Errorf("tls-dh-params-file: %w", err)
		}
	}
	if s.ClientCertFile != "" && s.ClientKeyFile != "" {
		if _, err := keyPair(s.ClientCertFile, s.ClientKeyFile, s.ClientKeyFilePass); err != nil {
			return nil, err
		}
	}
	if err := limitSuites13(c, s.CipherSuites); err != nil { // last: it copies the others
		return nil, err
	}
	return c, nil
}

// versions parses a list such as "TLSv1.2 TLSv1.3". The library has a range of
// versions, so the list must have no gap.
func versions(list string) (low, high uint16, err error) {
	if list == "" {
		return tls.VersionTLS12, tls.VersionTLS13, nil
	}
	names := []string{"TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"}
	var have []int
	for _, word := range strings.Split(list, " ") {
		at := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, word) })
		if at < 0 {
			return 0, 0, fmt.Errorf("invalid tls-protocols: use a combination of %s", strings.Join(names, ", "))
		}
		have = append(have, at)
	}
	slices.Sort(have)
	have = slices.Compact(have)
	first, last := have[0], have[len(have)-1]
	if last-first != len(have)-1 {
		return 0, 0, errors.New("tls-protocols leaves out a version between two others")
	}
	return uint16(tls.VersionTLS10 + first), uint16(tls.VersionTLS10 + last), nil
}

// authorities reads the CA certificates for clients: all of a file, and all of each file of
// a directory. OpenSSL reads only files that are named by a hash of their subject; here
// any name will do.
func authorities(file, dir string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if file != "" {
		n, err := addCertificates(pool, file)
		if err != nil {
			return nil, fmt.Errorf("tls-ca-cert-file: %w", err)
		}
		if n == 0 {
			return nil, fmt.Errorf("tls-ca-cert-file: %s has no certificate", file)
		}
	}
	if dir == "" {
		return pool, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("tls-ca-cert-dir: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // follows links
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxAuthority {
			continue
		}
		if _, err := addCertificates(pool, path); err != nil {
			return nil, fmt.Errorf("tls-ca-cert-dir: %w", err)
		}
	}
	return pool, nil
}

// maxAuthority is the size above which a file in tls-ca-cert-dir is ignored.
const maxAuthority = 16 << 20

func addCertificates(pool *x509.CertPool, path string) (n int, err error) {
	rest, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return n, nil
		}
		if block.Type != "CERTIFICATE" && block.Type != "TRUSTED CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return n, fmt.Errorf("%s: %w", path, err)
		}
		pool.AddCert(cert)
		n++
	}
}

// keyPair reads a chain of certificates and the private key of its first one.
func keyPair(certFile, keyFile, pass string) (tls.Certificate, error) {
	certs, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load the certificate: %w", err)
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load the private key: %w", err)
	}
	key, err := openKey(text, pass)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load the private key: %s: %w", keyFile, err)
	}
	cert, err := tls.X509KeyPair(certs, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return cert, nil
}

// openKey returns the decrypted text of a key file. A file that is not encrypted is
// returned as it is.
func openKey(text []byte, pass string) ([]byte, error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(bytes.TrimSpace(rest)); block == nil {
			return text, nil
		}
		var err error
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY":
			block.Type = "PRIVATE KEY"
			block.Bytes, err = openPKCS8(block.Bytes, pass)
		//lint:ignore SA1019 old files have it, and Redis takes them
		case x509.IsEncryptedPEMBlock(block):
			//lint:ignore SA1019 as above
			block.Bytes, err = x509.DecryptPEMBlock(block, []byte(pass))
			block.Headers = nil
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(block), nil
	}
}
