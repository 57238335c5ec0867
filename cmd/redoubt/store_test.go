package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"redoubt/budget"
	"redoubt/config"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"":                     {},
		"a:1":                  {"a:1"},
		"a:1,b:2":              {"a:1", "b:2"},
		" a:1, b:2,,\t[::1]:3": {"a:1", "b:2", "[::1]:3"},
	} {
		if got := addresses(list); !slices.Equal(got, want) {
			t.Errorf("%q: %q", list, got)
		}
	}
}

// Engine tikv says what its configuration lacks before it looks for a cluster.
func TestTiKVIsConfigured(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"":                                       "tikv-pd",
		"tikv-pd a:1\ntikv-cert x\ntikv-key y":   "tikv-ca",
		"tikv-pd a:1\ntikv-ca /nosuchdir/ca.pem": "no such file",
	} {
		cfg := config.NewWithMemory(1 << 30)
		if err := cfg.Load("x.conf", strings.NewReader("engine tikv\n"+lines)); err != nil {
			t.Fatal(err)
		}
		if _, err := opener(cfg, new(budget.Budget), slog.New(slog.DiscardHandler), nil)(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want one with %q", lines, err, want)
		}
	}
}
