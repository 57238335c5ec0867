package tikv_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/tikv"
	"redoubt/internal/respclient"
	"redoubt/internal/testcert"
	"redoubt/internal/testserver"
	"redoubt/internal/testtikv"
)

// TestTLS has a cluster that talks only to those who have a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := testcert.New(t), testcert.New(t)
	own, mine, foreign := ca.Sign("cluster"), ca.Sign("front"), other.Sign("front")
	c := testtikv.Start(t, testtikv.TLS(ca.File, own.Cert, own.Key))
	prefix := testtikv.Prefix(t)
	options := func(ca string, p testcert.Pair) tikv.Options {
		return tikv.Options{PD: []string{c.PD()}, Prefix: prefix, CA: ca, Cert: p.Cert, Key: p.Key, Timeout: 20 * time.Second}
	}

	s := testserver.Start(t, testserver.Options{Engine: "tikv", Open: func(_ testing.TB, log *slog.Logger) (engine.Engine, error) {
		o := options(ca.File, mine)
		o.Logger = log
		return tikv.Open(o)
	}})
	client, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	send(t, client, "SET a 1", "RPUSH l x y")
	if v := send(t, client, "GET a", "LPOP l"); v[0].Str != "1" || v[1].Str != "x" {
		t.Errorf("read %v", v)
	}

	for _, wrong := range []struct {
		name, says string
		tikv.Options
	}{
		{"no TLS", "does it need tikv-ca?", options("", testcert.Pair{})},
		{"no certificate", "TLS: remote error: tls: certificate required", options(ca.File, testcert.Pair{})},
		{"a certificate of somebody else", "TLS: remote error: tls: ", options(ca.File, foreign)},
		{"a cluster that one does not trust", "certificate signed by unknown authority", options(other.File, foreign)},
	} {
		t.Run(wrong.name, func(t *testing.T) {
			t.Parallel()
			o := wrong.Options
			o.OpenTimeout = 2 * time.Second
			begin := time.Now()
			e, err := tikv.Open(o)
			if err == nil {
				e.Close()
			}
			if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), wrong.says) || time.Since(begin) > o.OpenTimeout+slack {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
			t.Log(err)
		})
	}
}
