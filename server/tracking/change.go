package tracking

import (
	"slices"
	"strconv"
	"strings"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/server/output"
)

// Changed sends the invalidations of a commit.
func (t *Table) Changed(fx *keyspace.Effects, ticket engine.Ticket) {
	if t.clients.Load() == 0 {
		return
	}
	t.told.Add(1)
	all := fx.UntrackedTouch || fx.Flushed
	for i := range fx.Touched {
		touch := &fx.Touched[i]
		if touch.Key == nil {
			all = true
		} else {
			t.invalidate(touch.Key, touch.By, ticket)
		}
	}
	t.broadcast(fx.Touched, ticket)
	if all {
		t.InvalidateAll(ticket)
	}
}

// InvalidateAll empties the table and invalidates all keys of all clients.
func (t *Table) InvalidateAll(ticket engine.Ticket) {
	t.forget()
	e := output.NewEncoder()
	defer e.Free()
	invalidation(e, nil)
	t.mu.RLock()
	defer t.mu.RUnlock()
	for k := range t.all {
		k.send(e, ticket)
	}
}

// broadcast sends the changed keys to clients in BCAST mode: all keys of a commit that have
// a client's prefix in one message for each prefix.
func (t *Table) broadcast(touched []keyspace.Touch, ticket engine.Ticket) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.prefixes) == 0 {
		return
	}
	by := make(map[string]int64) // the client that changed each key last
	for _, touch := range touched {
		if touch.Key != nil {
			by[string(touch.Key)] = touch.By
		}
	}
	e := output.NewEncoder()
	defer e.Free()
	for prefix, trackers := range t.prefixes {
		var keys []string
		for key := range by {
			if strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		slices.Sort(keys)
		invalidation(e, keys)
		for k := range trackers {
			if !k.is(func() bool { return k.noloop }) {
				k.send(e, ticket)
				continue
			}
			others := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return by[key] == k.id })
			if len(others) > 0 {
				own := output.NewEncoder()
				invalidation(own, others)
				k.send(own, ticket)
				own.Free()
			}
		}
	}
}

// invalidation encodes the invalidation of keys, or of all if keys is nil: in RESP3 a push
// of its own kind, in RESP2 a message of a channel.
func invalidation(e *output.Encoder, keys []string) {
	e.Reset()
	e.Extend(func(resp2, resp3 []byte) ([]byte, []byte) {
		resp2 = append(resp2, "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"...)
		resp3 = append(resp3, ">2\r\n$10\r\ninvalidate\r\n"...)
		if keys == nil {
			return append(resp2, "$-1\r\n"...), append(resp3, "_\r\n"...)
		}
		at := len(resp3)
		resp3 = append(strconv.AppendInt(append(resp3, '*'), int64(len(keys)), 10), '\r', '\n')
		for _, key := range keys {
			resp3 = output.AppendBulk(resp3, key)
		}
		return append(resp2, resp3[at:]...), resp3
	})
}
