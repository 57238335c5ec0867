package script

import (
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/wire"
)

// running lists the scripts that workers run. A script on an event loop ends before
// a client could ask.
type running struct {
	mu   sync.Mutex
	jobs map[*job]struct{}
}

// job is a script that a worker runs.
type job struct {
	name  string
	eval  bool
	args  [][]byte
	start time.Time
	stop  *Stop
	space *keyspace.Space // counts the job in Space.Scripts
}

// Stop is a request to end the scripts of one command. It belongs to the command and not to
// a run of its script: a command that is run again after a conflict must not forget that it
// was killed.
type Stop struct {
	killed   atomic.Bool
	deadline atomic.Int64 // in nanoseconds since 1970; 0 is none
}

// Stoppable is a command.Caller with a Stop for the command under way, which may be nil.
type Stoppable interface{ Stop() *Stop }

// At makes the scripts of the command end at a time, since the client has disconnected. An
// earlier time stays.
func (s *Stop) At(t time.Time) {
	for {
		old := s.deadline.Load()
		if old != 0 && old <= t.UnixNano() || s.deadline.CompareAndSwap(old, t.UnixNano()) {
			return
		}
	}
}

// Passed reports whether the time of At has come.
func (s *Stop) Passed(now time.Time) bool {
	t := s.deadline.Load()
	return t != 0 && now.UnixNano() >= t
}

// wished reports whether the script may have to end; tick decides.
func (s *Stop) wished() bool { return s.killed.Load() || s.deadline.Load() != 0 }

func (r *running) init() { r.jobs = make(map[*job]struct{}) }

func (r *running) add(c *command.Ctx, p *program) *job {
	// The arguments live as long as the execution, and FUNCTION STATS may copy them
	// until remove.
	j := &job{name: p.name, eval: p.eval, args: c.Args, start: time.Now()}
	if s, ok := c.Caller.(Stoppable); ok {
		j.stop = s.Stop()
	}
	if j.stop == nil {
		j.stop = new(Stop)
	}
	if tx := c.Tx; tx.Space != nil && tx.Numbers == nil && !tx.OneState {
		j.space = tx.Space
		j.space.Scripts.Add(1)
	}
	r.mu.Lock()
	r.jobs[j] = struct{}{}
	r.mu.Unlock()
	return j
}

func (r *running) remove(j *job) {
	if j.space != nil {
		j.space.Scripts.Add(-1)
	}
	r.mu.Lock()
	delete(r.jobs, j)
	r.mu.Unlock()
}

func (r *running) figures() (n int64, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for j := range r.jobs {
		longest = max(longest, time.Since(j.start))
	}
	return int64(len(r.jobs)), longest
}

// Kill ends all running scripts, or all running functions, however short they have run: their
// writes are not visible yet and are undone, so there is no reason to wait. It fails if none
// of that kind runs.
func (e *Engine) Kill(eval bool) error {
	r := &e.running
	r.mu.Lock()
	defer r.mu.Unlock()
	killed, others := 0, 0
	for j := range r.jobs {
		if j.eval == eval {
			j.stop.killed.Store(true)
			killed++
		} else {
			others++
		}
	}
	switch {
	case killed > 0:
		return nil
	case others > 0 && eval:
		return errBusyFunction
	case others > 0:
		return errBusyEval
	}
	return errNotBusy
}

// KillAll ends all running scripts and functions, for a server that shuts down.
func (e *Engine) KillAll() {
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	for j := range e.running.jobs {
		j.stop.killed.Store(true)
	}
}

// WriteStats writes the reply of FUNCTION STATS: the function that has run for the longest
// time, and the numbers of libraries and functions.
func (e *Engine) WriteStats(w *wire.Writer) {
	w.Map(2)
	w.BulkString("running_script")
	e.writeRunning(w)
	w.BulkString("engines")
	w.Map(1)
	w.BulkString("LUA")
	w.Map(2)
	r := e.registry.Load()
	w.BulkString("libraries_count")
	w.Int(int64(len(r.libraries)))
	w.BulkString("functions_count")
	w.Int(int64(len(r.functions)))
}

func (e *Engine) writeRunning(w *wire.Writer) {
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	var oldest *job
	for j := range e.running.jobs {
		if !j.eval && (oldest == nil || j.start.Before(oldest.start)) {
			oldest = j
		}
	}
	if oldest == nil {
		w.Null()
		return
	}
	w.Map(3)
	w.BulkString("name")
	w.BulkString(oldest.name)
	w.BulkString("command")
	w.Array(len(oldest.args))
	for _, a := range oldest.args {
		w.Bulk(a)
	}
	w.BulkString("duration_ms")
	w.Int(time.Since(oldest.start).Milliseconds())
}
