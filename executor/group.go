package executor

import (
	"sync"
	"time"

	"redoubt/command"
	"redoubt/engine"
)

// A group of calls is run as one transaction: their latches are taken at once, their rows
// are fetched at once, and one commit answers all of them. There are two kinds:
//
//   - the commands of one connection's pipeline (RunTogether);
//   - commands of several clients that write one key. On a remote store each would wait for
//     the round trips of all commands before it. So the commands that come while one is
//     under way wait, and then the first of them runs all as one group (group commit).

const (
	maxGroup     = 64       // calls of several clients in one transaction
	maxGroupArgs = 16 << 10 // bytes that the arguments of each call may have
)

// ungroupable are the flags of commands that are never run in a group.
const ungroupable = command.Blocking | command.Exclusive | command.OneState | command.OnWorker

// RunTogether runs the first calls of a pipeline as one transaction, all of one
// connection and with one writer. It returns how many it has run; the next call has met a
// detour. The replies wait for the ticket t.
func (x *Executor) RunTogether(calls []Call) (done int, t engine.Ticket) {
	list := make([]*Call, len(calls))
	for i := range calls {
		list[i] = &calls[i]
	}
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
	return b.runGroup(list, func() bool { return false })
}

// runGroup runs calls as one transaction, and returns how many of them it has run; the
// others must be run one by one. The transaction is retried after a conflict, until split
// reports that the calls cannot be committed together: then done is 0.
func (b *Batch) runGroup(calls []*Call, split func() bool) (done int, t engine.Ticket) {
	for _, c := range calls {
		c.Start = len(c.Reply.Buf)
	}
	takeBack := func() {
		for i := len(calls) - 1; i >= 0; i-- { // several may have one writer
			c := calls[i]
			c.Reply.Buf = c.Reply.Buf[:min(c.Start, len(c.Reply.Buf))]
		}
	}
	err := b.store.retry(nil, func() (err error) {
		takeBack()
		if split() {
			done, t = 0, 0
			return nil
		}
		done, err = b.runAll(calls)
		t = b.Commit()
		return err
	})
	if err != nil {
		takeBack()
		for _, c := range calls {
			c.fail(err)
		}
		done = len(calls)
	}
	return done, t
}

// runAll runs calls in the batch, up to the first that meets a detour.
func (b *Batch) runAll(calls []*Call) (done int, err error) {
	if _, err = b.begin(); err != nil {
		return 0, err
	}
	b.grouped = true
	defer func() { b.grouped = false }()
	b.keys = b.keys[:0]
	for _, c := range calls {
		if c.writes() {
			b.args = c.Args
			c.Cmd.EachKey(c.Args, b.eachLatch)
		}
	}
	b.latch.Lock(b.keys)
	b.fetchAhead(calls, nil)
	for ; done < len(calls) && !b.store.isStale(); done++ {
		c := calls[done]
		c.Start = len(c.Reply.Buf)
		if b.Run(c) != 0 {
			break
		}
	}
	return done, nil
}

// errKeyBusy is the reply to a command that has waited too long for others on its key.
var errKeyBusy = command.Error("TRYAGAIN too many commands write the same key at the same time; this one was not run, try again later")

// groups has, per stripe, whether a writer is under way and the calls that wait for it.
type groups struct {
	mu      sync.Mutex
	waiting map[uint32][]*groupMember // by stripe; an entry means that a writer is under way
}

// groupMember is a call that waits for its turn.
type groupMember struct {
	call   *Call
	came   time.Time
	turn   chan []*groupMember // gets the group that the call is to run, or nil when it was run
	ticket engine.Ticket
}

// groupable reports whether a call may be run in a group with calls of other clients on the
// same stripe, which it returns.
func (s *sharedStore) groupable(c *Call) (stripe uint32, ok bool) {
	i, one := c.Cmd.OneKeyAt()
	if !one || i >= len(c.Args) || c.Queue != nil || c.Watch != nil || c.Cmd.Flags&ungroupable != 0 || c.Cmd.Group == command.Scripting || !c.writes() {
		return 0, false
	}
	size := 0
	for _, a := range c.Args {
		size += len(a)
	}
	return s.x.latches.Stripe(c.Args[i]), size <= maxGroupArgs
}

// runGrouped runs a call alone if no other writer is under way on its stripe, else in a
// group.
func (s *sharedStore) runGrouped(c *Call, stripe uint32) engine.Ticket {
	m := &groupMember{call: c, came: time.Now()}
	group := []*groupMember{m}
	if !s.groups.first(stripe, m) {
		if group = <-m.turn; group == nil {
			return m.ticket
		}
	}
	defer s.groups.next(stripe)
	s.runMembers(group)
	for _, other := range group[1:] {
		other.turn <- nil
	}
	return m.ticket
}

// first reports whether no call is under way on the stripe. Else m joins those that wait.
func (g *groups) first(stripe uint32, m *groupMember) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting, busy := g.waiting[stripe]
	if busy {
		m.turn = make(chan []*groupMember, 1)
		waiting = append(waiting, m)
	}
	g.waiting[stripe] = waiting
	return !busy
}

// next lets the next calls on the stripe begin.
func (g *groups) next(stripe uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := g.waiting[stripe]
	if len(waiting) == 0 {
		delete(g.waiting, stripe)
		return
	}
	n := min(len(waiting), maxGroup)
	g.waiting[stripe] = waiting[n:]
	waiting[0].turn <- waiting[:n:n]
}

// runMembers runs the calls of a group. A call that has waited for half of retryFor fails:
// it would hardly be answered in time.
func (s *sharedStore) runMembers(group []*groupMember) {
	var all []*Call
	members := group[:0:0]
	for _, m := range group {
		if m.turn != nil && time.Since(m.came) > s.retryFor/2 {
			m.call.fail(errKeyBusy)
			continue
		}
		all, members = append(all, m.call), append(members, m)
	}
	done, t := 0, engine.Ticket(0)
	if len(all) > 1 {
		b := s.x.idle.Get().(*Batch)
		r := b.store.(*sharedBatch)
		r.group, r.split = true, false
		done, t = b.runGroup(all, func() bool { return r.split })
		r.group = false
		s.x.idle.Put(b)
		s.x.Stats.Joined.Add(int64(done))
	}
	for _, m := range members[:done] {
		m.ticket = m.call.ready(t)
	}
	for _, m := range members[done:] {
		m.ticket = s.runSingle(m.call)
	}
}
