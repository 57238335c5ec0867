package web

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"testing"
	"time"

	"redoubt/budget"
	"redoubt/command"
	"redoubt/config"
	"redoubt/engine/mem"
	"redoubt/executor"
	"redoubt/keyspace"
	"redoubt/types/channel"
)

// host is a server whose store is open and that leads.
type host struct{ x *executor.Executor }

func newHost(t *testing.T) host {
	t.Helper()
	eng := mem.New()
	t.Cleanup(func() { eng.Close() })
	space, err := keyspace.Open(eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	return host{executor.New(executor.Options{Engine: eng, Space: space, Logger: slog.New(slog.DiscardHandler), Clock: time.Now, Limits: command.Limits{MaxBulk: 1 << 20}})}
}

func (h host) Executor() *executor.Executor              { return h.x }
func (h host) Command([]byte) *command.Command           { return nil }
func (h host) Refused(*command.Command, [][]byte) error  { return nil }
func (h host) Ran(*command.Command, time.Duration, bool) {}
func (h host) Leads() bool                               { return true }
func (h host) Interested()                               {}
func (h host) SetChannelRules(channel.Rules)             {}
func (h host) TLS() *tls.Config                          { return nil }
func (h host) MaxConns() int64                           { return 100 }

// A server that is stopped while its store is being opened: Attach comes behind Stop, starts
// nothing, and what asks for a durable reply gets an error at once.
func TestStopBeforeAttach(t *testing.T) {
	t.Parallel()
	cfg := config.New()
	if err := cfg.Args([]string{"--http-addr", "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	w, err := New(Options{Host: newHost(t), Config: cfg, Log: log, ClientLog: log, Clients: new(budget.Account)})
	if err != nil {
		t.Fatal(err)
	}
	w.Start()
	w.Stop(t.Context())
	w.Attach()
	if w.end != nil {
		t.Error("Attach has started what nobody stops")
	}
	w.ended.Wait() // of nothing
	w.commands.settled.Wait()
	told := errors.New("not told")
	w.commands.onDurable(1, func(err error) { told = err })
	if !errors.Is(told, errStopping) {
		t.Errorf("a reply that is to be durable: %v", told)
	}
	w.Stop(t.Context()) // once more is nothing
}
