package server

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/keyspace"
	"redoubt/script"
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
	// retained: buf belongs to a command that is kept; see input.go.
	retained bool

	// Output. Buf[sent:released] may be sent now; what follows waits for the
	// tickets in holds.
	out      wire.Writer
	sent     int
	released int
	holds    []hold
	wait     engine.Ticket // what the replies of this turn wait for, and
	own      bool          // whether they wait for the turn's own commit too
	answers  int           // replies given in this turn
	outSize  int           // how many bytes they were the last time

	// waiting: a worker runs this session's command or fetches its rows, or it is
	// paused: nothing more is parsed until it is resumed.
	waiting bool
	paused  bool
	warmed  bool // rows were fetched for the commands that come next
	// announced: other front ends were told what the next command wants to hear.
	announced bool
	stalled   bool // unparsed commands wait until the client takes its replies,
	resuming  bool // which it has: they are about to go on
	closing   bool // close once everything is sent
	closed    bool
	// halfClosed: the client sends no more.
	halfClosed bool
	deferred   *deferred
	blocked    *blocked // a command that waits for an element
	parts      *parts   // a reply that comes in parts

	// What the client set.
	db            int
	authenticated bool
	user          *acl.Handle
	denials       []*denial // of the transaction or script under way
	name          string
	libName       string
	libVersion    string
	noEvict       atomic.Bool
	noTouch       bool
	apart         bool // the next command must not go together with others
	shown         bool // monitors have seen the command that a worker runs
	replies       replyMode
	monitor       bool
	multi         *multi // a transaction that is being queued
	lastMulti     *multi // the memory of the one before
	watch         executor.Watch

	// Messages: see push.go, subscription.go and tracking.go.
	pushes     pushQueue
	subs       *subscriptions // nil without any
	subscribed atomic.Bool    // there are some
	tracker    *tracker       // while keys are tracked for it

	// What CLIENT LIST tells.
	created   time.Time
	lastUsed  time.Time
	lastCmd   *command.Command
	addr      string
	laddr     string
	unix      bool
	fd        int
	netIn     int64
	netOut    int64
	commands  int64
	bufPeak   int // largest query buffer of late, and when it was forgotten last
	peakAt    time.Time
	outPeak   int       // largest output of late
	softSince time.Time // since when the output is above its soft limit

	// What the client is charged with; see held.go.
	base       int          // what a client holds that does nothing
	subsMemory int          // what its subscriptions take
	charged    atomic.Int64 // what budget.Clients has of it, but for the queue of messages
	evicting   atomic.Bool  // it is being closed for the memory it takes
	guest      atomic.Bool  // it has to authenticate; see guests.go
	guestAt    time.Time    // since when
	unread     int          // how many bytes of replies it may leave unread before its commands wait

	scripted *script.Record // what its scripts ran
	scratch  wire.Writer    // where replies go that the client does not want
	// The call under way, here so that it need not be allocated.
	call      executor.Call
	localCall localCall
	caller    caller
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

const (
	readSize  = 64 << 10 // the most that is read at once
	tickEvery = time.Second
)

// carrier moves a session's bytes.
type carrier interface {
	// post runs f on the carrier with the session's mu held, soon; it may be
	// called from any goroutine. f is not run when the session is closed. Without f
	// it is movePushed that is run.
	post(f func())
	// interest tells the carrier that s.waiting has changed.
	interest()
	// evict closes the connection soon, and at once if t is the turn of its carrier. It
	// may be called from any goroutine that holds no session's mu, and does not wait.
	evict(t *turn)
	// shut closes the connection at once, whatever it still had to send, and
	// returns when that is done. It may be called from any goroutine that is no
	// carrier's and holds no session's mu.
	shut()
}

// turn is what sessions share that are carried together.
type turn struct {
	batch *executor.Batch // nil while the store is being opened
	stats *loopStats
	now   time.Time     // of this turn
	mono  time.Duration // when the last command ended, since the server's start
	// The commands of one session that were parsed ahead.
	ahead []parsed
	args  [][]byte
	// workers are the calls to be handed to workers after the commit.
	workers []func()
}

// reach has the turn's time be no earlier than that at which something ended elsewhere
// that its next commands come after.
func (t *turn) reach(at time.Time) {
	if at.After(t.now) {
		t.now = at
	}
}

// commit commits what the turn's commands wrote.
func (t *turn) commit() engine.Ticket {
	if t.batch == nil {
		return 0
	}
	return t.batch.Commit()
}

// ahead is how many commands of a pipeline are parsed before the first of them
// is run, so that the engine can fetch their rows together.
const ahead = 32

// parsed is a command of a pipeline that has not been run yet.
type parsed struct {
	cmd      *command.Command
	from, to int // its arguments in turn.args
	end      int // offset of the byte behind it
}

// process parses and runs the commands in data, and returns how many bytes it
// took. It stops at an incomplete command, and when the session must wait.
func (s *session) process(data []byte) (taken int) {
	s.hear()
	s.setLimits()
	for taken < len(data) && !s.waiting && !s.closing {
		if s.stalled = s.stall(); s.stalled {
			break
		}
		n := s.round(data[taken:])
		if n == 0 {
			break
		}
		taken += n
	}
	if len(data) > keepBuffer {
		s.forget()
	}
	return taken
}

// stall says that no more commands are run just now: the client has too many
// replies to read first, or the server shuts down.
func (s *session) stall() bool { return s.pending() >= s.unread || s.srv.draining.Load() }

// round parses some commands and runs them.
func (s *session) round(data []byte) (taken int) {
	t := s.work
	t.ahead, t.args = t.ahead[:0], t.args[:0]
	limit := ahead
	s.in.Authenticated = !s.mustAuthenticate()
	if !s.in.Authenticated {
		limit = 1 // AUTH changes what may follow it
	}
	at := 0
	var malformed error
	for len(t.ahead) < limit && at < len(data) {
		args, n, err := s.in.Next(data[at:])
		if err != nil {
			malformed = err
			break
		}
		if n == 0 {
			break
		}
		at += n
		p := parsed{from: len(t.args), end: at}
		if len(args) > 0 {
			p.cmd = s.srv.table.Find(args)
			t.args = append(t.args, args...)
		}
		p.to = len(t.args)
		t.ahead = append(t.ahead, p)
	}
	// Once only: where memory is so short that rows are gone again when they are
	// needed, the commands must get on one by one.
	warmed := s.warmed
	s.warmed = false
	if len(t.ahead) > 1 && t.batch != nil && s.prefetch() > 1 && !warmed {
		s.warm()
		s.in.Reset()
		return 0 // they are parsed again later
	}
	t.mono = time.Since(s.srv.started)
	for i := range t.ahead {
		p := &t.ahead[i]
		if t.batch != nil && s.srv.remote {
			if end := s.together(i, data); end > 0 {
				s.in.Reset()
				return end
			}
		}
		if p.from < p.to && !s.dispatch(p.cmd, t.args[p.from:p.to:p.to]) {
			s.in.Reset()
			return taken // paused before it began: it is parsed again later
		}
		taken = p.end
		if s.waiting || s.closing || i < len(t.ahead)-1 && s.stall() {
			s.in.Reset()
			return taken
		}
	}
	if malformed != nil {
		s.srv.log.Debug("protocol error", "client", s.id, "addr", s.addr, "err", malformed)
		if s.replies == replyOn {
			s.answers++
			s.out.Error(malformed.Error())
		}
		s.closing = true
		return len(data)
	}
	return taken
}

// forget lets go of the arguments that were parsed last: an idle client, or
// its loop, would keep a large command in memory.
func (s *session) forget() {
	s.in.Forget()
	s.call.Args = nil
	if t := s.work; cap(t.args) > keepArgs {
		t.args = nil
	} else {
		clear(t.args[:cap(t.args)])
	}
}

// prefetch tells the engine which rows the parsed commands will read. It returns
// how many of them are not in memory.
func (s *session) prefetch() (cold int) {
	t := s.work
	for _, p := range t.ahead {
		if p.cmd != nil && p.cmd.Run != nil {
			t.batch.Prefetch(p.cmd, t.args[p.from:p.to], s.db)
		}
	}
	return t.batch.Fetch()
}

// warm has a worker fetch the rows of the parsed commands, all at once. The
// session waits meanwhile.
func (s *session) warm() {
	rows := s.work.batch.Fetched()
	s.waiting, s.warmed = true, true
	s.car.interest()
	s.srv.workers.Add(1)
	s.work.workers = append(s.work.workers, func() {
		defer s.srv.workers.Done()
		s.srv.exec.Warm(rows)
		s.car.post(s.resume)
	})
}

// dispatch runs one command. It says false when the session is paused and the
// command must be presented again.
func (s *session) dispatch(cmd *command.Command, args [][]byte) bool {
	srv := s.srv
	if s.tracker != nil {
		s.cachingOver()
	}
	refused := s.refuse(cmd, args)
	if refused == nil && srv.pause.active.Load() && srv.pause.holds(cmd, args, s.multi) {
		s.waiting, s.paused = true, true
		srv.pause.add(s)
		return false
	}
	if refused == nil && cmd.Flags&command.Loading != 0 && s.holdForPeers(cmd, args) {
		return false
	}
	s.lastCmd = cmd
	if cmd == nil && foreign(args[0]) {
		srv.clientLog.Warn("closing a client that speaks HTTP: somebody may be using a browser to attack this server", "addr", s.addr)
		s.closing = true
		return true
	}
	switch s.replies {
	case replySkipNext:
		s.replies = replySkip
	case replySkip:
		s.replies = replyOn
	}
	w := &s.out
	if s.replies == replyOff || s.replies == replySkip {
		w = s.discard()
	} else {
		s.answers++
	}
	s.commands++
	if refused != nil {
		refused = s.spoilMulti(cmd, refused)
		s.work.stats.reject(cmd)
		srv.errors.count(refused)
		w.Error(command.Text(refused))
		return true
	}
	if s.multi != nil && !atOnce(cmd) {
		s.enqueue(cmd, args, w)
		return true
	}
	if cmd.Run == nil {
		s.local(cmd, args, w)
		return true
	}
	c := &s.call
	c.Cmd, c.Args, c.DB, c.Reply, c.NoTouch = cmd, args, s.db, w, s.noTouch
	if cmd.Group == command.Transactions {
		if err := s.prepare(c); err != nil {
			w.Error(command.Text(err))
			s.finished(cmd, args, s.work.lap(srv.started), true, w)
			return true
		}
	}
	if s.work.batch == nil {
		s.runWithout(cmd, args, w)
		return true
	}
	if s.tracker != nil {
		s.trackRead(cmd, args)
	}
	if cmd.Flags&command.Blocking != 0 {
		return s.dispatchBlocking(c)
	}
	if s.work.batch.Run(c) != 0 {
		s.defer_(cmd, args, nil)
		return true
	}
	s.wait, s.own = max(s.wait, c.Wait), s.own || c.Own
	if c.Queue != nil {
		s.executed(c, s.work.now)
	}
	c.Queue, c.Watch = nil, nil
	s.finished(cmd, args, s.work.lap(srv.started), c.Failed, w)
	s.echo()
	return true
}

// dispatchBlocking is dispatch for a command that may wait.
func (s *session) dispatchBlocking(c *executor.Call) bool {
	quiet, waits := c.Reply != &s.out, (*blocked)(nil)
	c.OnBlock = func(block *command.Block) *executor.Waiter {
		waits = s.waiter(c, block, s.out.Proto, quiet, s.work.now)
		return waits.waiter
	}
	detour := s.work.batch.Run(c)
	c.OnBlock = nil
	switch {
	case detour != 0:
		s.defer_(c.Cmd, c.Args, nil)
	case waits != nil:
		if !quiet {
			s.answers-- // it is one of the turn in which its reply is there
		}
		s.show(c.Cmd, c.Args)
		s.block(waits)
	default:
		s.wait, s.own = max(s.wait, c.Wait), s.own || c.Own
		s.finished(c.Cmd, c.Args, s.work.lap(s.srv.started), c.Failed, c.Reply)
		s.echo()
	}
	return true
}

// runWithout runs a command that is allowed while the store is being opened. Such
// commands touch no data (they publish, or are the HELP of others), so they get no
// transaction.
func (s *session) runWithout(cmd *command.Command, args [][]byte, w *wire.Writer) {
	at := len(w.Buf)
	var fx keyspace.Effects
	err := cmd.Run(&command.Ctx{Cmd: cmd, Args: args, Reply: w, Tx: &keyspace.Tx{FX: &fx}, Receivers: s.srv.receivers})
	if err != nil {
		w.Buf = w.Buf[:at]
		w.Error(command.Text(err))
	}
	s.srv.heard(&fx, 0)
	s.finished(cmd, args, s.work.lap(s.srv.started), err != nil, w)
}

// lap returns the time since the last lap, which is what a command took: the
// end of one is the start of the next.
func (t *turn) lap(base time.Time) time.Duration {
	now := time.Since(base)
	took := now - t.mono
	t.mono = now
	return took
}

func (s *session) discard() *wire.Writer {
	if cap(s.scratch.Buf) > keepBuffer {
		s.scratch.Buf = nil
	}
	s.scratch.Buf, s.scratch.Proto = s.scratch.Buf[:0], s.out.Proto
	return &s.scratch
}

// foreign recognises a web browser that was made to talk to this server: such
// a connection is closed, so that the body of its request is not taken for
// commands.
func foreign(name []byte) bool {
	return strings.EqualFold(string(name), "post") || strings.EqualFold(string(name), "host:")
}

// finished records a command that was run.
func (s *session) finished(cmd *command.Command, args [][]byte, took time.Duration, failed bool, w *wire.Writer) {
	s.ran(cmd, args, took, failed, s.work.now)
	if s.scripted != nil && s.recordScripts() {
		failed = false
	}
	if s.denials != nil {
		s.noteDenials(args)
	}
	if failed {
		s.srv.errors.countReply(w.Buf)
	}
}

func (s *session) ran(cmd *command.Command, args [][]byte, took time.Duration, failed bool, at time.Time) {
	s.work.stats.record(cmd, took, failed)
	s.show(cmd, args)
	if took >= s.srv.slow.threshold() && cmd.Flags&command.SkipSlowlog == 0 {
		s.srv.slow.add(s, args, took, at)
	}
	if lat := s.srv.latency.threshold(); lat > 0 && took >= lat {
		s.srv.latency.note(latencyEvent(cmd), took, s.work.now)
	}
}

// show shows a command to the monitors, once.
func (s *session) show(cmd *command.Command, args [][]byte) {
	if !s.shown && s.srv.monitors.Load() > 0 {
		s.srv.feedMonitors(s, cmd, args)
	}
	s.shown = false
}

// refuse says why a command may not be run at all.
func (s *session) refuse(cmd *command.Command, args [][]byte) error {
	if cmd == nil {
		return unknownCommand(args)
	}
	if len(cmd.Subs) > 0 && len(args) > 1 && (cmd.Run == nil && s.srv.locals[cmd] == nil || !cmd.ArityOK(len(args))) {
		return unknownSubcommand(args)
	}
	if !cmd.ArityOK(len(args)) {
		return command.ArityError(cmd.FullName)
	}
	if cmd.Flags&command.NoAuth == 0 && s.mustAuthenticate() {
		return command.ErrNotAuth
	}
	if s.multi != nil && cmd.Flags&command.NoMulti != 0 {
		return errNotInMulti
	}
	if err := s.permit(cmd, args); err != nil {
		return err
	}
	if s.work.batch == nil && (cmd.Flags&command.Loading == 0 || cmd == command.Watch || cmd == command.Exec && s.multi != nil) {
		return command.ErrLoading
	}
	flags := s.multi.flagsOf(cmd, args)
	// What is queued takes memory, whatever it will do.
	if (flags&command.DenyOOM != 0 || s.multi != nil && !atOnce(cmd)) && s.srv.outOfMemory() {
		return command.ErrOutOfMemory
	}
	if err := s.srv.writable(flags); err != nil {
		return err
	}
	if s.subs != nil {
		return s.refuseSubscribed(cmd)
	}
	return nil
}

// tries is called by a worker before each try of the session's command.
func (s *session) tries() {
	s.denials = nil
	if k := s.tracker; k != nil {
		if k.began = math.MaxUint64; k.on { // else changes went by unheard
			k.began = s.srv.tracking.told.Load()
		}
	}
}

// deferred is a command that a worker runs while its session waits.
type deferred struct {
	cmd   *command.Command
	args  [][]byte
	size  int // of what is kept for it
	reply wire.Writer
	after func() // if set, run on the carrier when the reply is there
	stop  script.Stop
}

// defer_ hands a command to a worker once the turn's batch is committed.
func (s *session) defer_(cmd *command.Command, args [][]byte, run func(*wire.Writer)) {
	d := &deferred{cmd: cmd, reply: wire.Writer{Proto: s.out.Proto}}
	d.args, d.size = s.retain(args)
	s.waiting, s.deferred, s.denials = true, d, nil
	if s.halfClosed {
		s.ended()
	}
	if cmd.Flags&command.Blocking != 0 { // it may be long until it is known whether it waits
		s.show(cmd, d.args)
		s.shown = true
	}
	s.mute()
	s.car.interest()
	quiet := s.replies == replyOff || s.replies == replySkip
	if !quiet {
		s.answers-- // it is one of the turn in which its reply is there
	}
	db, noTouch, proto := s.db, s.noTouch, s.out.Proto
	detour, cold := s.call.Detour, s.call.Cold
	queue, watch := s.call.Queue, s.call.Watch
	reads := s.nestedRead // also if it is a transaction that begins to track keys
	s.call.Queue, s.call.Watch = nil, nil
	s.srv.workers.Add(1)
	s.work.workers = append(s.work.workers, func() {
		defer s.srv.workers.Done()
		start := time.Now()
		var ticket engine.Ticket
		var failed bool
		executed := func() {}
		if run != nil {
			run(&d.reply)
			failed = len(d.reply.Buf) > 0 && d.reply.Buf[0] == '-'
		} else {
			c := executor.Call{
				Cmd: cmd, Args: d.args, DB: db, Reply: &d.reply, NoTouch: noTouch, Detour: detour, Cold: cold,
				Caller: &caller{s: s, stop: &d.stop}, Queue: queue, Watch: watch, By: s.id, Reads: reads,
				Begin: s.tries,
			}
			if watch == nil {
				c.Watching = s.watching()
			}
			if cmd.Flags&command.Blocking != 0 {
				c.OnBlock = func(block *command.Block) *executor.Waiter {
					return s.blockFrom(&c, block, proto, quiet, start)
				}
			}
			end := s.inParts(&c, quiet)
			ticket = s.srv.exec.RunAlone(&c)
			if c.Blocked {
				return
			}
			failed = c.Failed
			end()
			if queue != nil {
				executed = func() { s.executed(&c, start) }
			}
		}
		took := time.Since(start)
		s.car.post(func() {
			executed()
			s.finished(cmd, d.args, took, failed, &d.reply)
			if !quiet {
				s.answers++
				s.answer(d.reply.Buf)
				s.wait = max(s.wait, ticket)
			}
			s.unmute()
			s.readDone(nil, nil)
			s.deferred = nil
			if d.after != nil {
				d.after()
			}
			s.resume()
		})
	})
}

// resume lets a waiting session go on with what it has already received.
func (s *session) resume() {
	s.waiting, s.paused, s.stalled = false, false, false
	n := s.process(s.buf)
	s.keep(s.buf[n:])
	s.car.interest()
}

// drained has the commands go on that wait for the client, once it has taken its replies.
// Nothing more is read until then: what waits would else become more and more.
func (s *session) drained() {
	if s.stalled && !s.resuming && s.pending() < s.unread && !s.srv.draining.Load() {
		s.resuming = true
		s.car.post(s.proceed)
	}
}

// proceed goes on with commands that were left because the client had too many
// replies to read.
func (s *session) proceed() {
	if s.resuming = false; !s.waiting {
		s.resume()
	}
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

// answer appends replies that were made elsewhere and belong to the session from now on.
func (s *session) answer(replies []byte) {
	if len(s.out.Buf) == 0 && len(replies) > smallBuffer { // not twice in memory
		replies, s.out.Buf = s.out.Buf, replies
		s.srv.bufs.put(replies)
		return
	}
	s.out.Buf = append(s.out.Buf, replies...)
}

// emptied is called when everything was sent: the buffer goes back.
func (s *session) emptied() {
	s.outSize = len(s.out.Buf)
	s.srv.bufs.put(s.out.Buf)
	s.out.Buf, s.sent, s.released = nil, 0, 0
}

// compact moves what was not sent to the front of the buffer: a client that
// always leaves a little unread would else make it grow without end. It must
// not be called between the run of a command and its commit.
func (s *session) compact() {
	if s.sent < keepBuffer || s.sent < len(s.out.Buf)/2 {
		return
	}
	s.out.Buf = s.out.Buf[:copy(s.out.Buf, s.out.Buf[s.sent:])]
	s.released -= s.sent
	for i := range s.holds {
		s.holds[i].end -= s.sent
	}
	s.sent = 0
}

// messagesOnly says that what is held back are messages, and no replies.
func (s *session) messagesOnly() bool {
	for i := range s.holds {
		if s.holds[i].answers > 0 {
			return false
		}
	}
	return true
}

// pending is how many bytes of replies the client has not taken.
func (s *session) pending() int { return len(s.out.Buf) - s.sent }
