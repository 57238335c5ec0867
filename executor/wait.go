package executor

import (
	"container/list"
	"sync"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/wire"
)

// Clients that wait: BLPOP and its like.
//
// A handler that finds nothing returns a *command.Block. Its call becomes a
// Waiter, queued under its keys while their latches are held: a writer that adds an
// element later holds the latch too and finds the waiter. Every keyspace.Tx.Store of
// a value that clients can wait for notes its key as ready while any client waits.
//
// Waiters are served by the batch that made their key ready, right after the
// command that did, before any other command sees the key: in the order of their
// arrival, each by running its call again inside that batch. A served call may
// make other keys ready and so serve other waiters. A waiter's reply is sent when
// the batch is durable, like all replies.
//
// When a latch is taken or rows are not in memory, the key is left to a goroutine that
// can wait, after the commit: see wait_wake.go. The same holds when one write answers
// very many clients: see wait_portion.go.

// Waiter is a call that waits. Its maker may end it by Cancel or End.
type Waiter struct {
	call  Call
	block command.Block
	done  func(*Waiter)
	x     *Executor

	mu    sync.Mutex // held while the call is run, or ended
	over  bool
	taken bool   // a batch has served it and is to be committed
	ended *error // what End was called with while taken
	noted bool   // in the queues of its keys
	// charged are the bytes of the reply that count as held by clients.
	charged  int64
	canceled bool
	seq      uint64 // its place in the order of arrival
	nodes    []*list.Element

	// Serving, if set, is called when the batch that served the waiter is committed, before
	// the listener gets the effects and before done. Locks are held: Serving must not wait.
	Serving func()

	// Ticket and Failed are set when the waiter is over: what the reply waits for, and
	// whether it is an error.
	Ticket engine.Ticket
	Failed bool
}

// NewWaiter makes a waiter of a call that is about to be queued; done is called
// once when there is a reply, from any goroutine and with no lock held. The
// arguments of the call and of the block must not be changed.
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

// takes reports whether the call may consume something that other clients wait for.
func (w *Waiter) takes() bool { return w.call.writes() && !w.block.Shares }

// Reply returns the reply, once the waiter is over.
func (w *Waiter) Reply() []byte { return w.call.Reply.Buf }

// Cancel removes the waiter without a reply.
func (w *Waiter) Cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.canceled = true
	w.release()
	w.leaveLocked()
}

// End ends the waiter with an error or, if err is nil, with the reply for a time that is over. It reports false
// if the waiter is over already, or a batch that has served it is being committed.
func (w *Waiter) End(err error) bool {
	w.mu.Lock()
	if w.taken && w.ended == nil {
		w.ended = &err
	}
	if w.over || w.taken {
		w.mu.Unlock()
		return false
	}
	w.endLocked(err)
	return true
}

// endTaken does what End was asked to do while a batch had served the waiter: the batch is
// undone. Nobody serves the waiter in between, since it counts as taken until then.
func (w *Waiter) endTaken(err error) {
	w.mu.Lock()
	if w.taken = false; w.over { // canceled
		w.mu.Unlock()
		return
	}
	w.endLocked(err)
}

// endLocked is End, and unlocks w.mu.
func (w *Waiter) endLocked(err error) {
	w.leaveLocked()
	switch {
	case err != nil:
		w.Failed = true
		w.call.Reply.Error(command.Text(err))
	case w.block.Acks != nil:
		w.block.Acks.Reply(w.call.Reply)
	default:
		w.call.Reply.NullArray()
	}
	w.mu.Unlock()
	w.done(w)
}

// leaveLocked removes the waiter from the queues of its keys. w.mu is held.
func (w *Waiter) leaveLocked() {
	if w.over = true; w.noted {
		w.noted = false
		w.x.waiting.remove(w)
		w.x.space.Waiting.Add(-1)
	}
}

// leave removes a waiter that a committed batch has served.
func (w *Waiter) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaveLocked()
}

// Waiting returns how many clients wait, and at how many keys.
func (x *Executor) Waiting() (clients, keys int) {
	x.waiting.mu.Lock()
	defer x.waiting.mu.Unlock()
	return x.waiting.n, len(x.waiting.at)
}

// WaitingGone returns how many keys have waiters that are run again when the key is
// gone.
func (x *Executor) WaitingGone() int {
	x.waiting.mu.Lock()
	defer x.waiting.mu.Unlock()
	return len(x.waiting.gone)
}

// enqueue puts a waiter into the queues of its keys. On a store of one process the latches
// of the keys are held.
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

// OnWait sets f, which is called whenever a client begins to wait, with latches held: f must
// not wait. OnWait must be called before the first client waits.
func (x *Executor) OnWait(f func()) { x.onWait.Store(&f) }
