package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"os"
)

// defaultServer is the server that tools look at unless they are told another.
const defaultServer = "redis://127.0.0.1:6379"

// tlsFlags adds the flags of tools that speak with servers. The function that is returned makes
// the TLS configuration of them once they are parsed.
func tlsFlags(f *flag.FlagSet) func() (*tls.Config, error) {
	ca := f.String("tls-ca", "", "the `file` of the authority's certificate for rediss; by default those of the system")
	insecure := f.Bool("tls-insecure", false, "take any certificate for rediss")
	return func() (*tls.Config, error) {
		secure := &tls.Config{InsecureSkipVerify: *insecure} //nolint:gosec // only on request
		if *ca == "" {
			return secure, nil
		}
		text, err := os.ReadFile(*ca)
		if err != nil {
			return nil, err
		}
		if secure.RootCAs = x509.NewCertPool(); !secure.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", *ca)
		}
		return secure, nil
	}
}
