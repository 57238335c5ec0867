package executor

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/executor/background"
	"redoubt/internal/race"
	"redoubt/keyspace"
	"redoubt/wire"
)

// The tests drive the executor as the event loops do: batches that run calls
// and are then committed. Most calls are real commands; small ones of the test's
// own reach what no real command does on demand.

// fixture is an executor with a clock of its own.
type fixture struct {
	t   testing.TB
	x   *Executor
	bg  *background.Worker
	eng *journal
	now atomic.Int64 // Unix milliseconds
	log *logbook

	background bool // the background work runs: latches may be held at any time
}

const (
	testNow       = 1_700_000_000_000
	testDatabases = 4
)

// newFixture makes an executor over rows in memory that are durable at once.
func newFixture(t testing.TB) *fixture { return open(t, &journal{Engine: mem.New()}) }

// newDurable makes an executor whose commits become durable when the test says.
func newDurable(t testing.TB) *fixture {
	return open(t, &journal{Engine: mem.New(), held: true})
}

func open(t testing.TB, j *journal) *fixture {
	t.Helper()
	space, err := keyspace.Open(j, testDatabases)
	if err != nil {
		t.Fatal(err)
	}
	j.flush()
	f := &fixture{t: t, eng: j, log: &logbook{}}
	f.now.Store(testNow)
	log := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	clock := func() time.Time { return time.UnixMilli(f.now.Load()) }
	f.x = New(Options{
		Engine: j, Space: space, Seed: 1, Logger: log, Clock: clock, Limits: command.Limits{MaxBulk: 512 << 20},
	})
	f.bg = background.New(background.Options{Executor: f.x, Engine: j, Space: space, Clock: clock, Logger: log})
	return f
}

// seeded returns random numbers whose seed is printed when the test fails; set
// EXECUTOR_SEED to run it again.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("EXECUTOR_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("EXECUTOR_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// rounds is how often a stress repeats what it does.
func rounds(n int) int {
	if testing.Short() || race.Enabled {
		return n / 4
	}
	return n
}

// table is made once, since making it numbers the commands.
var table = sync.OnceValue(func() *command.Table { return command.NewTable(command.All()...) })

// client is one connection on a batch: it gives calls to it and sees replies.
type client struct {
	f    *fixture
	b    *Batch
	w    wire.Writer
	db   int
	call Call // the last one
}

// client makes a connection on a batch of its own, as on an event loop.
func (f *fixture) client() *client {
	return &client{f: f, b: f.x.NewBatch(), w: wire.Writer{Proto: 2}}
}

// beside makes another connection on the same batch.
func (c *client) beside() *client { return &client{f: c.f, b: c.b, w: wire.Writer{Proto: 2}} }

func words(line string) (args [][]byte) {
	for _, a := range strings.Fields(line) {
		args = append(args, []byte(a))
	}
	return args
}

// try runs a command and reports whether the batch took it.
func (c *client) try(line string) bool {
	args := words(line)
	return c.tryCmd(table().Find(args), args)
}

func (c *client) tryCmd(cmd *command.Command, args [][]byte) bool {
	c.call = Call{Cmd: cmd, Args: args, DB: c.db, Reply: &c.w}
	return c.b.Run(&c.call) == 0
}

// run runs a command that the batch must take, without a commit.
func (c *client) run(line string) {
	c.f.t.Helper()
	if !c.try(line) {
		c.f.t.Errorf("%q was left to a worker", line)
	}
}

func (c *client) runCmd(cmd *command.Command, args ...string) {
	c.f.t.Helper()
	if !c.tryCmd(cmd, words(strings.Join(append([]string{cmd.Name}, args...), " "))) {
		c.f.t.Errorf("%s was left to a worker", cmd.Name)
	}
}

// commit ends the turn and returns the ticket and the replies.
func (c *client) commit() (engine.Ticket, string) {
	t := c.b.Commit()
	return t, c.take()
}

// take returns the replies so far in a short form and forgets them.
func (c *client) take() string {
	s := short(c.w.Buf)
	c.w.Buf = c.w.Buf[:0]
	return s
}

// ready is what the reply to the last call waits for, once the turn is over.
func (c *client) ready(own engine.Ticket) engine.Ticket { return c.call.ready(own) }

// do is one command in a turn of its own; one that is for a worker is run there.
func (c *client) do(line string) string {
	c.f.t.Helper()
	if !c.try(line) {
		c.b.Commit()
		return c.f.worker(c.db, line)
	}
	_, s := c.commit()
	return s
}

// worker runs a command on a worker.
func (f *fixture) worker(db int, line string) string {
	args := words(line)
	_, _, s := f.workerCmd(table().Find(args), db, args)
	return s
}

func (f *fixture) workerCmd(cmd *command.Command, db int, args [][]byte) (engine.Ticket, Call, string) {
	w := wire.Writer{Proto: 2}
	c := Call{Cmd: cmd, Args: args, DB: db, Reply: &w}
	t := f.x.RunOnWorker(&c)
	return t, c, short(w.Buf)
}

// do runs one command and says what came back.
func (f *fixture) do(line string) string {
	f.t.Helper()
	return f.client().do(line)
}

// short makes replies readable: OK, (nil), 12, abc, !ERR text, [a b].
func short(buf []byte) string {
	var out []string
	for len(buf) > 0 {
		var s string
		s, buf = shortOne(buf)
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func shortOne(buf []byte) (string, []byte) {
	line, rest, ok := bytes.Cut(buf, []byte("\r\n"))
	if !ok || len(line) == 0 {
		return "MALFORMED " + string(buf), nil
	}
	n, _ := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case '+', ':':
		return string(line[1:]), rest
	case '-':
		return "!" + string(line[1:]), rest
	case '$':
		if n < 0 {
			return "(nil)", rest
		}
		if len(rest) < n+2 {
			return "MALFORMED " + string(buf), nil
		}
		return string(rest[:n]), rest[n+2:]
	case '*':
		var list []string
		for range n {
			var s string
			s, rest = shortOne(rest)
			list = append(list, s)
		}
		return "[" + strings.Join(list, " ") + "]", rest
	}
	return "MALFORMED " + string(buf), nil
}

func (f *fixture) want(what, got, want string) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// rows counts the engine's rows by their kind; those of the system are kind ff.
func (f *fixture) rows() map[byte]int {
	f.t.Helper()
	snap, err := f.eng.Snapshot()
	if err != nil {
		f.t.Fatal(err)
	}
	defer snap.Close()
	n := make(map[byte]int)
	it := snap.Iter(nil, nil, false)
	for it.Next() {
		if k := it.Key(); k[0] == 0xff {
			n[0xff]++
		} else {
			n[k[2]]++
		}
	}
	if err := it.Close(); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// logbook collects the log.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

var errInjected = errors.New("injected")

// journal is an engine whose commits become durable when the test says so, and
// that fails when the test says so. With held unset it is the engine it wraps.
type journal struct {
	engine.Engine
	held bool

	durable atomic.Uint64
	failAll atomic.Bool  // commits fail
	failIn  atomic.Int64 // if n > 0, the nth commit from now fails
	broken  atomic.Bool  // Err says so, and Begin fails
	began   atomic.Int64 // views that were opened and not closed

	mu       sync.Mutex
	visible  func(engine.Ticket) // called inside Commit, once the rows are visible
	snapshot func()              // called inside Snapshot, once it is taken
	walked   func()              // called when an iterator of a view is closed
	recorded func(engine.Ticket, *engine.Batch)
}

func (j *journal) Capabilities() engine.Capabilities {
	c := j.Engine.Capabilities()
	c.Durable = c.Durable || j.held
	return c
}

func (j *journal) Durable() engine.Ticket {
	if !j.held {
		return j.Engine.Durable()
	}
	return engine.Ticket(j.durable.Load())
}

// flush makes everything durable.
func (j *journal) flush() { j.durable.Store(uint64(j.Committed())) }

func (j *journal) Err() error {
	if j.broken.Load() {
		return fmt.Errorf("%w: %w", engine.ErrReadOnly, errInjected)
	}
	return nil
}

func (j *journal) Begin(o engine.ViewOptions) (engine.View, error) {
	if err := j.Err(); err != nil {
		return nil, err
	}
	v, err := j.Engine.Begin(o)
	if err == nil {
		j.began.Add(1)
	}
	return &journalView{v, j}, err
}

func (j *journal) Snapshot() (engine.Snapshot, error) {
	s, err := j.Engine.Snapshot()
	j.mu.Lock()
	hook := j.snapshot
	j.mu.Unlock()
	if hook != nil {
		hook()
	}
	return s, err
}

type journalView struct {
	engine.View
	j *journal
}

func (v *journalView) Commit(b *engine.Batch) (engine.Ticket, error) {
	j := v.j
	if j.failAll.Load() || (j.failIn.Load() > 0 && j.failIn.Add(-1) == 0) {
		return 0, fmt.Errorf("%w: %w", engine.ErrReadOnly, errInjected)
	}
	t, err := v.View.Commit(b)
	j.mu.Lock()
	hook := j.visible
	if j.recorded != nil && err == nil {
		j.recorded(t, b)
	}
	j.mu.Unlock()
	if hook != nil && err == nil {
		hook(t)
	}
	return t, err
}

func (v *journalView) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return &journalIter{v.View.Iter(lo, hi, reverse), v.j}
}

func (v *journalView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

type journalIter struct {
	engine.Iterator
	j *journal
}

func (it *journalIter) Close() error {
	err := it.Iterator.Close()
	it.j.mu.Lock()
	hook := it.j.walked
	it.j.mu.Unlock()
	if hook != nil {
		hook()
	}
	return err
}

func (v *journalView) Close() {
	v.j.began.Add(-1)
	v.View.Close()
}

func (j *journal) onVisible(f func(engine.Ticket)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.visible = f
}

func (j *journal) onSnapshot(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.snapshot = f
}

func (j *journal) onWalked(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.walked = f
}
