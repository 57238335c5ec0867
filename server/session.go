package server

import (
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
	"redoubt/server/access"
	"redoubt/server/admin"
	"redoubt/server/observe"
	"redoubt/server/output"
	"redoubt/server/pubsub"
	"redoubt/server/replication"
	"redoubt/server/tracking"
	"redoubt/wire"
)

// session is the state of one connection. It parses input, runs the commands, and collects
// replies; a carrier (an event loop, or a pair of goroutines) moves the bytes. A session
// does not know which of the two carries it.
//
// mu guards all fields. The carrier holds it while it lets the session work; CLIENT LIST
// and the like take it from other goroutines. Other goroutines post their changes to the
// carrier.
type session struct {
	srv  *Server
	mu   sync.Mutex
	id   int64
	car  carrier
	work *turn

	// Input.
	in  wire.Reader
	buf []byte // bytes not parsed yet; nil when there are none
	// retained: a kept command owns buf; see input.go.
	retained bool

	out output.Stream

	suspended suspension // why the session takes no commands: see suspend.go
	cameFrom  suspension // the reason of the last suspension
	closing   bool       // close once everything is sent
	closed    bool
	// halfClosed: the client sends no more.
	halfClosed bool
	deferred   *deferred
	blocked    *blocked             // a command that waits for an element
	streamed   *streamedReply       // a reply that comes in parts
	replica    *replication.Replica // nil until REPLCONF or SYNC; see replica_link.go
	link       *replicaLink         // nil if replica is
	feeding    atomic.Bool          // the session is a replica

	// What the client set.
	db            int
	authenticated bool
	user          *acl.Handle
	denials       []*access.Denial // of the transaction or script under way
	name          string
	libName       string
	libVersion    string
	noEvict       atomic.Bool
	noTouch       bool
	inside        bool // a connection of the console: see console.go
	ungrouped     bool // the next command must be run by itself: see group.go
	shown         bool // monitors have seen the command that a worker runs
	replies       replyMode
	monitor       bool
	multi         *multi // a transaction that is being queued
	lastMulti     *multi // the memory of the one before
	watch         executor.Watch

	// Messages: see push.go, cmd_pubsub.go and cmd_client_tracking.go.
	pushQueue  output.Queue
	subs       *pubsub.Subscriptions // nil without any
	subscribed atomic.Bool           // subs is not nil
	tracker    *tracking.Tracker     // nil until CLIENT TRACKING

	// Figures for CLIENT LIST.
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
	bufPeak   int       // largest query buffer since peakAt
	peakAt    time.Time // when decay last reset the peaks
	outPeak   int       // largest output since peakAt
	softSince time.Time // since when the output is above its soft limit

	// The client's charge; see held.go.
	base     int          // bytes of an idle client
	charged  atomic.Int64 // the session's part of budget.Clients, without the queue of messages
	borrowed atomic.Int64 // the size of the messages in its output that others have, too
	evicting atomic.Bool  // it is being closed for its memory, or as a guest
	guest    atomic.Bool  // it has to authenticate; see guests.go
	guestAt  time.Time    // when it became a guest
	unread   int          // how many bytes of replies it may leave unread before its commands wait

	scripted *script.Record // the commands that its scripts ran
	scratch  wire.Writer    // for discarded replies
	// The call under way, here so that it need not be allocated.
	call      executor.Call
	localCall localCall
	caller    caller
}

type replyMode byte

const (
	replyOn replyMode = iota
	replyOff
	replySkipNext // CLIENT REPLY SKIP was just given
	replySkip     // the reply of the present command is skipped
)

const (
	readSize  = 64 << 10 // the most that is read at once
	keepArgs  = 4 << 10  // the largest capacity of turn.args that forget keeps
	tickEvery = time.Second
)

// carrier moves a session's bytes.
type carrier interface {
	// post runs f on the carrier with the session's mu held, soon; a nil f means
	// movePushed. post may be called from any goroutine. f is not run when the session is
	// closed.
	post(f func())
	// interest tells the carrier that the session was suspended or resumed.
	interest()
	// evict closes the connection soon, and at once if t is the turn of its carrier. It
	// may be called from any goroutine that holds no session's mu, and does not wait.
	evict(t *turn)
	// shut closes the connection at once, drops unsent replies, and returns when that is
	// done. It may be called from any goroutine that is no carrier's and holds no
	// session's mu.
	shut()
}

// turn is the state that the sessions of one carrier share.
type turn struct {
	batch *executor.Batch // nil while the store is being opened
	stats *observe.LoopStats
	now   time.Time     // of this turn
	mono  time.Duration // when the last command ended, since the server's start
	// The commands of one session that were parsed ahead, and their arguments.
	ahead []parsed
	args  [][]byte
	// workers are the functions to be handed to workers after the commit.
	workers []func()
}

// advanceTo moves the turn's time forward to the end of a command that was not run in the
// turn: commands that follow must not seem to come before it.
func (t *turn) advanceTo(at time.Time) {
	if at.After(t.now) {
		t.now = at
	}
}

// commit commits the writes of the turn's commands.
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
	s.takePushed()
	s.setLimits()
	for taken < len(data) && !s.waiting() && !s.closing {
		if s.suspended = running; s.stall() {
			s.suspended = forReplies
			break
		}
		n := s.round(data[taken:])
		if n == 0 {
			break
		}
		taken += n
	}
	if len(data) > output.KeepBuffer {
		s.forget()
	}
	return taken
}

// stall reports whether the session must run no more commands now: the client has too
// many replies to read first, or the server shuts down.
func (s *session) stall() bool { return s.out.Pending() >= s.unread || s.srv.life.draining.Load() }

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
	// Warm only once: if memory is so short that the rows are evicted again before they
	// are used, the commands must go on one by one.
	warmed := s.cameFrom == forRows
	if warmed {
		s.cameFrom = running
	}
	if len(t.ahead) > 1 && t.batch != nil && s.prefetch() > 1 && !warmed {
		s.warm()
		s.in.Reset()
		return 0 // they are parsed again later
	}
	t.mono = time.Since(s.srv.life.started)
	for i := range t.ahead {
		p := &t.ahead[i]
		if t.batch != nil && s.srv.remote {
			if end := s.runGroup(i, data); end > 0 {
				s.in.Reset()
				return end
			}
		}
		if p.from < p.to && !s.dispatch(p.cmd, t.args[p.from:p.to:p.to]) {
			s.in.Reset()
			return taken // paused before it began: it is parsed again later
		}
		taken = p.end
		if s.waiting() || s.closing || i < len(t.ahead)-1 && s.stall() {
			s.in.Reset()
			return taken
		}
	}
	if malformed != nil {
		s.srv.log.Debug("protocol error", "client", s.id, "addr", s.addr, "err", malformed)
		if s.replica.Attached() {
			s.refuseReplica("a malformed request", nil)
			return len(data)
		}
		if s.replies == replyOn {
			s.out.Answers++
			s.out.Error(malformed.Error())
		}
		s.closing = true
		return len(data)
	}
	return taken
}

// forget drops references to the arguments parsed last: they would keep a large command
// in memory.
func (s *session) forget() {
	s.in.Forget()
	s.call.Args = nil
	if t := s.work; cap(t.args) > keepArgs {
		t.args = nil
	} else {
		clear(t.args[:cap(t.args)])
	}
}

// prefetch has the engine fetch the rows that the parsed commands will read. It returns
// how many of these are not in memory.
func (s *session) prefetch() (cold int) {
	t := s.work
	for _, p := range t.ahead {
		if p.cmd != nil && p.cmd.Run != nil {
			t.batch.Prefetch(p.cmd, t.args[p.from:p.to], s.db)
		}
	}
	return t.batch.Fetch()
}

// warm suspends the session while a worker fetches the rows of the parsed commands, all
// at once.
func (s *session) warm() {
	rows := s.work.batch.Fetched()
	s.handOver(forRows, func() (done func()) {
		s.srv.exec.Warm(rows)
		return func() {}
	})
}

// dispatch runs, queues or hands over one command. It returns false if the session was
// suspended before the command began: the command must be dispatched again.
func (s *session) dispatch(cmd *command.Command, args [][]byte) bool {
	srv := s.srv
	if s.tracker != nil {
		s.cachingOver()
	}
	if s.link != nil && s.replica.Attached() && (cmd == nil || cmd.Declared.Name != "replconf") {
		s.refuseReplica("a command", args)
		return true
	}
	refused := s.refuse(cmd, args)
	if refused == nil && srv.pause.active.Load() && srv.pause.holds(cmd, args, s.multi) {
		s.suspend(forPause)
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
	w := &s.out.Writer
	if s.replies == replyOff || s.replies == replySkip {
		w = s.discard()
	} else {
		s.out.Answers++
	}
	s.commands++
	if refused != nil {
		refused = s.spoilMulti(cmd, refused)
		s.work.stats.Reject(cmd)
		srv.obs.Errors.Count(refused)
		w.Error(command.Text(refused))
		return true
	}
	if s.multi != nil && cmd.Flags&command.NoQueue == 0 {
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
			s.finished(cmd, args, s.work.lap(srv.life.started), true, w)
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
	if cmd.Flags&(command.Blocking|command.AwaitsAcks) != 0 {
		return s.dispatchBlocking(c)
	}
	if s.work.batch.Run(c) != 0 {
		s.toWorker(cmd, args, nil)
		return true
	}
	s.out.Wait, s.out.Own = max(s.out.Wait, c.Wait), s.out.Own || c.Own
	if c.Queue != nil {
		s.executed(c, s.work.now)
	}
	c.Queue, c.Watch = nil, nil
	s.finished(cmd, args, s.work.lap(srv.life.started), c.Failed, w)
	s.echo()
	return true
}

// dispatchBlocking is dispatch for a command that may wait.
func (s *session) dispatchBlocking(c *executor.Call) bool {
	quiet, waits := c.Reply != &s.out.Writer, (*blocked)(nil)
	c.OnBlock = func(block *command.Block) *executor.Waiter {
		waits = s.waiter(c, block, s.out.Proto, quiet, s.work.now)
		return waits.waiter
	}
	detour := s.work.batch.Run(c)
	c.OnBlock = nil
	switch {
	case detour != 0:
		s.toWorker(c.Cmd, c.Args, nil)
	case waits != nil:
		if !quiet {
			s.out.Answers-- // the reply counts in the turn that appends it
		}
		s.show(c.Cmd, c.Args)
		s.block(waits)
	default:
		s.out.Wait, s.out.Own = max(s.out.Wait, c.Wait), s.out.Own || c.Own
		s.finished(c.Cmd, c.Args, s.work.lap(s.srv.life.started), c.Failed, c.Reply)
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
	s.srv.publishEffects(&fx, 0)
	s.finished(cmd, args, s.work.lap(s.srv.life.started), err != nil, w)
}

// lap returns the time since the last lap, which is a command's duration: the
// end of one command is the start of the next.
func (t *turn) lap(base time.Time) time.Duration {
	now := time.Since(base)
	took := now - t.mono
	t.mono = now
	return took
}

// foreign reports whether a command name is that of an HTTP request. Such a connection is
// closed: a browser may have been made to send commands in the body of a request.
func foreign(name []byte) bool {
	return strings.EqualFold(string(name), "post") || strings.EqualFold(string(name), "host:")
}

// finished records a command that was run, with its scripts, denials and error.
func (s *session) finished(cmd *command.Command, args [][]byte, took time.Duration, failed bool, w *wire.Writer) {
	s.ran(cmd, args, took, failed, s.work.now)
	if s.scripted != nil && s.recordScripts() {
		failed = false
	}
	if s.denials != nil {
		s.noteDenials(args)
	}
	if failed {
		s.srv.obs.Errors.CountReply(w.Buf)
	}
}

func (s *session) ran(cmd *command.Command, args [][]byte, took time.Duration, failed bool, at time.Time) {
	s.work.stats.Record(cmd, took, failed)
	s.show(cmd, args)
	if took >= s.srv.obs.Slow.Threshold() && cmd.Flags&command.SkipSlowlog == 0 {
		s.srv.obs.Slow.Add(s.srv.redacted(args), s.addr, s.name, took, at)
	}
	if lat := s.srv.obs.Latency.Threshold(); lat > 0 && took >= lat {
		s.srv.obs.Latency.Note(observe.EventOf(cmd), took, s.work.now)
	}
}

// refuse returns the error of a command that may not be run or queued at all, else nil.
func (s *session) refuse(cmd *command.Command, args [][]byte) error {
	if cmd == nil {
		return unknownCommand(args)
	}
	if len(cmd.Subs) > 0 && len(args) > 1 && (cmd.Run == nil && s.srv.locals[cmd.Declared] == nil || !cmd.ArityOK(len(args))) {
		return admin.UnknownSubcommand(args)
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
	if s.work.batch == nil && (cmd.Flags&command.Loading == 0 || cmd.Declared == command.Watch || isExec(cmd) && s.multi != nil) {
		return command.ErrLoading
	}
	if s.work.batch != nil && s.srv.exec.OneSlot() && !s.inOneSlot(cmd, args) {
		return command.ErrCrossSlot
	}
	flags := s.multi.flagsOf(cmd, args)
	if s.work.batch != nil {
		if err := s.srv.raft.refuse(cmd, args, flags); err != nil {
			return err
		}
	}
	s.srv.evictKeys(s.work.batch, s.call.Guard)
	// A queued command takes memory, whatever it will do.
	if (flags&command.DenyOOM != 0 || s.multi != nil && cmd.Flags&command.NoQueue == 0) && s.srv.outOfMemory() {
		return command.ErrOutOfMemory
	}
	if err := s.srv.writable(flags); err != nil {
		return err
	}
	if s.subs != nil {
		if err := s.refuseSubscribed(cmd); err != nil {
			return err
		}
	}
	if (cmd.Flags&command.Stale == 0 || isExec(cmd) && s.multi.needsFreshData()) && s.srv.role.Stale() {
		return command.ErrMasterDown
	}
	return nil
}

// tries resets the notes of the previous try. A worker calls it before each try of the
// session's command.
func (s *session) tries() {
	s.denials = nil
	s.tracker.Try()
}

// deferred is a command that a worker runs while its session waits.
type deferred struct {
	cmd   *command.Command
	args  [][]byte
	size  int // bytes kept for the command
	reply wire.Writer
	after func() // if set, run on the carrier when the reply is there
	stop  script.Stop
}

// toWorker hands a command to a worker once the turn's batch is committed.
func (s *session) toWorker(cmd *command.Command, args [][]byte, run func(*wire.Writer)) {
	d := &deferred{cmd: cmd, reply: wire.Writer{Proto: s.out.Proto}}
	d.args, d.size = s.retain(args)
	s.deferred, s.denials = d, nil
	if s.halfClosed {
		s.ended()
	}
	if cmd.Flags&command.Blocking != 0 { // whether the command waits may be known only much later
		s.show(cmd, d.args)
		s.shown = true
	}
	s.mute()
	quiet := s.replies == replyOff || s.replies == replySkip
	if !quiet {
		s.out.Answers-- // the reply counts in the turn that appends it
	}
	db, noTouch, proto := s.db, s.noTouch, s.out.Proto
	detour, cold := s.call.Detour, s.call.Cold
	queue, watch := s.call.Queue, s.call.Watch
	reads := s.nestedRead // set even without tracking: a transaction may begin to track keys
	s.call.Queue, s.call.Watch = nil, nil
	s.handOver(forWorker, func() (done func()) {
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
			if cmd.Flags&(command.Blocking|command.AwaitsAcks) != 0 {
				c.OnBlock = func(block *command.Block) *executor.Waiter {
					return s.blockFrom(&c, block, proto, quiet, start)
				}
			}
			end := s.streamReply(&c, quiet)
			ticket = s.srv.exec.RunOnWorker(&c)
			if c.Blocked {
				return nil // see blockFrom
			}
			failed = c.Failed
			end()
			if queue != nil {
				executed = func() { s.executed(&c, start) }
			}
		}
		took := time.Since(start)
		return func() {
			executed()
			s.finished(cmd, d.args, took, failed, &d.reply)
			if !quiet {
				s.out.Answers++
				s.out.Append(d.reply.Buf)
				s.out.Wait = max(s.out.Wait, ticket)
			}
			s.unmute()
			s.tracker.ReadDone(nil, nil)
			s.deferred = nil
			if d.after != nil {
				d.after()
			}
		}
	})
}
