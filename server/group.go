package server

import (
	"time"

	"redoubt/command"
	"redoubt/executor"
	"redoubt/server/access"
	"redoubt/wire"
)

// Pipelines on a remote store: there every command runs on a worker, and one by one each
// would pay for its own round trips. So the commands of a pipeline that may be grouped are
// handed to one worker, which runs them as one transaction: their rows are fetched at once
// and written at once.

// groupBytes is the largest size of the commands of one group.
const groupBytes = 256 << 10

// groupable reports whether a command may be run in one transaction with others.
func (s *session) groupable(p *parsed, args [][]byte) bool {
	const never = command.Blocking | command.Exclusive | command.OneState | command.OnWorker | command.PubSubFlag
	return p.cmd != nil && p.cmd.Run != nil && p.cmd.Flags&never == 0 && p.cmd.Group != command.Transactions && p.cmd.Group != command.Scripting &&
		access.Check(s.user.Load(), p.cmd, args) == nil && // checked first, since refuse logs denials
		s.refuse(p.cmd, args) == nil && !(s.srv.pause.active.Load() && s.srv.pause.holds(p.cmd, args, nil))
}

// runGroup hands the commands from the i-th one on to a worker, if at least two of them are
// groupable, and returns the offset in data behind the last of these, else 0.
func (s *session) runGroup(i int, data []byte) (end int) {
	t := s.work
	if s.multi != nil || s.tracker != nil || s.replies != replyOn {
		return 0
	}
	if s.ungrouped { // the command was in a group already
		s.ungrouped = false
		return 0
	}
	begin := 0
	if i > 0 {
		begin = t.ahead[i-1].end
	}
	var calls []executor.Call
	var ends []int
	for ; i < len(t.ahead); i++ {
		p := &t.ahead[i]
		args := t.args[p.from:p.to:p.to]
		if len(args) == 0 || p.end-begin > groupBytes || !s.groupable(p, args) {
			break
		}
		calls = append(calls, executor.Call{Cmd: p.cmd, Args: copyArgs(args), DB: s.db, NoTouch: s.noTouch, Caller: &caller{s: s}, By: s.id, Watching: s.watching()})
		ends = append(ends, p.end-begin)
	}
	if len(calls) < 2 {
		return 0
	}
	end = begin + ends[len(ends)-1]
	raw := append([]byte(nil), data[begin:end]...)
	d := &deferred{cmd: calls[0].Cmd, args: calls[0].Args, size: 2 * len(raw), reply: wire.Writer{Proto: s.out.Proto}}
	s.deferred, s.denials = d, nil
	s.mute()
	s.handOver(forWorker, func() func() {
		for j := range calls {
			calls[j].Reply = &d.reply
		}
		start := time.Now()
		done, ticket := s.srv.exec.RunTogether(calls)
		took := time.Since(start) / time.Duration(max(1, done))
		return func() {
			for j := range calls[:done] {
				c := &calls[j]
				s.lastCmd = c.Cmd
				s.commands++
				s.out.Answers++
				s.finished(c.Cmd, c.Args, took, c.Failed, &wire.Writer{Buf: d.reply.Buf[min(c.Start, len(d.reply.Buf)):]})
			}
			s.out.Append(d.reply.Buf)
			s.out.Wait = max(s.out.Wait, ticket)
			s.unmute()
			s.deferred = nil
			if done < len(calls) { // the next command must be run by itself
				s.ungrouped = true
				rest := raw
				if done > 0 {
					rest = raw[ends[done-1]:]
				}
				s.keep(append(rest[:len(rest):len(rest)], s.buf...))
			}
		}
	})
	return end
}
