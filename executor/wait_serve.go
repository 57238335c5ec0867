package executor

import (
	"bytes"
	"math"
	"slices"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
)

// Clients that wait are served by the batch that made their key ready, or by a goroutine
// after its commit.

// wake serves the waiters of the keys that the commands of the batch made ready. Keys
// that become ready meanwhile are served as well.
func (b *Batch) wake() { b.wakeSome(math.MaxInt) }

// wakeSome is wake, but serves up to most waiters in the batch.
func (b *Batch) wakeSome(most int) {
	for i := 0; i < len(b.fx.Ready); i++ {
		r := b.fx.Ready[i]
		if r.Key != nil {
			n := len(b.fx.Ready)
			b.wakeKey(r, most)
			// A call that consumed one element stored the others, which notes the key as ready
			// again; but all waiters of the key have been tried since.
			b.fx.Ready = append(b.fx.Ready[:n], slices.DeleteFunc(b.fx.Ready[n:], func(o keyspace.Ready) bool {
				return o.DB == r.DB && o.Key != nil && bytes.Equal(o.Key, r.Key)
			})...)
			continue
		}
		for _, r := range b.x.waiting.keys(r.DB) {
			b.wakeKey(r, most)
		}
	}
	b.store.woke()
	b.fx.Ready = b.fx.Ready[:0]
}

// wakePage is how many waiters are listed at first: there are mostly fewer elements.
const wakePage = 16

// maxServed is how many waiters a goroutine serves in one commit: each may have to read
// rows, and a transaction of a shared store must not take long.
const maxServed = 128

// servedWork is how many bytes of a portion a served waiter that only reads counts for
// besides its reply: thousands may wait for one message, and must not delay the writer.
const servedWork = 16 << 10

// wakeKey serves the waiters of a key inside the batch, until the batch has served most
// waiters. The others are left to a goroutine.
func (b *Batch) wakeKey(r keyspace.Ready, most int) {
	postponed := false
	what := b.x.eachWaiter(r, func(w *Waiter) serveResult {
		switch {
		case len(b.served) >= most:
			return elsewhere
		case b.copied >= portion && !w.takes():
			postponed = true // it consumes nothing that later waiters could get
			return goOn
		}
		return b.serve(w, r)
	})
	if postponed || what == elsewhere {
		b.postponed = append(b.postponed, r)
	}
}

// eachWaiter calls serve with the waiters of a key, in the order of their arrival, until
// nothing is left for them or serve returns elsewhere; eachWaiter returns what ended it.
func (x *Executor) eachWaiter(r keyspace.Ready, serve func(*Waiter) serveResult) serveResult {
	p, seq, gone := dbKey{r.DB, string(r.Key)}, uint64(0), false
	for page := wakePage; ; page *= 8 { // the next page skips waiters that go on waiting
		list := x.waiting.after(p, seq, page, nil)
		for _, w := range list {
			if seq = w.seq; gone && !w.block.Gone {
				continue
			}
			switch serve(w) {
			case nothingLeft:
				if gone = x.waiting.anyGone(p); !gone {
					return nothingLeft
				}
			case elsewhere:
				return elsewhere
			}
		}
		if len(list) < page {
			return goOn
		}
	}
}

// take notes that the batch has served the waiter. w.mu is held.
func (b *Batch) take(w *Waiter) {
	w.taken = true
	b.store.served(w)
	b.served = append(b.served, w)
}

// serveResult is the outcome of an attempt to serve a waiter.
type serveResult int

const (
	goOn        serveResult = iota // the waiter was served or waits on; the next one is tried
	nothingLeft                    // the key has nothing for its other waiters
	elsewhere                      // this batch cannot serve it: a goroutine must
)

// serve runs a waiter's call inside the batch.
func (b *Batch) serve(w *Waiter, r keyspace.Ready) serveResult {
	if what, ok := b.store.claim(w); !ok {
		return what
	}
	defer w.mu.Unlock()
	if w.over || w.taken {
		return goOn
	}
	c := &w.call
	latched, write := b.latchKeys(c)
	if !latched {
		return elsewhere
	}
	if !w.block.Gone {
		b.tx.Start()
		b.tx.DB, b.tx.Writable, b.tx.Latched = r.DB, false, true
		m := b.tx.Find(r.Key)
		if b.tx.Err() != nil {
			return elsewhere
		}
		if !m.Exists() {
			return nothingLeft
		}
		if m.Type != w.block.Type {
			return goOn
		}
	}
	if c.Caller != nil { // its permissions may have been revoked meanwhile
		if err := c.Caller.Permit(c.Cmd, c.Args); err != nil {
			c.Failed = true
			c.Reply.Error(command.Text(err))
			b.take(w)
			return goOn
		}
	}
	b.tx.Unrefused = true // a refused call would never be run again
	c.Blocked = false
	b.serving = true // on a worker the call may read any number of rows
	d := b.attempt(c, write)
	b.serving, b.tx.Unrefused = false, false
	if d != 0 {
		return elsewhere
	}
	if !c.Blocked {
		b.take(w)
		if !w.takes() {
			b.copied += len(c.Reply.Buf) + servedWork
		}
	}
	return goOn
}

// answerServed hands out the replies of served waiters once the batch is committed; the
// reply of a call that wrote waits for the ticket t.
func (b *Batch) answerServed(t engine.Ticket) {
	for _, w := range b.served {
		w.Ticket, w.Failed = w.call.ready(t), w.call.Failed
		w.charge()
		w.done(w)
	}
	clear(b.served)
	b.served, b.copied = b.served[:0], 0
	for _, r := range b.postponed {
		b.x.wakeAt(dbKey{r.DB, string(r.Key)})
	}
	b.postponed = b.postponed[:0]
}

// undoServed makes the waiters that the batch has served wait again: the batch is retried.
func (b *Batch) undoServed() {
	for _, w := range b.served {
		w.mu.Lock()
		w.taken = w.ended != nil
		w.call.Reply.Buf = w.call.Reply.Buf[:0]
		if w.ended != nil {
			go w.endTaken(*w.ended) // locks are held here
		}
		w.mu.Unlock()
	}
	clear(b.served)
	b.served, b.postponed, b.copied = b.served[:0], b.postponed[:0], 0
}

// wakeLater serves the waiters of a key, on a goroutine that can wait. Calls that only read
// come last: they may have to wait for room.
func (x *Executor) wakeLater(r keyspace.Ready) {
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
	what := x.eachWaiter(r, func(w *Waiter) serveResult {
		if !w.takes() {
			return goOn
		}
		what, err := b.serveLater(w, r)
		if err != nil {
			x.log.Error("waiting clients cannot be served", "err", err)
			return elsewhere
		}
		return what
	})
	for more := what != elsewhere; more; {
		x.awaitRoom()
		var err error
		if more, err = b.serveSharing(r); err != nil {
			x.log.Error("waiting clients cannot be served", "err", err)
			return
		}
	}
}

// sharingBytes is how many bytes of replies serveSharing makes at once.
const sharingBytes = 256 << 10

// serveSharing serves some waiters of a key that only read, in one commit. It reports
// whether there may be more.
func (b *Batch) serveSharing(r keyspace.Ready) (more bool, err error) {
	err = b.store.retry(nil, func() error {
		more = false
		if _, err := b.begin(); err != nil {
			return err
		}
		what := b.x.eachWaiter(r, func(w *Waiter) serveResult {
			switch {
			case w.takes():
				return goOn
			case len(b.served) >= maxServed || b.copied >= sharingBytes:
				more = true
				return elsewhere
			}
			return b.serve(w, r)
		})
		if what == goOn {
			b.wakeSome(maxServed)
		}
		b.Commit()
		return nil
	})
	return more, err
}

// serveLater serves a waiter in a commit of its own, if there is something for it.
func (b *Batch) serveLater(w *Waiter, r keyspace.Ready) (what serveResult, err error) {
	err = b.store.retry(nil, func() error {
		if _, err := b.begin(); err != nil {
			return err
		}
		if what = b.serve(w, r); what == goOn {
			b.wakeSome(maxServed)
		}
		b.Commit()
		return nil
	})
	return what, err
}
