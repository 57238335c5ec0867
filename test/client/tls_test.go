package client

import (
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"redoubt/internal/testcert"
	"redoubt/internal/testserver"
)

// A program that uses TLS with certificates on both sides.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca := testcert.New(t)
	pair, own := ca.Sign("server"), ca.Sign("client")
	s := testserver.Start(t, testserver.Options{Args: []string{
		"--tls-cert-file", pair.Cert, "--tls-key-file", pair.Key, "--tls-ca-cert-file", ca.File,
	}})
	ctx := t.Context()
	plain := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer plain.Close()
	for try := 0; ; try++ { // somebody may take a port that was free
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		ln.Close()
		if err = plain.ConfigSet(ctx, "tls-port", port).Err(); err == nil {
			break
		}
		if try == 5 {
			t.Fatal(err)
		}
	}
	for _, proto := range []int{2, 3} {
		good := redis.NewClient(&redis.Options{Addr: s.TLSAddr().String(), Protocol: proto, TLSConfig: ca.Client(own)})
		defer good.Close()
		equal(t, "set", "OK")(good.Set(ctx, "k", "v", 0).Result())
		equal(t, "get", "v")(plain.Get(ctx, "k").Result())
		sub := good.Subscribe(ctx, "news")
		defer sub.Close()
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		if err := plain.Publish(ctx, "news", "hello").Err(); err != nil {
			t.Fatal(err)
		}
		if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "hello" {
			t.Errorf("%v, %v", m, err)
		}
	}
	nobody := redis.NewClient(&redis.Options{Addr: s.TLSAddr().String(), TLSConfig: ca.Client(), MaxRetries: -1})
	defer nobody.Close()
	if err := nobody.Ping(ctx).Err(); err == nil {
		t.Error("a client without a certificate is served")
	}
}
