package script

import (
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/wire"
)

// running are the scripts that workers run. One on an event loop is over before
// anybody could ask.
type running struct {
	mu   sync.Mutex
	jobs map[*job]struct{}
}

// job is a script that a worker runs.
type job struct {
	name   string
	eval   bool
	args   [][]byte
	start  time.Time
	killed atomic.Bool
	space  *keyspace.Space // told that the job runs
}

func (r *running) init() { r.jobs = make(map[*job]struct{}) }

func (r *running) add(c *command.Ctx, p *program) *job {
	// The arguments live as long as the execution, and FUNCTION STATS may copy them
	// until remove.
	j := &job{name: p.name, eval: p.eval, args: c.Args, start: time.Now()}
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

// Kill ends the scripts, or the functions, that have run for longer than the
// threshold.
func (e *Engine) Kill(eval bool) error {
	threshold := e.Threshold()
	r := &e.running
	r.mu.Lock()
	defer r.mu.Unlock()
	killed, others := 0, 0
	for j := range r.jobs {
		switch {
		case time.Since(j.start) < threshold:
		case j.eval == eval:
			j.killed.Store(true)
			killed++
		default:
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

// KillAll ends all that run, for a server that shuts down.
func (e *Engine) KillAll() {
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	for j := range e.running.jobs {
		j.killed.Store(true)
	}
}

// WriteStats answers FUNCTION STATS: the function that has run for the longest
// time, and how many there are.
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
