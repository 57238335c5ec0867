package executor

import (
	"bytes"
	"container/list"
	"math"
	"slices"
	"sync"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// Clients that wait: BLPOP and its kin.
//
// A handler that finds nothing returns a *command.Block. Its call becomes a
// Waiter, noted under its keys while their latches are held: whoever puts an
// element there later holds the latch too and sees it. Every keyspace.Tx.Store of
// a value that clients can wait for notes its key as ready while anybody waits.
//
// Waiters are served by the batch that made their key ready, right behind the
// command that did, before any other command sees the key: in the order in which
// they came, each by running its call again inside that batch. What a served call
// puts somewhere may serve others in turn. A waiter's reply goes out when the
// batch is durable, like all others.
//
// Where that cannot be, since a latch is taken or rows are not in memory, the key
// is looked at again by a goroutine that can wait, after the commit.

// Waiter is a call that waits. Who made it may end it by Cancel or End.
type Waiter struct {
	call  Call
	block command.Block
	done  func(*Waiter)
	x     *Executor

	mu    sync.Mutex // held while it is run, or ended
	over  bool
	taken bool   // a batch has served it and is to be committed
	ended *error // End was called meanwhile
	noted bool   // among those who wait
	seq   uint64 // its place in the order of arrival
	nodes []*list.Element

	// Serving, if set, is called when it was served, before anybody hears of what it
	// did and before done, with locks held: it must not wait.
	Serving func()

	// Set when it is over: what the reply waits for, and whether it is an error.
	Ticket engine.Ticket
	Failed bool
}

// NewWaiter makes a waiter of a call that is about to be noted; done is called
// once when there is a reply, from any goroutine and with no lock held. The call's
// arguments and those of the block must stay as they are.
func (x *Executor) NewWaiter(c Call, block *command.Block, proto int, done func(*Waiter)) *Waiter {
	w := &Waiter{x: x, call: c, block: *block, done: done}
	w.call.Reply = &wire.Writer{Proto: proto}
	w.call.Begin = nil
	w.call.Guard, w.call.OnBlock = nil, func(*command.Block) *Waiter { return nil }
	if block.Args != nil {
		w.call.Args = block.Args
	}
	return w
}

// Reply is the reply, once it is over.
func (w *Waiter) Reply() []byte { return w.call.Reply.Buf }

// Cancel forgets the waiter: nobody wants its reply.
func (w *Waiter) Cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave()
}

// End answers with an error, or with null if there is none. It says false when the
// waiter is over already.
func (w *Waiter) End(err error) bool {
	w.mu.Lock()
	if w.taken && w.ended == nil {
		w.ended = &err
	}
	if w.over || w.taken {
		w.mu.Unlock()
		return false
	}
	w.leave()
	if err != nil {
		w.Failed = true
		w.call.Reply.Error(command.Text(err))
	} else {
		w.call.Reply.NullArray()
	}
	w.mu.Unlock()
	w.done(w)
	return true
}

// leave takes the waiter from the keys it waits at. Its mu is held.
func (w *Waiter) leave() {
	if w.over = true; w.noted {
		w.noted = false
		w.x.waiting.remove(w)
		w.x.space.Waiting.Add(-1)
	}
}

// take notes that a batch has served the waiter. Its mu is held.
func (b *Batch) take(w *Waiter) {
	if w.taken = true; b.x.shared == nil {
		w.leave() // nothing will undo it, and the next look at the key should not find it
	}
	b.served = append(b.served, w)
}

// leaves is leave for one that was served by a batch which is committed.
func (w *Waiter) leaves() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave()
}

// undoServed has those wait on whom the batch has served: it will be run again.
func (b *Batch) undoServed() {
	for _, w := range b.served {
		w.mu.Lock()
		w.taken = false
		w.call.Reply.Buf = w.call.Reply.Buf[:0]
		ended := w.ended
		w.ended = nil
		w.mu.Unlock()
		if ended != nil {
			go w.End(*ended)
		}
	}
	clear(b.served)
	b.served, b.later = b.served[:0], b.later[:0]
}

// waiting are the waiters by the keys they wait at, each list in the order in which
// they came.
type waiting struct {
	mu   sync.Mutex
	at   map[place]*list.List
	gone map[place]int // how many of them are to be run when the key is gone
	last uint64
	n    int // waiters; Space.Waiting may count those of other processes, too
}

type place struct {
	db  int
	key string
}

func (q *waiting) add(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at == nil {
		q.at = make(map[place]*list.List)
		q.gone = make(map[place]int)
	}
	q.last++
	q.n++
	w.seq = q.last
	for i, key := range w.block.Keys {
		p := place{w.call.DB, string(key)}
		l := q.at[p]
		if l == nil {
			l = list.New()
			q.at[p] = l
		}
		if i > 0 && l.Len() > 0 && l.Back().Value == w {
			w.nodes = append(w.nodes, nil) // named twice
			continue
		}
		w.nodes = append(w.nodes, l.PushBack(w))
		if w.block.Gone {
			q.gone[p]++
		}
	}
}

func (q *waiting) remove(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n--
	for i, key := range w.block.Keys {
		p := place{w.call.DB, string(key)}
		if l := q.at[p]; l != nil && w.nodes[i] != nil {
			if l.Remove(w.nodes[i]); l.Len() == 0 {
				delete(q.at, p)
			}
			if w.block.Gone {
				if q.gone[p]--; q.gone[p] == 0 {
					delete(q.gone, p)
				}
			}
		}
	}
}

// after lists up to limit waiters at a place that came after the one with the
// number, into buf.
func (q *waiting) after(p place, seq uint64, limit int, buf []*Waiter) []*Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.at[p]
	if l == nil {
		return buf
	}
	for e := l.Front(); e != nil && len(buf) < limit; e = e.Next() {
		if w := e.Value.(*Waiter); w.seq > seq {
			buf = append(buf, w)
		}
	}
	return buf
}

// anyGone says whether somebody at a place is to be run when the key is gone.
func (q *waiting) anyGone(p place) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.gone[p] > 0
}

// keys lists the keys of a database at which somebody waits.
func (q *waiting) keys(db int) (keys []keyspace.Ready) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := range q.at {
		if p.db == db {
			keys = append(keys, keyspace.Ready{DB: db, Key: []byte(p.key)})
		}
	}
	return keys
}

// Waiting returns how many clients wait, and at how many keys.
func (x *Executor) Waiting() (clients, keys int) {
	x.waiting.mu.Lock()
	defer x.waiting.mu.Unlock()
	return x.waiting.n, len(x.waiting.at)
}

// WaitingGone returns at how many keys clients wait that are told when the key is
// gone.
func (x *Executor) WaitingGone() int {
	x.waiting.mu.Lock()
	defer x.waiting.mu.Unlock()
	return len(x.waiting.gone)
}

// enqueue notes a call that waits. The latches of its keys are held.
func (x *Executor) enqueue(w *Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.noted = true
		x.space.Waiting.Add(1)
		x.waiting.add(w)
		if f := x.onWait.Load(); f != nil {
			(*f)()
		}
	}
}

// wake serves those who wait for what the commands of the batch made ready. Keys
// that become ready meanwhile are served as well.
func (b *Batch) wake() { b.wakeSome(math.MaxInt) }

// wakeSome is wake, up to so many served in the batch.
func (b *Batch) wakeSome(most int) {
	for i := 0; i < len(b.fx.Ready); i++ {
		r := b.fx.Ready[i]
		if r.Key != nil {
			n := len(b.fx.Ready)
			b.wakeKey(r, most)
			// Each one who took an element has left others, so the key is ready again; but
			// all who wait there have been looked at behind that.
			b.fx.Ready = append(b.fx.Ready[:n], slices.DeleteFunc(b.fx.Ready[n:], func(o keyspace.Ready) bool {
				return o.DB == r.DB && o.Key != nil && bytes.Equal(o.Key, r.Key)
			})...)
			continue
		}
		for _, r := range b.x.waiting.keys(r.DB) {
			b.wakeKey(r, most)
		}
	}
	if b.x.shared != nil {
		b.fx.Woken = append(b.fx.Woken, b.fx.Ready...)
	}
	b.fx.Ready = b.fx.Ready[:0]
}

// wakePage is how many waiters are listed at first: elements are mostly fewer.
const wakePage = 16

// wakeMost is how many waiters a goroutine serves in one commit: for each it may have to
// read rows, and a transaction of a shared store must not take long.
const wakeMost = 128

func (b *Batch) wakeKey(r keyspace.Ready, most int) {
	p, seq, limit, gone := place{r.DB, string(r.Key)}, uint64(0), wakePage, false
	for {
		list := b.x.waiting.after(p, seq, limit, nil)
		for _, w := range list {
			if seq = w.seq; gone && !w.block.Gone {
				continue
			}
			if len(b.served) >= most {
				b.later = append(b.later, r)
				return
			}
			switch b.serve(w, r) {
			case nothingLeft:
				if gone = b.x.waiting.anyGone(p); !gone {
					return
				}
			case elsewhere:
				b.later = append(b.later, r)
				return
			}
		}
		if len(list) < limit {
			return
		}
		limit = int(^uint(0) >> 1)
	}
}

// served is what came of an attempt to serve a waiter.
type served int

const (
	goOn        served = iota // it was served, or goes on waiting; the next may have luck
	nothingLeft               // nobody else at this key will
	elsewhere                 // this batch cannot tell
)

// serve runs a waiter's call inside the batch.
func (b *Batch) serve(w *Waiter, r keyspace.Ready) served {
	if b.x.shared != nil && len(b.held) == 0 {
		// Another batch that runs it may see a state in which the key was not ready. With
		// no latch held nobody waits for this one meanwhile.
		w.mu.Lock()
	} else if !w.mu.TryLock() {
		// It ends; or another batch runs it, and then sees this key too, or cannot
		// have its latch and leaves it to somebody who will. On a shared store that
		// may be one who looks at this very key, as it was: nobody gets ahead of it.
		if b.x.shared != nil {
			return elsewhere
		}
		return goOn
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
	if c.Caller != nil { // its permissions may have been taken meanwhile
		if err := c.Caller.Permit(c.Cmd, c.Args); err != nil {
			c.Failed = true
			c.Reply.Error(command.Text(err))
			b.take(w)
			return goOn
		}
	}
	b.tx.Unrefused = true // nobody could say when to look again
	c.Blocked = false
	d := b.attempt(c, write)
	b.tx.Unrefused = false
	if d != 0 {
		return elsewhere
	}
	if !c.Blocked {
		b.take(w)
	}
	return goOn
}

// tellServed hands out the replies of waiters once the batch is committed; those
// that change something wait for its ticket.
func (b *Batch) tellServed(t engine.Ticket) {
	for _, w := range b.served {
		w.Ticket, w.Failed = w.call.ready(t), w.call.Failed
		w.done(w)
	}
	clear(b.served)
	b.served = b.served[:0]
	for _, r := range b.later {
		b.x.wakeAt(place{r.DB, string(r.Key)})
	}
	b.later = b.later[:0]
}

// wakeLater serves those who wait at a key, on a goroutine that can wait.
func (x *Executor) wakeLater(r keyspace.Ready) {
	p, seq, page, gone := place{r.DB, string(r.Key)}, uint64(0), wakePage, false
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
	for {
		list := x.waiting.after(p, seq, page, nil)
		for _, w := range list {
			if seq = w.seq; gone && !w.block.Gone {
				continue
			}
			what, err := b.serveLater(w, r)
			if err != nil {
				x.log.Error("waiting clients cannot be served", "err", err)
				return
			}
			gone = gone || what == nothingLeft && x.waiting.anyGone(p)
			if what == elsewhere || what == nothingLeft && !gone {
				return
			}
		}
		if len(list) < page {
			return
		}
		page *= 8 // those who go on waiting are passed over by the next one
	}
}

// serveLater serves a waiter in a commit of its own, if there is something for it.
func (b *Batch) serveLater(w *Waiter, r keyspace.Ready) (what served, err error) {
	err = b.retry(nil, func() error {
		if _, err := b.begin(); err != nil {
			return err
		}
		if what = b.serve(w, r); what == goOn {
			b.wakeSome(wakeMost)
		}
		b.Commit()
		return nil
	})
	return what, err
}
