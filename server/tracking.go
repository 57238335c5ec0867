package server

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
)

// Client-side caching: which keys clients have read, so that they can be told when
// one changes. The commands are in cmd_client_tracking.go.
//
// Invariant: what a client got by a tracked read and has not been told to drop
// since is what the key holds, or the message that it is not is on its way. A
// client that has taken all that was sent to it until a write was answered keeps
// nothing that the write has outdated.
//
// Why it holds:
//  1. A key is remembered before it is read. A commit that the read did not see
//     became visible after that, and only then is the table looked at for it
//     (heard, called with the latches held). So the message is sent.
//  2. A commit between the two takes the entry out, although the read sees what it
//     wrote, and the client is not tracked for it. But the message then stands
//     behind the reply in the client's output, so the client drops it: the queue is
//     moved between commands only (see push.go). A command that waited is not under
//     way all the time: readDone looks, behind its reply, whether the entry is still
//     there, and sends the message once more if not.
//  3. Reads of a script on a snapshot that is older than the entry (late) are told
//     to be dropped always.
//  4. Writers note what they change only while somebody observes. What a batch has
//     changed before the first client tracks, and commits after it, is not noted;
//     such a batch says so (Effects.Unseen), and everything is dropped.
//
// With a redirection the message goes to another connection, where it may come
// before the reply: the client must not keep a reply whose key was invalidated
// since it sent the request, as with Redis.
//
// The table is by key alone, for all databases, as in Redis. It is bounded: beyond
// tracking-table-max-keys, or a quarter of maxmemory-clients, some other key is
// forgotten, and its readers told to drop it.
type tracking struct {
	srv     *Server
	clients atomic.Int64
	max     atomic.Int64
	keys    atomic.Int64
	bytes   atomic.Int64  // what the table takes; it is part of what clients hold
	told    atomic.Uint64 // how often clients were told of changes
	seed    maphash.Seed
	parts   [trackParts]trackPart

	mu       sync.RWMutex
	space    *keyspace.Space // when the store is there
	all      map[*tracker]struct{}
	prefixes map[string]map[*tracker]struct{} // of BCAST
}

// tracker is what a session wants to be told. Its state may be read with its own lock
// or the session's, and is changed with both, but for broken, which needs its own, and
// caching, which needs the session's.
type tracker struct {
	id int64
	mu sync.Mutex
	s  *session // nil when it has ended
	trackState

	stale []string // what a worker read for the command under way, perhaps in an older state
	began uint64   // tracking.told when that command began
	held  int      // what its prefixes take; it belongs to the session's mu
}

// prefixSize is about what a prefix takes besides its name.
const prefixSize = 192

type trackState struct {
	trackOptions
	on      bool
	broken  bool // the connection to which messages are redirected is gone
	caching bool // CLIENT CACHING was given
}

type trackOptions struct {
	redirect                     int64
	bcast, optin, optout, noloop bool
	prefixes                     []string
}

func (t *tracking) init(srv *Server) {
	t.srv, t.seed = srv, maphash.MakeSeed()
	t.all, t.prefixes = make(map[*tracker]struct{}), make(map[string]map[*tracker]struct{})
}

// attach is told of the store when it is there.
func (t *tracking) attach(space *keyspace.Space) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.space = space
	space.Observers.Add(t.clients.Load())
}

// trackFigures are what INFO tells.
type trackFigures struct{ keys, items, prefixes int64 }

func (t *tracking) figures() trackFigures {
	t.mu.RLock()
	defer t.mu.RUnlock()
	f := trackFigures{keys: t.keys.Load(), prefixes: int64(len(t.prefixes))}
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		f.items += p.items
		p.mu.Unlock()
	}
	return f
}

// beginTracking tracks keys for the session, or changes how. mu is held.
func (s *session) beginTracking(o trackOptions) {
	t, k := &s.srv.tracking, s.tracker
	if k == nil {
		k = &tracker{id: s.id, s: s}
		s.tracker, s.call.Reads = k, s.nestedRead
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.on {
		t.all[k] = struct{}{}
		t.clients.Add(1)
		if t.space != nil {
			t.space.Observers.Add(1)
		}
		t.srv.interested()
	}
	prefixes := k.prefixes
	k.trackOptions, k.on, k.broken = o, true, false
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
			t.prefixes[p] = make(map[*tracker]struct{})
		}
		t.prefixes[p][k] = struct{}{}
	}
}

// endTracking tracks no more keys for the session. What it has read stays in the
// table until it changes: to look for it would take long. mu is held.
func (s *session) endTracking() {
	t, k := &s.srv.tracking, s.tracker
	if k == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.closed {
		k.s = nil // the table may know the tracker for long
	}
	if !k.on {
		return
	}
	for _, p := range k.prefixes {
		if delete(t.prefixes[p], k); len(t.prefixes[p]) == 0 {
			delete(t.prefixes, p)
		}
	}
	delete(t.all, k)
	if t.clients.Add(-1) == 0 {
		t.forget() // from now on nobody is told what changes
	}
	if t.space != nil {
		t.space.Observers.Add(-1)
	}
	k.trackState, k.held = trackState{}, 0
}

// remembers says whether reads of the session are remembered just now.
func (k *tracker) remembers(cmd *command.Command) bool {
	return k.on && !k.bcast && cmd.Flags&command.ReadOnly != 0 && cmd.Group != command.Scripting &&
		!(k.optin && !k.caching) && !(k.optout && k.caching)
}

// trackRead remembers the keys of a command that is about to be run, on the
// carrier, which holds mu. A write to one of them that this turn has not committed
// yet is committed first: it is no change of what is read.
func (s *session) trackRead(cmd *command.Command, args [][]byte) {
	if s.tracker.remembers(cmd) {
		s.work.batch.TellOf(cmd, args, s.call.Guard)
		if i, one := cmd.OneKeyAt(); one {
			s.srv.tracking.remember(s.tracker, args[i])
			return
		}
		cmd.EachKey(args, func(i int, _ *command.KeySpec) { s.srv.tracking.remember(s.tracker, args[i]) })
	}
}

// nestedRead is told of a read by EXEC or a script: see executor.Call.Reads. It
// runs on the carrier, or on a worker while the session waits.
func (s *session) nestedRead(cmd *command.Command, args [][]byte, late bool) {
	k := s.tracker
	if k == nil || !k.remembers(cmd) {
		return
	}
	cmd.EachKey(args, func(i int, _ *command.KeySpec) {
		s.srv.tracking.remember(k, args[i])
		// On a shared store the state is at most as old as the command.
		if late && !(s.srv.remote && s.srv.tracking.told.Load() == k.began) {
			k.stale = append(k.stale, string(args[i]))
		}
	})
}

// readDone is called when the reply of a command that did not run on the carrier is
// in the output: see 2 and 3 above. cmd is the command if it has waited.
func (s *session) readDone(cmd *command.Command, args [][]byte) {
	k := s.tracker
	if k == nil {
		return
	}
	if cmd != nil && k.remembers(cmd) {
		cmd.EachKey(args, func(i int, _ *command.KeySpec) {
			if !s.srv.tracking.has(k, args[i]) {
				k.stale = append(k.stale, string(args[i]))
			}
		})
	}
	for _, key := range k.stale {
		e := newEncoder()
		e.invalidation([]string{key})
		k.send(e, s.srv, 0)
		e.free()
	}
	k.stale = nil
}

// cachingOver ends CLIENT CACHING once the command behind it was run. It is called
// before the next one.
func (s *session) cachingOver() {
	if last := s.lastCmd; s.multi == nil && last != nil && (last.Parent == nil || last.Parent.Name != "client") {
		s.tracker.caching = false
	}
}

func (k *tracker) is(f func() bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return f()
}

// changed is told what a commit has changed.
func (t *tracking) changed(fx *keyspace.Effects, ticket engine.Ticket) {
	if t.clients.Load() == 0 {
		return
	}
	t.told.Add(1)
	all := fx.Unseen || fx.Flushed
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
		t.invalidateAll(ticket)
	}
}

// invalidateAll has all clients drop everything.
func (t *tracking) invalidateAll(ticket engine.Ticket) {
	t.forget()
	e := newEncoder()
	defer e.free()
	e.invalidation(nil)
	t.mu.RLock()
	defer t.mu.RUnlock()
	for k := range t.all {
		k.send(e, t.srv, ticket)
	}
}

// broadcast tells clients in BCAST mode which keys with their prefixes were
// changed: all keys of a commit in one message for each prefix.
func (t *tracking) broadcast(touched []keyspace.Touch, ticket engine.Ticket) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.prefixes) == 0 {
		return
	}
	by := make(map[string]int64) // who changed a key last
	for _, touch := range touched {
		if touch.Key != nil {
			by[string(touch.Key)] = touch.By
		}
	}
	e := newEncoder()
	defer e.free()
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
		e.invalidation(keys)
		for k := range trackers {
			if !k.is(func() bool { return k.noloop }) {
				k.send(e, t.srv, ticket)
				continue
			}
			others := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return by[key] == k.id })
			if len(others) > 0 {
				own := newEncoder()
				own.invalidation(others)
				k.send(own, t.srv, ticket)
				own.free()
			}
		}
	}
}

// invalidation makes the message that keys were changed, all without any: in RESP3
// a push of its own, in RESP2 one of a channel.
func (e *encoder) invalidation(keys []string) {
	e.reset()
	e.resp2 = append(e.resp2, "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"...)
	e.resp3 = append(e.resp3, ">2\r\n$10\r\ninvalidate\r\n"...)
	if keys == nil {
		e.resp2, e.resp3 = append(e.resp2, "$-1\r\n"...), append(e.resp3, "_\r\n"...)
		return
	}
	at := len(e.resp3)
	b := append(strconv.AppendInt(append(e.resp3, '*'), int64(len(keys)), 10), '\r', '\n')
	for _, key := range keys {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(key)), 10), '\r', '\n')
		b = append(append(b, key...), '\r', '\n')
	}
	e.resp2, e.resp3 = append(e.resp2, b[at:]...), b
}

// send sends a message to the client, or to where it has messages redirected. A
// RESP2 client can get one only there, and only if it has subscribed to something.
func (k *tracker) send(e *encoder, srv *Server, ticket engine.Ticket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.on || k.s == nil:
	case k.redirect == 0:
		k.s.pushEncoded(&encoder{resp3: e.resp3}, ticket)
	default:
		if to := srv.clients.find(k.redirect); to == nil {
			k.broken = true
			b := append(strconv.AppendInt([]byte(">2\r\n$21\r\ntracking-redir-broken\r\n:"), k.redirect, 10), '\r', '\n')
			k.s.pushEncoded(&encoder{resp3: b}, ticket)
		} else if to.subscribed.Load() {
			to.pushEncoded(e, ticket)
		} else {
			to.pushEncoded(&encoder{resp3: e.resp3}, ticket)
		}
	}
}
