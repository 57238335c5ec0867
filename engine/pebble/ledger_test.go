package pebble

// The ledger: a workload that can tell, for any store it is given, whether what
// was acknowledged is there, whether commits are whole, and whether counters
// agree with rows.
//
// Each writer makes numbered commits. Commit i of writer w puts the rows
// "w/i/a" and "w/i/b", deletes "w/(i-5)/b", sets "w/last" to i, and adds to the
// counters "rows" (+2 or +1) and "w". So the state after commits 1..i of each
// writer is known, and a writer's commits are in order: whatever survives must
// be such a state.

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"redoubt/engine"
)

const writers = 3

type ledger struct {
	mu    sync.Mutex
	next  [writers]int
	sent  [writers][]promise // not known to be durable yet
	acked [writers]int       // the newest durable commit
}

type promise struct {
	ticket engine.Ticket
	n      int
}

func writerName(w int) string { return fmt.Sprintf("w%d", w) }

// commit makes the next commit of a writer, with some bytes of ballast.
func (l *ledger) commit(e engine.Engine, w, ballast int) error {
	v, err := e.Begin()
	if err != nil {
		return err
	}
	defer v.Close()
	l.mu.Lock()
	n := l.next[w] + 1
	l.mu.Unlock()
	var b engine.Batch
	name := writerName(w)
	b.Put(fmt.Appendf(nil, "%s/%06d/a", name, n), bytes.Repeat([]byte{byte(n)}, ballast))
	b.Put(fmt.Appendf(nil, "%s/%06d/b", name, n), []byte("b"))
	b.Add([]byte("rows"), 2)
	if n > 5 {
		b.Delete(fmt.Appendf(nil, "%s/%06d/b", name, n-5))
		b.Add([]byte("rows"), -1)
	}
	b.Put(fmt.Appendf(nil, "%s/last", name), fmt.Append(nil, n))
	b.Add([]byte(name), 1)
	ticket, err := v.Commit(&b)
	if err == nil {
		l.mu.Lock()
		l.next[w] = n
		l.sent[w] = append(l.sent[w], promise{ticket, n})
		l.mu.Unlock()
	}
	return err
}

// acknowledged returns what is promised by now: take it before the crash.
func (l *ledger) acknowledged(e engine.Engine) [writers]int {
	durable := e.Durable()
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.sent {
		for len(l.sent[w]) > 0 && l.sent[w][0].ticket <= durable {
			l.acked[w], l.sent[w] = l.sent[w][0].n, l.sent[w][1:]
		}
	}
	return l.acked
}

// check fails the test unless the store holds a whole state with at least the
// commits of acked. It returns how far each writer got.
func (l *ledger) check(t *testing.T, e engine.Engine, acked [writers]int) (got [writers]int) {
	t.Helper()
	v, err := e.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	total := 0
	for w := range writers {
		name := writerName(w)
		value, _, err := v.Get([]byte(name+"/last"), nil)
		if err != nil {
			t.Fatal(err)
		}
		last, _ := strconv.Atoi(string(value))
		if got[w] = last; last < acked[w] {
			t.Errorf("%s: %d commits left, %d were acknowledged", name, last, acked[w])
		}
		rows := 0
		it := v.Iter([]byte(name+"/0"), []byte(name+"/9"), false)
		for ; it.Next(); rows++ {
			n, _ := strconv.Atoi(string(it.Key()[len(name)+1 : len(name)+7]))
			if n < 1 || n > last {
				t.Errorf("%s: row %q beyond commit %d", name, it.Key(), last)
			}
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		if want := last + min(last, 5); rows != want {
			t.Errorf("%s: %d rows after %d commits, want %d", name, rows, last, want)
		}
		total += rows
		if n, err := e.Counter([]byte(name)); err != nil || n != int64(last) {
			t.Errorf("%s: counter %d, %v, want %d", name, n, err, last)
		}
	}
	if n, err := e.Counter([]byte("rows")); err != nil || n != int64(total) {
		t.Errorf("counter of rows %d, %v, want %d", n, err, total)
	}
	return got
}

// restart makes the ledger go on from what a store holds.
func (l *ledger) restart(at [writers]int) {
	l.next, l.acked, l.sent = at, at, [writers][]promise{}
}

// await polls until ok, or fails the test after a while.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
