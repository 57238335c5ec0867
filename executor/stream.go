package executor

import (
	"bytes"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
)

// The stream of a master. Its commands are calls like all others, but for Call.Row: the row
// that tells how much of the stream is applied is checked and moved on inside the execution of
// each command, so both are committed together, however the commands are divided into
// commits. A command is applied only where the one before it is, even if two processes of a
// shared store read the same stream.

// ErrMoved: the row that a call begins with has another value. The call has had no effect.
var ErrMoved = keyspace.ErrPosition

// admit returns an error if a call may not be executed on the state of the store.
func (b *Batch) admit(c *Call) error {
	if b.refuses(c.Cmd, c) {
		return command.ErrReadOnlyReplica
	}
	if c.Row == nil {
		return nil
	}
	b.rows.Check(c.Row)
	v, _ := b.tx.GetRow(c.Row)
	switch {
	case b.tx.Err() != nil:
		return b.tx.Err()
	case !bytes.Equal(v, c.Before):
		return ErrMoved
	}
	b.rows.Put(c.Row, c.After)
	return nil
}

// refuses reports whether a command of a call writes to a replica. The role is the same from
// the beginning of the batch to its commit, since who changes it latches the whole keyspace.
func (b *Batch) refuses(cmd *command.Command, c *Call) bool {
	return b.readOnly && cmd.Flags&command.Write != 0 && c.Row == nil
}

// Apply runs calls of a master's stream in their order, and commits them. All have a Row. If
// one fails, it and those behind it have had no effect, those before it are committed, and
// Call.Err says why. err is the error of a commit: what was committed then is known from the row
// alone.
func (x *Executor) Apply(calls []*Call) (t engine.Ticket, err error) { return x.store.apply(calls) }

func (s localStore) apply(calls []*Call) (t engine.Ticket, err error) {
	b := s.x.idle.Get().(*Batch)
	defer s.x.idle.Put(b)
	b.err = nil
	for _, c := range calls {
		c.Detour = 0
		if b.Run(c) != 0 {
			if t = max(t, b.Commit()); b.err != nil {
				return t, b.err
			}
			t = max(t, b.runOnWorker(c))
		}
		if c.Err != nil {
			break
		}
	}
	t = max(t, b.Commit())
	b.lease.Pass()
	return t, b.err
}

func (s *sharedStore) apply(calls []*Call) (t engine.Ticket, err error) {
	b := s.x.idle.Get().(*Batch)
	defer s.x.idle.Put(b)
	for len(calls) > 0 {
		b.err = nil
		done, ticket := b.runGroup(calls, func() bool { return false })
		t = max(t, ticket)
		if b.err != nil {
			return t, b.err
		}
		if done == 0 {
			t = max(t, s.runSingle(calls[0]))
			done = 1
		}
		for _, c := range calls[:done] {
			if c.Err != nil {
				return t, nil
			}
		}
		calls = calls[done:]
	}
	return t, nil
}
