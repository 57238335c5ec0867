package observe

import (
	"strings"
	"testing"
	"time"

	"redoubt/wire"
)

func TestLatency(t *testing.T) {
	t.Parallel()
	var m Latency
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	m.Note("command", 20*time.Millisecond, at(100))
	m.Note("command", 50*time.Millisecond, at(100))
	m.Note("command", 30*time.Millisecond, at(100))
	m.Note("command", 10*time.Millisecond, at(101))
	m.Note("expire-cycle", time.Second, at(101))
	s, ok := m.find("command")
	if !ok || len(s.samples) != 2 || s.samples[0] != (sample{100, 50}) || s.samples[1] != (sample{101, 10}) || s.max != 50 {
		t.Errorf("got %+v", s)
	}
	if got := strings.Join(m.names(), " "); got != "command expire-cycle" {
		t.Errorf("events: %s", got)
	}
	for i := range int64(2 * maxSamples) {
		m.Note("command", time.Millisecond, at(200+i))
	}
	if s, _ := m.find("command"); len(s.samples) != maxSamples || s.max != 50 || s.high() != 1 {
		t.Errorf("%d samples, max %d, high %d", len(s.samples), s.max, s.high())
	}
	if n := m.reset("nosuch", "command", "command"); n != 1 {
		t.Errorf("reset of one event: %d", n)
	}
	if n := m.reset(); n != 1 || len(m.names()) != 0 {
		t.Errorf("reset of all: %d, left: %v", n, m.names())
	}
}

func TestLatencyGraph(t *testing.T) {
	t.Parallel()
	s := series{samples: []sample{{1000, 0}, {20_000, 11}, {99_000, 5}, {100_000, 8}}, max: 77}
	got := s.graph("command", time.Unix(100_005, 0))
	want := "command - high 11 ms, low 0 ms (all time high 77 ms)\n" + strings.Repeat("-", 80) + "\n" +
		" #  \n" +
		" | #\n" +
		" |#|\n" +
		"_|||\n" +
		"    \n" +
		"1215\n" +
		"d26s\n" +
		" hm \n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestHistogramReply(t *testing.T) {
	t.Parallel()
	o, set, loop := newObserver()
	for _, d := range []time.Duration{500, 900, 1500, 20_000, 300 * time.Millisecond} {
		loop.Record(set, d, false)
	}
	s := o.Stats.Command(set)
	w := wire.Writer{Proto: 3}
	s.writeHistogram(&w)
	var want wire.Writer
	want.Proto = 3
	want.Map(2)
	want.BulkString("calls")
	want.Int(5)
	want.BulkString("histogram_usec")
	want.Map(4)
	// The limits are those that Redis shows.
	for _, x := range [][2]int64{{1, 2}, {2, 3}, {33, 4}, {541065, 5}} {
		want.Int(x[0])
		want.Int(x[1])
	}
	if string(w.Buf) != string(want.Buf) {
		t.Errorf("got %q\nwant %q", w.Buf, want.Buf)
	}
}

func TestLatencyDoctor(t *testing.T) {
	t.Parallel()
	var m Latency
	if s := m.doctor(time.Unix(0, 0)); !strings.Contains(s, "not being watched") {
		t.Errorf("off: %s", s)
	}
	m.Set(10 * time.Millisecond)
	if s := m.doctor(time.Unix(0, 0)); !strings.HasPrefix(s, "No event") {
		t.Errorf("no events: %s", s)
	}
	m.Note("command", 25*time.Millisecond, time.Unix(100, 0))
	if s := m.doctor(time.Unix(160, 0)); !strings.Contains(s, "command: 1 seconds with spikes, the last one 1m ago; mean 25 ms") {
		t.Errorf("one event: %s", s)
	}
}

// A sweep that takes long is an event where commands wait for it. On a store elsewhere
// it waits for round trips, and they do not wait for it.
func TestLatencyOfSweeps(t *testing.T) {
	t.Parallel()
	for waited, want := range map[bool]string{true: "expire-cycle", false: ""} {
		o, _, _ := newObserver()
		o.Latency.Set(10 * time.Millisecond)
		m := &sampler{o: o, Samples: Samples{Sweeps: func() (Work, bool) { return Work{3, int64(time.Second)}, waited }}}
		m.sweeps.Count = 2
		m.quick(time.Now())
		if got := strings.Join(o.Latency.names(), " "); got != want {
			t.Errorf("waited for %v: events %q, want %q", waited, got, want)
		}
	}
}
