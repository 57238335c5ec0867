package tikv_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"redoubt/engine/tikv"
	"redoubt/fleet"
	"redoubt/internal/testtikv"
)

// Front ends on a real store: they find each other, agree, and go.
func TestFleet(t *testing.T) {
	t.Parallel()
	pd, prefix := testtikv.Shared(t), testtikv.Prefix(t)
	const n = 3
	var list [n]*fleet.Fleet
	for i := range list {
		eng, err := tikv.Open(tikv.Options{PD: []string{pd}, Prefix: prefix, Timeout: 20 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := eng.Close(); err != nil {
				t.Error(err)
			}
		})
		host, err := fleet.Address("", []string{"*", "-::*"}, pd)
		if err != nil || host == "" {
			t.Fatal(host, err)
		}
		list[i], err = fleet.Join(context.Background(), fleet.Options{
			Engine: eng, Self: fleet.Member{Host: host, Port: i + 1}, Beat: 20 * time.Millisecond, Lease: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("waited in vain: " + what)
			}
		}
	}
	for i, f := range list {
		await("all see all", func() bool { return len(f.Members()) == n })
		if got := f.Members()[i]; got.ID != f.Self().ID || f.Leader() != (i == 0) || f.Secret() != list[0].Secret() || f.Fenced() {
			t.Errorf("front end %d: %+v, leads %v", i, got, f.Leader())
		}
	}
	beat := list[0].Self().Beat
	await("beats", func() bool { return list[0].Self().Beat > beat+5 })
	for i, f := range list {
		if err := f.Leave(context.Background()); err != nil {
			t.Error(err)
		}
		if i+1 < n {
			next := list[i+1]
			await("another leads", func() bool { return next.Leader() && len(next.Members()) == n-i-1 })
		}
	}
}
