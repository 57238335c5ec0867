package history

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"testing"
)

// table reads a snapshot.
func table(t *testing.T, r *Recorder) (from int64, columns map[string][]float32) {
	t.Helper()
	head, raw := r.Snapshot()
	var h struct {
		From  int64
		Count int
		Names []string
	}
	if err := json.Unmarshal(head, &h); err != nil {
		t.Fatal(err)
	}
	if len(raw) != 4*h.Count*len(h.Names) {
		t.Fatalf("%d bytes for %d columns of %d", len(raw), len(h.Names), h.Count)
	}
	columns = make(map[string][]float32)
	for _, name := range h.Names {
		for range h.Count {
			columns[name] = append(columns[name], math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			raw = raw[4:]
		}
	}
	return h.From, columns
}

func values(v float64) []float64 {
	list := make([]float64, len(figures))
	for i := range list {
		list[i] = v
	}
	return list
}

func TestRingKeepsAnHour(t *testing.T) {
	t.Parallel()
	r := New(nil)
	r.store(1000, values(1), []calls{{name: "get", rate: 5, p50: 1, p99: 2, p999: 3}})
	r.store(1003, values(4), nil)
	from, c := table(t, r)
	if got := fmt.Sprint(from, c["clients"], c["command:get"], c["command:get:p999"]); got != "1000 [1 NaN NaN 4] [5 NaN NaN NaN] [3 NaN NaN NaN]" {
		t.Error(got)
	}
	for second := int64(1004); second < 1004+2*seconds; second++ {
		r.store(second, values(float64(second)), nil)
	}
	from, c = table(t, r)
	if n := len(c["clients"]); from != 1004+seconds || n != seconds || c["clients"][0] != float32(from) || !math.IsNaN(float64(c["command:get"][0])) {
		t.Errorf("%d seconds from %d, first %v", n, from, c["clients"][0])
	}
	r.store(r.last+10*seconds, values(7), nil) // the clock was set forward
	if _, c = table(t, r); len(c["clients"]) != seconds || !math.IsNaN(float64(c["clients"][0])) || c["clients"][seconds-1] != 7 {
		t.Error("what is older than an hour is shown")
	}
}

func TestRingIsBounded(t *testing.T) {
	t.Parallel()
	r := New(nil)
	for i := range int64(500) {
		r.store(1000+i*7, values(1), []calls{{name: fmt.Sprint("command", i), rate: 1}, {name: "always", rate: 2}})
	}
	if len(r.commands) > maxCommands || r.Bytes() > 3<<20 {
		t.Errorf("%d commands, %d bytes", len(r.commands), r.Bytes())
	}
	if _, c := table(t, r); c["command:always"] == nil || c["command:command499"] == nil || c["command:command1"] != nil {
		t.Error("not the commands that were called last are kept")
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	r := New(nil)
	before, newer := r.Latest()
	if before != nil {
		t.Errorf("a sample before the first: %s", before)
	}
	r.store(5, values(math.NaN()), []calls{{name: "get", rate: 1, p50: math.NaN(), p99: math.Inf(1), p999: 2}})
	<-newer
	sample, _ := r.Latest()
	var s struct {
		T        int64
		Values   map[string]*float64
		Commands map[string][]*float64
	}
	if err := json.Unmarshal(sample, &s); err != nil || s.T != 5 || len(s.Values) != len(figures) || s.Commands["get"][1] != nil || *s.Commands["get"][3] != 2 {
		t.Errorf("%v %s", err, sample)
	}
}
