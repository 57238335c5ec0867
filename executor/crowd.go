package executor

import (
	"fmt"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/engine"
)

// Writers of one key. On a store of another machine each of them would wait for the
// round trips of all that came before. So those that come while one is under way
// gather, and then the first of them runs them all as one transaction: the more they
// are, the more go together.

// crowds are the writers that are under way, and those that wait for them.
type crowds struct {
	mu sync.Mutex
	at map[uint32][]*member // by stripe; those that wait
}

// member is a call that waits for its turn.
type member struct {
	call   *Call
	came   time.Time
	turn   chan []*member // gets those that it is to run, or nil when it was run
	ticket engine.Ticket
}

const (
	maxCrowd = 64       // calls go together
	maxArgs  = 16 << 10 // bytes that the arguments of each may have
)

// among finds out whether a call may go together with those of others, and with
// which: those of a stripe.
func (x *Executor) among(c *Call) (stripe uint32, ok bool) {
	i, one := c.Cmd.OneKeyAt()
	if !one || i >= len(c.Args) || c.Queue != nil || c.Watch != nil || c.Cmd.Flags&apart != 0 || c.Cmd.Group == command.Scripting || !c.writes() {
		return 0, false
	}
	size := 0
	for _, a := range c.Args {
		size += len(a)
	}
	return x.latches.of(c.Args[i]), size <= maxArgs
}

// runAmong runs a call by itself or, if there are others, with them.
func (x *Executor) runAmong(c *Call, stripe uint32) engine.Ticket {
	m := &member{call: c, came: time.Now()}
	group := []*member{m}
	if !x.crowds.first(stripe, m) {
		if group = <-m.turn; group == nil {
			return m.ticket
		}
	}
	defer x.crowds.next(stripe)
	x.runGroup(group)
	for _, other := range group[1:] {
		other.turn <- nil
	}
	return m.ticket
}

// first says true if nobody is under way on the stripe. Else the call waits.
func (s *crowds) first(stripe uint32, m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, busy := s.at[stripe]
	if busy {
		m.turn = make(chan []*member, 1)
		waiting = append(waiting, m)
	}
	s.at[stripe] = waiting
	return !busy
}

// next lets the next ones on the stripe begin.
func (s *crowds) next(stripe uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.at[stripe]
	if len(waiting) == 0 {
		delete(s.at, stripe)
		return
	}
	n := min(len(waiting), maxCrowd)
	s.at[stripe] = waiting[n:]
	waiting[0].turn <- waiting[:n:n]
}

// runGroup runs some calls that may go together. Who has waited for so long that it
// would hardly have its answer in time fails.
func (x *Executor) runGroup(group []*member) {
	var all []*Call
	members := group[:0:0]
	for _, m := range group {
		if m.turn != nil && time.Since(m.came) > x.retryFor/2 {
			m.call.fail(fmt.Errorf("others on the same key were waited for: %w", engine.ErrUnavailable))
			continue
		}
		all, members = append(all, m.call), append(members, m)
	}
	done, t := 0, engine.Ticket(0)
	if len(all) > 1 {
		done, t = x.runCrowd(all)
		x.Stats.Joined.Add(int64(done))
	}
	for _, m := range members[:done] {
		m.ticket = m.call.ready(t)
	}
	for _, m := range members[done:] {
		m.ticket = x.runShared(m.call)
	}
}

// runCrowd runs calls of several clients as one transaction, and returns how many of
// them it has run; the others must be run by themselves.
func (x *Executor) runCrowd(calls []*Call) (done int, t engine.Ticket) {
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
	for _, c := range calls {
		c.Start = len(c.Reply.Buf)
	}
	takeBack := func() {
		for _, c := range calls {
			c.Reply.Buf = c.Reply.Buf[:c.Start]
		}
	}
	b.shared.crowd, b.shared.apart = true, false
	err := b.retry(nil, func() (err error) {
		takeBack()
		if b.shared.apart {
			done = 0
			return nil
		}
		done, err = b.runTogether(calls)
		t = b.Commit()
		return err
	})
	b.shared.crowd = false
	if err != nil {
		takeBack()
		for _, c := range calls {
			c.fail(err)
		}
		done = len(calls)
	}
	return done, t
}
