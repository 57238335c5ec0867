package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Unistore's client of PD knows no TLS: a cluster with TLS has a PD that listens
// without it as well.
var (
	caFile   = flag.String("cacert", "", "file of the authority of clients; with it, clients must use TLS")
	certFile = flag.String("cert", "", "file of the certificate")
	keyFile  = flag.String("key", "", "file of its key")
)

// secure are the options of a server with TLS, none if there is no authority.
func secure() ([]grpc.ServerOption, error) {
	if *caFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(*caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in " + *caFile)
	}
	own, err := tls.LoadX509KeyPair(*certFile, *keyFile)
	if err != nil {
		return nil, err
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}))}, nil
}
