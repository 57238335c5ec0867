package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"redoubt/gateway/rules"
	"redoubt/gateway/store"
	"redoubt/gateway/webhook"
	"redoubt/keyspace"
	"redoubt/types/channel"
)

// The rules of the channels file, as handlers and webhooks see them.
//
// A hook is a subscriber that a publish makes (docs/adr/0027), so its place is in the store.
// The dispatcher of gateway/webhook is told by Heard which channels got a message, here or on
// another front end, and walks over all channels when it takes the lead, when messages of
// other front ends may have been lost, and every ten minutes.

// Database is the database whose channels are served over HTTP, and have webhooks.
const Database = 0

// dispatcher makes the dispatcher of webhooks.
func (w *Web) dispatcher() *webhook.Dispatcher {
	return webhook.New(webhook.Options{
		Store:        w.commands,
		Hooks:        func(c string) ([]*webhook.Hook, error) { return w.rules.Load().Hooks(c) },
		Channels:     w.hookedChannels,
		Leads:        w.o.Host.Leads,
		AllowPrivate: func() bool { return w.o.Config.Bool("webhook-private-addresses") },
		Log:          w.o.ClientLog,
	})
}

// Hooked reports whether there are webhooks: then Heard needs the channel events of other
// front ends, too.
func (w *Web) Hooked() bool { return w != nil && w.hooked.Load() != nil }

// Listens reports whether Heard needs the events of channels: for HTTP, webhooks or metrics.
func (w *Web) Listens() bool {
	return w != nil && (w.gateway != nil || w.hooked.Load() != nil || w.o.Config.Str("metrics-addr") != "")
}

// Heard notes committed events of this or another front end. It does not wait or keep events.
func (w *Web) Heard(events []keyspace.Event) {
	if w == nil {
		return
	}
	m := w.hooked.Load()
	for i := range events {
		e := &events[i]
		if e.Class != keyspace.ChannelEv || e.Name != "cpublish" || e.DB != Database {
			continue
		}
		w.backlog.note(e.Key)
		if m != nil && len(m.match(e.Key).Hooks) > 0 {
			w.hooks.Hint(string(e.Key))
		}
	}
}

// Missed is called when events of other front ends may have been lost.
func (w *Web) Missed() {
	if w.Hooked() {
		w.hooks.Refresh()
	}
}

const (
	scanCount = "512"
	// scanPause is the time between two parts of a walk, so that it takes a fraction of the
	// machine only.
	scanPause = 2 * time.Millisecond
)

// hookedChannels visits the channels that have webhooks.
func (w *Web) hookedChannels(ctx context.Context, visit func(channel string)) error {
	m := w.hooked.Load()
	if m == nil { // the rules have changed
		return nil
	}
	for cursor := "0"; ; {
		reply, err := w.commands.Run(ctx, store.Args("SCAN", cursor, "TYPE", "channel", "COUNT", scanCount)...)
		if err != nil {
			return err
		}
		parts, ok := reply.([]store.Reply)
		if !ok || len(parts) != 2 {
			return store.ErrReply
		}
		next, isText := parts[0].([]byte)
		names, isList := parts[1].([]store.Reply)
		if !isText || !isList {
			return store.ErrReply
		}
		for _, n := range names {
			name, ok := n.([]byte)
			if !ok {
				return store.ErrReply
			}
			if len(m.match(name).Hooks) > 0 {
				visit(string(name))
			}
		}
		if cursor = string(next); cursor == "0" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scanPause):
		}
	}
}

// matcher is a set of rules as handlers see it. It caches recent matches, since every
// command on a channel needs one.
type matcher struct {
	patterns []rules.Pattern
	mu       sync.RWMutex
	known    map[string]channel.Rule
}

// maxKnown is how many names are cached.
const maxKnown = 16384

// newMatcher returns nil for a set without rules.
func newMatcher(set *rules.Set) *matcher {
	if set.Empty() {
		return nil
	}
	return &matcher{patterns: set.Patterns(), known: make(map[string]channel.Rule)}
}

// Match implements channel.Rules.
func (m *matcher) Match(db int, name []byte) channel.Rule {
	r := m.match(name)
	if db != Database {
		r.Hooks = nil // webhooks deliver from Database only
	}
	return r
}

func (m *matcher) match(name []byte) channel.Rule {
	m.mu.RLock()
	r, ok := m.known[string(name)]
	m.mu.RUnlock()
	if ok {
		return r
	}
	for _, p := range m.patterns {
		if !p.Regex.Match(name) {
			continue
		}
		r.Expire = max(r.Expire, p.Expire.Milliseconds())
		for _, s := range p.Subscribers {
			if !slices.Contains(r.Hooks, s) {
				r.Hooks = append(r.Hooks, s)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxKnown {
		clear(m.known)
	}
	m.known[string(name)] = r
	return r
}
