//go:build linux

package main

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// traceCollector makes the Go runtime report every collection on standard error.
const traceCollector = "GODEBUG=gctrace=1"

// collector reads those reports off a server's standard error, and passes on
// the rest. The runtime counts all marking, also what it did on a processor
// that would have been idle, and none of the sweeping.
type collector struct {
	rest io.Writer

	mu      sync.Mutex
	partial []byte
	cycles  int
	cpu     time.Duration
}

// Write implements io.Writer.
func (c *collector) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partial = append(c.partial, b...)
	for {
		end := bytes.IndexByte(c.partial, '\n')
		if end < 0 {
			return len(b), nil
		}
		line := c.partial[:end+1]
		if d, ok := traceCPU(string(line)); ok {
			c.cycles++
			c.cpu += d
		} else if _, err := c.rest.Write(line); err != nil {
			return len(b), err
		}
		c.partial = c.partial[end+1:]
	}
}

// total is what collections took so far.
func (c *collector) total() (cycles int, cpu time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cycles, c.cpu
}

// traceCPU reads the CPU time of a line such as
//
//	gc 3 @0.1s 2%: 0.01+1.3+0.07 ms clock, 0.05+0.35/1.2/3.0+0.2 ms cpu, ...
//
// whose five numbers are stopping, assists, dedicated marking, idle marking and
// the end of marking, in milliseconds.
func traceCPU(line string) (time.Duration, bool) {
	if !strings.HasPrefix(line, "gc ") {
		return 0, false
	}
	_, after, ok1 := strings.Cut(line, " ms clock, ")
	list, _, ok2 := strings.Cut(after, " ms cpu")
	if !ok1 || !ok2 {
		return 0, false
	}
	sum := 0.0
	for part := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == '+' || r == '/' }) {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, false
		}
		sum += v
	}
	return time.Duration(sum * float64(time.Millisecond)), true
}
