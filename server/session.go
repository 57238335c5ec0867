package server

import (
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/wire"
)

// session is one connection's state: what a Redis client sees as its
// connection. It parses what came, runs it, and collects replies; a carrier
// (an event loop, or a pair of goroutines) moves the bytes. A session does not
// know which of the two carries it.
//
// Everything here belongs to mu, which the carrier holds while it lets the
// session work; CLIENT LIST and its kin take it from other goroutines. What
// other goroutines want done they post to the carrier.
type session struct {
	srv  *Server
	mu   sync.Mutex
	id   int64
	car  carrier
	work *turn

	// Input.
	in  wire.Reader
	buf []byte // bytes not parsed yet; nil when there are none

	// Output. Buf[sent:released] may be sent now; what follows waits for the
	// tickets in holds.
	out      wire.Writer
	sent     int
	released int
	holds    []hold
	wait     engine.Ticket // what the replies of this turn wait for, and
	own      bool          // whether they wait for the turn's own commit too
	answers  int           // replies given in this turn

	// waiting: a worker runs this session's command, or it is paused: nothing
	// more is parsed until it is resumed.
	waiting  bool
	paused   bool
	closing  bool // close once everything is sent
	closed   bool
	deferred *deferred

	// What the client set.
	db            int
	authenticated bool
	name          string
	libName       string
	libVersion    string
	noEvict       bool
	noTouch       bool
	replies       replyMode
	monitor       bool

	// What CLIENT LIST tells.
	created   time.Time
	lastUsed  time.Time
	lastCmd   *command.Command
	addr      string
	laddr     string
	unix      bool
	argvMem   int
	netIn     int64
	netOut    int64
	commands  int64
	bufPeak   int
	peakAt    time.Time
	softSince time.Time // since when the output is above its soft limit

	scratch wire.Writer // where replies go that the client does not want
	call    executor.Call
}

// hold is a run of replies that waits for a ticket.
type hold struct {
	end     int // offset in out.Buf
	ticket  engine.Ticket
	answers int
}

type replyMode byte

const (
	replyOn replyMode = iota
	replyOff
	replySkipNext // CLIENT REPLY SKIP was just given
	replySkip     // the present command is the one to skip
)

// carrier moves a session's bytes.
type carrier interface {
	// post runs f on the carrier with the session's mu held, soon; it may be
	// called from any goroutine. f is not run when the session is closed.
	post(f func())
	// interest tells the carrier that s.waiting has changed.
	interest()
}

// turn is what sessions share that are carried together.
type turn struct {
	batch *executor.Batch
	stats *loopStats
	now   time.Time // of this turn; refreshed after long commands
	// workers are the calls to be handed to workers after the commit.
	workers []func()
}

// process parses and runs the commands in data, and returns how many bytes it
// took. It stops at an incomplete command, and when the session must wait.
func (s *session) process(data []byte) (taken int) {
	for taken < len(data) && !s.waiting && !s.closing {
		args, n, err := s.in.Next(data[taken:])
		if err != nil {
			s.srv.log.Debug("protocol error", "client", s.id, "addr", s.addr, "err", err)
			s.answers++
			s.out.Error(err.Error())
			s.closing = true
			return len(data)
		}
		if n == 0 {
			break
		}
		if len(args) > 0 && !s.dispatch(args) {
			return taken // paused before it began: it is parsed again later
		}
		taken += n
	}
	return taken
}

// dispatch runs one command. It says false when the session is paused and the
// command must be presented again.
func (s *session) dispatch(args [][]byte) bool {
	srv := s.srv
	cmd := srv.table.Find(args)
	if srv.pause.active.Load() && srv.pause.holds(cmd, s) {
		s.waiting, s.paused = true, true
		srv.pause.add(s)
		return false
	}
	switch s.replies {
	case replySkipNext:
		s.replies = replySkip
	case replySkip:
		s.replies = replyOn
	}
	w := &s.out
	if s.replies != replyOn {
		w = s.discard()
	} else {
		s.answers++
	}
	s.commands++
	if err := s.refuse(cmd, args); err != nil {
		s.work.stats.reject(cmd)
		srv.errors.count(err)
		w.Error(command.Text(err))
		return true
	}
	s.lastCmd = cmd
	if srv.monitors.Load() > 0 {
		srv.feedMonitors(s, cmd, args)
	}
	if cmd.Run == nil {
		s.local(cmd, args, w)
		return true
	}
	start := time.Now()
	c := &s.call
	c.Cmd, c.Args, c.DB, c.Reply, c.NoTouch = cmd, args, s.db, w, s.noTouch
	if !s.work.batch.Run(c) {
		s.defer_(cmd, args, nil)
		return true
	}
	s.wait, s.own = max(s.wait, c.Wait), s.own || c.Own
	s.finished(cmd, args, time.Since(start), c.Failed, w)
	return true
}

func (s *session) discard() *wire.Writer {
	s.scratch.Buf, s.scratch.Proto = s.scratch.Buf[:0], s.out.Proto
	return &s.scratch
}

// finished records a command that was run.
func (s *session) finished(cmd *command.Command, args [][]byte, took time.Duration, failed bool, w *wire.Writer) {
	s.work.stats.record(cmd, took, failed)
	if failed {
		s.srv.errors.countReply(w.Buf)
	}
	if took >= s.srv.slow.threshold() && cmd.Flags&command.SkipSlowlog == 0 {
		s.srv.slow.add(s, args, took, s.work.now)
	}
	if lat := s.srv.latency.threshold(); lat > 0 && took >= lat {
		s.srv.latency.note("command", took, s.work.now)
	}
}

// refuse says why a command may not be run at all.
func (s *session) refuse(cmd *command.Command, args [][]byte) error {
	if cmd == nil {
		return unknownCommand(args)
	}
	if len(cmd.Subs) > 0 && len(args) > 1 && (cmd.Run == nil && s.srv.locals[cmd] == nil || !cmd.ArityOK(len(args))) {
		return unknownSubcommand(cmd, args[1])
	}
	if !cmd.ArityOK(len(args)) {
		return command.ArityError(cmd.FullName)
	}
	if !s.authenticated && cmd.Flags&command.NoAuth == 0 {
		return command.ErrNotAuth
	}
	if cmd.Flags&command.DenyOOM != 0 && s.srv.outOfMemory() {
		return command.ErrOutOfMemory
	}
	return nil
}

// deferred is a command that a worker runs while its session waits.
type deferred struct {
	cmd   *command.Command
	args  [][]byte
	reply wire.Writer
}

// defer_ hands a command to a worker once the turn's batch is committed. The
// arguments are copied: the buffer they point into is used again.
func (s *session) defer_(cmd *command.Command, args [][]byte, run func(*wire.Writer)) {
	d := &deferred{cmd: cmd, args: copyArgs(args), reply: wire.Writer{Proto: s.out.Proto}}
	s.waiting, s.deferred = true, d
	s.car.interest()
	quiet := s.replies != replyOn
	db, noTouch := s.db, s.noTouch
	s.srv.workers.Add(1)
	s.work.workers = append(s.work.workers, func() {
		defer s.srv.workers.Done()
		start := time.Now()
		var ticket engine.Ticket
		var failed bool
		if run != nil {
			run(&d.reply)
			failed = len(d.reply.Buf) > 0 && d.reply.Buf[0] == '-'
		} else {
			c := executor.Call{Cmd: cmd, Args: d.args, DB: db, Reply: &d.reply, NoTouch: noTouch}
			ticket = s.srv.exec.RunAlone(&c)
			failed = c.Failed
		}
		took := time.Since(start)
		s.car.post(func() {
			s.finished(cmd, d.args, took, failed, &d.reply)
			if !quiet {
				s.out.Buf = append(s.out.Buf, d.reply.Buf...)
				s.wait = max(s.wait, ticket)
			}
			s.deferred = nil
			s.resume()
		})
	})
}

// resume lets a waiting session go on with what it has already received.
func (s *session) resume() {
	s.waiting, s.paused = false, false
	n := s.process(s.buf)
	s.keep(s.buf[n:])
	s.car.interest()
}

// keep stores the bytes that were not parsed; rest may be part of s.buf.
func (s *session) keep(rest []byte) {
	if len(rest) == 0 {
		if s.buf != nil {
			s.srv.bufs.put(s.buf)
			s.buf = nil
		}
		return
	}
	if s.buf == nil {
		s.buf = s.srv.bufs.get(len(rest))
	}
	// A copy within s.buf moves bytes to its front.
	s.buf = append(s.buf[:0], rest...)
}

// settle ends the session's part of a turn whose commit got the ticket: its
// replies are released, or held until what they depend on is durable.
func (s *session) settle(ticket, durable engine.Ticket) {
	if s.own {
		s.wait = max(s.wait, ticket)
	}
	wait, answers := s.wait, s.answers
	s.wait, s.own, s.answers = 0, false, 0
	if len(s.out.Buf) == s.released && len(s.holds) == 0 {
		return
	}
	if len(s.holds) == 0 && wait <= durable {
		s.released = len(s.out.Buf)
		return
	}
	s.holds = append(s.holds, hold{len(s.out.Buf), wait, answers})
	s.release(durable)
}

// release releases what has become durable.
func (s *session) release(durable engine.Ticket) {
	n := 0
	for n < len(s.holds) && s.holds[n].ticket <= durable {
		s.released = s.holds[n].end
		n++
	}
	s.holds = s.holds[:copy(s.holds, s.holds[n:])]
	if len(s.holds) == 0 {
		return
	}
	// A store that failed will never make them durable: whether those writes
	// survive is unknown, so their replies are replaced by the error.
	if err := s.srv.eng.Err(); err != nil {
		answers := 0
		for _, h := range s.holds {
			answers += h.answers
		}
		s.holds = s.holds[:0]
		s.out.Buf = s.out.Buf[:s.released]
		for range answers {
			s.out.Error(command.Text(err))
		}
		s.released = len(s.out.Buf)
	}
}

// emptied is called when everything was sent: the buffer goes back.
func (s *session) emptied() {
	s.srv.bufs.put(s.out.Buf)
	s.out.Buf, s.sent, s.released = nil, 0, 0
}

// pending is how many bytes of replies the client has not taken.
func (s *session) pending() int { return len(s.out.Buf) - s.sent }

func copyArgs(args [][]byte) [][]byte {
	n := 0
	for _, a := range args {
		n += len(a)
	}
	buf, out := make([]byte, 0, n), make([][]byte, len(args))
	for i, a := range args {
		at := len(buf)
		buf = append(buf, a...)
		out[i] = buf[at:len(buf):len(buf)]
	}
	return out
}

// buffers is a pool of byte buffers for input and output.
type buffers struct {
	small sync.Pool
	inUse atomic.Int64
}

const (
	smallBuffer = 16 << 10
	keepBuffer  = 64 << 10 // larger ones are left to the collector
)

func (p *buffers) get(n int) []byte {
	if n <= smallBuffer {
		if b, ok := p.small.Get().(*[smallBuffer]byte); ok {
			return b[:0]
		}
		n = smallBuffer
	}
	return make([]byte, 0, n)
}

func (p *buffers) put(b []byte) {
	if cap(b) >= smallBuffer && cap(b) <= keepBuffer {
		p.small.Put((*[smallBuffer]byte)(b[:smallBuffer]))
	}
}
