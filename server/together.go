package server

import (
	"time"

	"redoubt/command"
	"redoubt/executor"
	"redoubt/wire"
)

// Pipelines on a store of another machine: there every command runs on a worker, and
// one by one each would pay for its own round trips. So the commands of a pipeline
// that may go together are handed to one worker, which runs them as one transaction:
// their rows are fetched at once and written at once.

// groupBytes is how many bytes of commands go together.
const groupBytes = 256 << 10

// joins says whether a command may go together with others.
func (s *session) joins(p *parsed, args [][]byte) bool {
	const apart = command.Blocking | command.Alone | command.OneState | command.Slow | command.PubSubFlag
	return p.cmd != nil && p.cmd.Run != nil && p.cmd.Flags&apart == 0 && p.cmd.Group != command.Transactions && p.cmd.Group != command.Scripting &&
		denied(s.user.Load(), p.cmd, args) == nil && // which refuse would log
		s.refuse(p.cmd, args) == nil && !(s.srv.pause.active.Load() && s.srv.pause.holds(p.cmd, args, nil))
}

// together hands the commands from the i-th one on to a worker, if several of them may
// go together, and returns the offset in data behind the last one of them, 0 if not.
func (s *session) together(i int, data []byte) (end int) {
	t := s.work
	if s.multi != nil || s.tracker != nil || s.replies != replyOn {
		return 0
	}
	if s.apart { // it was among others already
		s.apart = false
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
		if len(args) == 0 || p.end-begin > groupBytes || !s.joins(p, args) {
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
	s.waiting, s.deferred, s.denials = true, d, nil
	s.mute()
	s.car.interest()
	s.srv.workers.Add(1)
	t.workers = append(t.workers, func() {
		defer s.srv.workers.Done()
		for j := range calls {
			calls[j].Reply = &d.reply
		}
		start := time.Now()
		done, ticket := s.srv.exec.RunTogether(calls)
		took := time.Since(start) / time.Duration(max(1, done))
		s.car.post(func() {
			for j := range calls[:done] {
				c := &calls[j]
				s.lastCmd = c.Cmd
				s.commands++
				s.answers++
				s.finished(c.Cmd, c.Args, took, c.Failed, &wire.Writer{Buf: d.reply.Buf[min(c.Start, len(d.reply.Buf)):]})
			}
			s.answer(d.reply.Buf)
			s.wait = max(s.wait, ticket)
			s.unmute()
			s.deferred = nil
			if done < len(calls) { // the next one needs another way
				s.apart = true
				rest := raw
				if done > 0 {
					rest = raw[ends[done-1]:]
				}
				s.keep(append(rest[:len(rest):len(rest)], s.buf...))
			}
			s.resume()
		})
	})
	return end
}
