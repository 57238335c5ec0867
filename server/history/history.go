// Package history keeps the figures of the last hour in memory, a value for each second.
//
// Once a second the figures of info.Source are read and put into a ring of columns: some
// forty of the server, and four of each command that was called. A column is 3600 values of
// four bytes. Nothing grows beyond that: commands have at most forty groups of columns, and
// one that was not called for the longest time makes room for another.
package history

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/server/info"
	"redoubt/server/observe"
)

const (
	seconds     = 3600 // kept
	maxCommands = 40
)

// column has the value of second t at index t modulo its length; NaN is none.
type column [seconds]float32

// perCommand are the columns of a command: calls a second, and percentiles in microseconds.
type perCommand struct {
	name                  string
	used                  int64 // the second of the last call
	calls, p50, p99, p999 column
}

func (p *perCommand) columns() []*column { return []*column{&p.calls, &p.p50, &p.p99, &p.p999} }

// Recorder records the history.
type Recorder struct {
	from *info.Reporter

	mu       sync.Mutex
	last     int64 // the newest second; 0: none
	begun    int64 // the first one
	fixed    []column
	commands map[string]*perCommand
	latest   []byte
	newer    chan struct{}

	// Only record uses the others.
	before   reading
	previous map[int]*observe.CommandStats
}

// New makes a Recorder.
func New(from *info.Reporter) *Recorder {
	r := &Recorder{
		from: from, fixed: make([]column, len(figures)), commands: make(map[string]*perCommand), newer: make(chan struct{}),
		previous: make(map[int]*observe.CommandStats),
	}
	for i := range r.fixed {
		r.fixed[i].clear()
	}
	return r
}

func (c *column) clear() {
	for i := range c {
		c[i] = float32(math.NaN())
	}
}

// Run records each second until the context ends.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	r.Record(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.Record(now)
		}
	}
}

// calls are the figures of a command in one second.
type calls struct {
	name           string
	rate           float64
	p50, p99, p999 float64
}

// Record reads the figures and records them for the second in which now is. A second that was
// recorded already stays as it is: the clock was set back.
func (r *Recorder) Record(now time.Time) {
	second := now.Unix()
	r.mu.Lock()
	late := second <= r.last
	r.mu.Unlock()
	if late {
		return
	}
	present := read(r.from, now)
	passed := now.Sub(r.before.at).Seconds()
	first := r.before.at.IsZero()
	if first {
		passed = math.Inf(1)
	}
	values := make([]float64, len(figures))
	for i, f := range figures {
		v := f.of(&present)
		if f.rate {
			v = max(0, v-f.of(&r.before)) / passed // less than before: CONFIG RESETSTAT
		}
		if first && f.rate {
			v = math.NaN()
		}
		values[i] = v
	}
	commands, all := r.perCommand(passed)
	values[figureP50], values[figureP99], values[figureP999] = all.p50, all.p99, all.p999
	r.before = present
	if first {
		commands = nil
		values[figureP50], values[figureP99], values[figureP999] = math.NaN(), math.NaN(), math.NaN()
	}
	r.store(second, values, commands)
}

// perCommand returns the commands that were called since the last time, and all together.
func (r *Recorder) perCommand(passed float64) (list []calls, all calls) {
	var sum observe.CommandStats
	r.from.Observer().Stats.Each(func(cmd *command.Command, now *observe.CommandStats) {
		old := r.previous[cmd.ID]
		if old == nil {
			old = new(observe.CommandStats)
			r.previous[cmd.ID] = old
		}
		since := now.Since(old)
		*old = *now
		if since.Calls == 0 {
			return
		}
		sum.Add(&since)
		list = append(list, of(cmd.FullName, &since, passed))
	})
	return list, of("", &sum, passed)
}

func of(name string, s *observe.CommandStats, passed float64) calls {
	c := calls{name: name, rate: float64(s.Calls) / passed, p50: math.NaN(), p99: math.NaN(), p999: math.NaN()}
	if s.Timed > 0 {
		micros := func(p float64) float64 { return float64(s.Percentile(p)) / float64(time.Microsecond) }
		c.p50, c.p99, c.p999 = micros(50), micros(99), micros(99.9)
	}
	return c
}

// store puts the values of a second into the ring.
func (r *Recorder) store(second int64, values []float64, commands []calls) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun == 0 {
		r.begun, r.last = second, second-1
	}
	for skipped := max(r.last+1, second-seconds); skipped <= second; skipped++ { // NaN where nothing was recorded
		at := skipped % seconds
		for i := range r.fixed {
			r.fixed[i][at] = float32(math.NaN())
		}
		for _, p := range r.commands {
			for _, c := range p.columns() {
				c[at] = float32(math.NaN())
			}
		}
	}
	at := second % seconds
	for i, v := range values {
		r.fixed[i][at] = float32(v)
	}
	for _, c := range commands {
		if p := r.room(c.name, second); p != nil {
			p.calls[at], p.p50[at], p.p99[at], p.p999[at] = float32(c.rate), float32(c.p50), float32(c.p99), float32(c.p999)
		}
	}
	r.last = second
	r.latest = sample(second, values, commands)
	close(r.newer)
	r.newer = make(chan struct{})
}

// room returns the columns of a command, or nil if there are too many that are in use.
func (r *Recorder) room(name string, second int64) *perCommand {
	if p := r.commands[name]; p != nil {
		p.used = second
		return p
	}
	var p *perCommand
	if len(r.commands) < maxCommands {
		p = new(perCommand)
	} else {
		for _, other := range r.commands {
			if p == nil || other.used < p.used {
				p = other
			}
		}
		if second-p.used < 60 {
			return nil
		}
		delete(r.commands, p.name)
	}
	for _, c := range p.columns() {
		c.clear()
	}
	p.name, p.used = name, second
	r.commands[name] = p
	return p
}

// sample returns a second as JSON: {"t": ..., "values": {...}, "commands": {name: [rate, p50, p99, p999]}}.
// Figures that there are not are left out, or null.
func sample(second int64, values []float64, commands []calls) []byte {
	type line [4]*float64
	number := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	s := struct {
		T        int64               `json:"t"`
		Values   map[string]*float64 `json:"values"`
		Commands map[string]line     `json:"commands"`
	}{second, make(map[string]*float64, len(values)), make(map[string]line, len(commands))}
	for i, v := range values {
		s.Values[figures[i].name] = number(v)
	}
	for _, c := range commands {
		s.Commands[c.name] = line{number(c.rate), number(c.p50), number(c.p99), number(c.p999)}
	}
	b, _ := json.Marshal(s) // numbers that are finite have a JSON form
	return b
}

// Latest returns the newest second as JSON, nil if there is none, and a channel that is
// closed when there is a newer one.
func (r *Recorder) Latest() ([]byte, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest, r.newer
}

// Snapshot returns the whole history: as JSON the first second, the number of seconds and the
// names of the columns, and the columns as float32, little-endian. The columns of a command
// are named command:name, and :p50, :p99 and :p999 behind that.
func (r *Recorder) Snapshot() (header, columns []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := max(r.begun, r.last-seconds+1)
	count := int(r.last - from + 1)
	h := struct {
		From  int64    `json:"from"`
		Count int      `json:"count"`
		Names []string `json:"names"`
	}{From: from, Count: count}
	put := func(name string, c *column) {
		h.Names = append(h.Names, name)
		for t := from; t <= r.last; t++ {
			columns = binary.LittleEndian.AppendUint32(columns, math.Float32bits(c[t%seconds]))
		}
	}
	columns = make([]byte, 0, 4*count*(len(figures)+4*len(r.commands)))
	for i, f := range figures {
		put(f.name, &r.fixed[i])
	}
	for name, p := range r.commands {
		for i, c := range p.columns() {
			put("command:"+name+[...]string{"", ":p50", ":p99", ":p999"}[i], c)
		}
	}
	header, _ = json.Marshal(h) // texts and numbers have a JSON form
	return header, columns
}

// Bytes returns how much memory the history takes.
func (r *Recorder) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	const one = 4 * seconds
	return int64(len(r.fixed)*one + len(r.commands)*4*one)
}
