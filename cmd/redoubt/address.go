package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"os"

	"redoubt/client"
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

// passwordVariable is the environment variable with the password of servers whose address has
// none: that of redis-cli. A command line can be read by all users of a machine.
const passwordVariable = "REDISCLI_AUTH"

// parseServer reads the address of the flag --server.
func parseServer(text string, secure *tls.Config) (client.Server, error) {
	s, err := client.ParseServer(text, secure)
	if err != nil {
		return s, fmt.Errorf("--server: %w", err)
	}
	if s.Password == "" {
		s.Password = os.Getenv(passwordVariable)
	}
	return s, nil
}
