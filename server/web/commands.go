package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/gateway/store"
	"redoubt/wire"
)

// Commands runs commands on the executor for the gateway and the webhooks: store.Store.
//
// A command runs on the caller's goroutine, as a session's command on a worker. One that
// waits becomes a waiter of the executor, like BLPOP, with a timer and no goroutine. No reply
// is returned before the commits it depends on are durable: until then it is in a list that
// one goroutine checks whenever more is durable.
type Commands struct {
	host Host

	mu      sync.Mutex
	eng     engine.Engine // nil until attach
	list    []unsettled
	wake    chan struct{} // has one value when the list should be checked
	closed  bool
	settled sync.WaitGroup
}

// unsettled is a reply that waits for a ticket. tell must not wait.
type unsettled struct {
	ticket engine.Ticket
	tell   func(err error)
}

// NewCommands returns a Commands. Commands are refused until attach.
func NewCommands(host Host) *Commands {
	return &Commands{host: host, wake: make(chan struct{}, 1)}
}

// attach is called when the store is open.
func (s *Commands) attach(eng engine.Engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.eng = eng
	s.settled.Go(s.settle)
}

// close answers replies that still wait for durability with an error. No command is run
// afterwards.
func (s *Commands) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wakeSettler()
	s.settled.Wait()
}

// wakeSettler wakes settle. It does not wait.
func (s *Commands) wakeSettler() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// onDurable calls tell once a ticket is durable, or with an error if it never will be.
func (s *Commands) onDurable(ticket engine.Ticket, tell func(err error)) {
	s.mu.Lock()
	if s.eng == nil || s.closed {
		s.mu.Unlock()
		tell(errStopping)
		return
	}
	s.list = append(s.list, unsettled{ticket, tell})
	s.mu.Unlock()
	s.wakeSettler()
}

var errStopping = command.Error("UNAVAILABLE the server is shutting down")

// settle calls tell for replies that have become durable, until close.
func (s *Commands) settle() {
	var ready []unsettled
	for {
		// In this order: a ticket that was durable before the store failed is no error.
		failed := s.eng.Err()
		durable := s.eng.Durable()
		s.mu.Lock()
		closed, kept := s.closed, s.list[:0]
		if closed && failed == nil {
			failed = errStopping
		}
		for _, u := range s.list {
			if u.ticket <= durable || failed != nil {
				ready = append(ready, u)
			} else {
				kept = append(kept, u)
			}
		}
		clear(s.list[len(kept):])
		s.list = kept
		s.mu.Unlock()
		for i, u := range ready {
			if u.ticket <= durable {
				u.tell(nil)
			} else {
				u.tell(failed)
			}
			ready[i] = unsettled{}
		}
		ready = ready[:0]
		if closed {
			return
		}
		<-s.wake
	}
}

// prepare makes a call of the arguments, or returns the error if it must not be run.
func (s *Commands) prepare(args [][]byte) (*executor.Executor, *executor.Call, error) {
	cmd := s.host.Command(args[0])
	if cmd == nil {
		return nil, nil, store.Error("ERR unknown command " + string(args[0]))
	}
	if err := s.host.Refused(cmd, args); err != nil {
		return nil, nil, store.Error(command.Text(err))
	}
	return s.host.Executor(), &executor.Call{Cmd: cmd, Args: args, Reply: &wire.Writer{Proto: 2}}, nil
}

// Run implements store.Store.
func (s *Commands) Run(ctx context.Context, args ...[]byte) (store.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x, c, err := s.prepare(args)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	ticket := x.RunOnWorker(c)
	s.host.Ran(c.Cmd, time.Since(begin), c.Failed)
	if ticket > x.Engine().Durable() {
		durable := make(chan error, 1)
		s.onDurable(ticket, func(err error) { durable <- err })
		select {
		case err = <-durable:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return nil, failure(err)
		}
	}
	return store.Decode(c.Reply.Buf)
}

// failure converts an error for the gateway.
func failure(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return store.Error(command.Text(err))
}

// Await implements store.Store.
func (s *Commands) Await(args [][]byte, done func(store.Reply, error)) (cancel func()) {
	x, c, err := s.prepare(args)
	if err != nil {
		done(nil, err)
		return func() {}
	}
	a := &awaiting{s: s, done: done, begin: time.Now(), cmd: c.Cmd}
	c.OnBlock = func(block *command.Block) *executor.Waiter {
		a.block = time.Duration(block.Timeout) * time.Millisecond
		a.waiter = x.NewWaiter(*c, block, 2, a.served)
		return a.waiter
	}
	ticket := x.RunOnWorker(c)
	if c.Blocked {
		a.limit()
		return a.cancel
	}
	s.host.Ran(c.Cmd, time.Since(a.begin), c.Failed)
	tell := func(err error) {
		if a.end() {
			a.tell(c.Reply.Buf, err)
		}
	}
	if ticket <= x.Engine().Durable() {
		tell(nil)
	} else {
		s.onDurable(ticket, tell)
	}
	return a.cancel
}

// awaiting is a command that waits, or whose reply does.
type awaiting struct {
	s      *Commands
	cmd    *command.Command
	begin  time.Time
	done   func(store.Reply, error)
	waiter *executor.Waiter
	block  time.Duration

	mu    sync.Mutex
	over  bool // done was called, or the call was cancelled
	timer *time.Timer
}

// limit starts the timer that ends the waiting.
func (a *awaiting) limit() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over && a.block > 0 {
		a.timer = time.AfterFunc(a.block, func() { a.waiter.End(nil) })
	}
}

// served is called by the executor, perhaps in the batch of a publisher, which must not be
// delayed: settle does the rest.
func (a *awaiting) served(w *executor.Waiter) {
	a.s.host.Ran(a.cmd, 0, w.Failed)
	a.s.onDurable(w.Ticket, func(err error) {
		if a.end() { // else cancel gives the reply back
			a.tell(w.Reply(), err)
			w.Release()
		}
	})
}

// end reports whether the command is over by this call. Whoever ends it calls done, or has
// the waiter forgotten.
func (a *awaiting) end() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.over
	a.over = true
	if a.timer != nil {
		a.timer.Stop()
	}
	return !was
}

// tell calls done with a reply, or why there is none.
func (a *awaiting) tell(reply []byte, err error) {
	if err != nil {
		a.done(nil, failure(err))
		return
	}
	a.done(store.Decode(reply))
}

// cancel ends the waiting without calling done.
func (a *awaiting) cancel() {
	if a.end() && a.waiter != nil {
		a.waiter.Cancel()
	}
}
