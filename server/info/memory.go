package info

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"

	"redoubt/server/observe"
)

// Memory is the breakdown of the process's memory.
type Memory struct {
	Used    int64 // Go's memory and the engine's outside of it, or what counts against maxmemory
	Heap    int64 // live and not yet collected objects
	resting int64 // mapped and free
	stacks  int64
	offHeap int64
	RSS     int64 // of the process
}

// notGo reports whether engines allocate outside of Go's heap: Pebble does so for
// its block cache and memtables when the program is built with cgo.
var notGo = sync.OnceValue(func() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" {
			return s.Value == "1"
		}
	}
	return false
})

// Memory reads the breakdown of the memory, and notes the peak. It does not stop the world:
// runtime/metrics needs no pause.
func (r *Reporter) Memory() Memory {
	s := r.Store()
	return r.memory(&s)
}

func (r *Reporter) memory(s *Store) Memory {
	names := []string{
		"/memory/classes/total:bytes", "/memory/classes/heap/released:bytes", "/memory/classes/heap/free:bytes",
		"/memory/classes/heap/unused:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/heap/stacks:bytes",
	}
	samples := make([]metrics.Sample, len(names))
	for i, n := range names {
		samples[i].Name = n
	}
	metrics.Read(samples)
	v := func(i int) int64 {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return int64(samples[i].Value.Uint64())
	}
	m := Memory{Heap: v(4), stacks: v(5), resting: v(2) + v(3)}
	if m.offHeap = s.OffHeapBytes; s.OnDisk && notGo() {
		m.offHeap = s.MemoryBytes
	}
	m.Used = v(0) - v(1) - m.resting + m.offHeap
	if s.Counted > 0 {
		m.Used = s.Counted
	}
	if m.RSS = residentBytes(); m.RSS == 0 { // not on Linux
		m.RSS = v(0) - v(1) + m.offHeap
	}
	observe.Raise(&r.peakMemory, m.Used)
	return m
}

// residentBytes returns the size of the process's resident set, or 0 if it is unknown.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
