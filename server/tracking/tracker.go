// Package tracking implements client-side caching: it remembers the keys that clients have
// read, and sends invalidations when one changes.
//
// The package promises: the result of a tracked read that was not invalidated is current,
// or its invalidation is on its way. A client that has taken all that was sent to it until
// a write was answered keeps no result that the write has outdated.
//
// Why the promise holds:
//  1. A key is remembered before it is read. A commit that the read did not see
//     became visible after that, and only then looks into the table
//     (Changed, called with the latches held). So the invalidation is sent.
//  2. A commit between remembering and reading removes the entry, although the read sees
//     its rows, and the key is no longer tracked. But the invalidation then stands behind
//     the reply in the client's output, so the client drops the result: the queue is
//     moved between commands only (see package output). For a command that waited,
//     ReadDone checks, behind its reply, whether the entry is still there, and sends the
//     invalidation once more if not.
//  3. Reads of a script on a snapshot that is older than the entry (late) are always
//     invalidated.
//  4. Writers note changed keys only while Observers is not zero. Changes that a batch makes
//     before the first client tracks, and commits after it, are not noted; such a batch
//     has Effects.UntrackedTouch set, and everything is invalidated.
//
// With a redirection the message goes to another connection, where it may come
// before the reply: the client must not keep a reply whose key was invalidated
// since it sent the request, as with Redis.
//
// The table is by key alone, for all databases, as in Redis. It is bounded: beyond
// tracking-table-max-keys, or a quarter of the memory limit of clients, another key is
// removed, and invalidated for its readers.
package tracking

import (
	"math"
	"slices"
	"strconv"
	"sync"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/server/output"
)

// Tracker is the tracking state of one client. It belongs to the client's session: its
// methods are called with the session's lock held, or by a worker for which the session
// waits. Its state may be read with its own lock or the session's, and is changed with both,
// but for Broken, which needs its own, and caching, which needs the session's.
type Tracker struct {
	table *Table
	id    int64
	mu    sync.Mutex
	queue *output.Queue // nil when the client has gone
	State

	stale []string // keys that a worker has read for the present command, perhaps in an older state
	began uint64   // Table.told when that command began
	held  int      // bytes of its prefixes; guarded by the session's mu
}

// New returns the tracker of a client, which tracks nothing yet. Its messages go to the queue.
func (t *Table) New(id int64, q *output.Queue) *Tracker { return &Tracker{table: t, id: id, queue: q} }

// Begin starts tracking for the client, or changes its options.
func (k *Tracker) Begin(o Options) {
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.On {
		t.all[k] = struct{}{}
		t.clients.Add(1)
		if t.space != nil {
			t.space.Observers.Add(1)
		}
		t.Wanted()
	}
	prefixes := k.prefixes
	k.Options, k.On, k.Broken = o, true, false
	if k.prefixes = nil; !o.bcast {
		k.held = 0
		return
	}
	if k.prefixes = append(prefixes, o.prefixes...); len(o.prefixes) == 0 {
		k.prefixes = append(k.prefixes, "")
	}
	slices.Sort(k.prefixes)
	k.prefixes = slices.Compact(k.prefixes)
	k.held = 0
	for _, p := range k.prefixes {
		k.held += prefixSize + len(p)
		if t.prefixes[p] == nil {
			t.prefixes[p] = make(map[*Tracker]struct{})
		}
		t.prefixes[p][k] = struct{}{}
	}
}

// prefixSize is about the memory of a prefix without its name.
const prefixSize = 192

// End ends tracking for the client, which may have gone. Keys that it has read stay in the
// table until they change: to find them would take long.
func (k *Tracker) End(gone bool) {
	if k == nil {
		return
	}
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if gone {
		k.queue = nil // the table may know the tracker for long
	}
	if !k.On {
		return
	}
	for _, p := range k.prefixes {
		if delete(t.prefixes[p], k); len(t.prefixes[p]) == 0 {
			delete(t.prefixes, p)
		}
	}
	delete(t.all, k)
	if t.clients.Add(-1) == 0 {
		t.forget() // from now on changes are not noted
	}
	if t.space != nil {
		t.space.Observers.Add(-1)
	}
	k.State, k.held = State{}, 0
}

// Memory returns the bytes of the tracker, without the table.
func (k *Tracker) Memory() int {
	if k == nil {
		return 0
	}
	return k.held
}

// HearsReads reports whether keys that the client has read are invalidated.
func (k *Tracker) HearsReads() bool { return k != nil && k.On && !k.bcast }

// Remembers reports whether the keys of a command are remembered in the present state.
func (k *Tracker) Remembers(cmd *command.Command) bool {
	return k.On && !k.bcast && cmd.Flags&command.ReadOnly != 0 && cmd.Group != command.Scripting &&
		!(k.optin && !k.caching) && !(k.optout && k.caching)
}

// Read remembers the keys of a command that is about to be run, for which Remembers is
// true. Earlier writes to them must have been passed to Changed before: they must not
// invalidate the read.
func (k *Tracker) Read(cmd *command.Command, args [][]byte) {
	if i, one := cmd.OneKeyAt(); one {
		k.table.remember(k, args[i])
		return
	}
	cmd.EachKey(args, func(i int, _ *command.KeySpec) { k.table.remember(k, args[i]) })
}

// Try notes the state of the table before each try of a command that a worker runs.
func (k *Tracker) Try() {
	if k == nil {
		return
	}
	if k.began = math.MaxUint64; k.On { // else changes may not have been noted
		k.began = k.table.told.Load()
	}
}

// NestedRead remembers the keys of a read by EXEC or a script: see executor.Call.Reads.
func (k *Tracker) NestedRead(cmd *command.Command, args [][]byte, late bool) {
	if k == nil || !k.Remembers(cmd) {
		return
	}
	t := k.table
	cmd.EachKey(args, func(i int, _ *command.KeySpec) {
		t.remember(k, args[i])
		// On a shared store the state is at most as old as the command.
		if late && !(t.shared && t.told.Load() == k.began) {
			k.stale = append(k.stale, string(args[i]))
		}
	})
}

// ReadDone sends the invalidations of 2 and 3 at the top, once the reply of a command that
// did not run on the carrier is in the output. cmd is the command if it has waited.
func (k *Tracker) ReadDone(cmd *command.Command, args [][]byte) {
	if k == nil {
		return
	}
	if cmd != nil && k.Remembers(cmd) {
		cmd.EachKey(args, func(i int, _ *command.KeySpec) {
			if !k.table.has(k, args[i]) {
				k.stale = append(k.stale, string(args[i]))
			}
		})
	}
	for _, key := range k.stale {
		e := output.NewEncoder()
		invalidation(e, []string{key})
		k.send(e, 0)
		e.Free()
	}
	k.stale = nil
}

func (k *Tracker) is(f func() bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return f()
}

// send sends a message to the client, or to the connection to which it has messages
// redirected. A RESP2 client gets messages only as such a target, and only with subscriptions.
func (k *Tracker) send(e *output.Encoder, ticket engine.Ticket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.On || k.queue == nil:
	case k.redirect == 0:
		k.queue.PushRESP3(e.RESP3(), ticket)
	default:
		if to, subscribed := k.table.Find(k.redirect); to == nil {
			k.Broken = true
			b := append(strconv.AppendInt([]byte(">2\r\n$21\r\ntracking-redir-broken\r\n:"), k.redirect, 10), '\r', '\n')
			k.queue.PushRESP3(b, ticket)
		} else if subscribed {
			to.PushEncoded(e, ticket)
		} else {
			to.PushRESP3(e.RESP3(), ticket)
		}
	}
}
