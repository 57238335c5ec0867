package local

// The ledger: a random load, and the state of the store after each of its
// commits. Commits are known by their tickets, which count from 1 on, so a store
// that was opened says by Committed which state it must have, exactly.

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"redoubt/engine"
)

// note is one change of a commit.
type note struct {
	kind       byte // p: put, d: delete, r: delete a range, c: add to a counter
	key, value string
	delta      int64
}

// world is a state.
type world struct {
	rows     map[string]string
	counters map[string]int64
}

func newWorld() *world { return &world{map[string]string{}, map[string]int64{}} }

func (w *world) apply(notes []note) {
	for _, n := range notes {
		switch n.kind {
		case 'p':
			w.rows[n.key] = n.value
		case 'd':
			delete(w.rows, n.key)
		case 'r':
			maps.DeleteFunc(w.rows, func(k, _ string) bool { return k >= n.key && k < n.value })
		case 'c':
			w.counters[n.key] += n.delta
		}
	}
}

func toBatch(notes []note) *engine.Batch {
	b := new(engine.Batch)
	for _, n := range notes {
		switch n.kind {
		case 'p':
			b.Put([]byte(n.key), []byte(n.value))
		case 'd':
			b.Delete([]byte(n.key))
		case 'r':
			b.DeleteRange([]byte(n.key), []byte(n.value))
		case 'c':
			b.Add([]byte(n.key), n.delta)
		}
	}
	return b
}

// load makes random commits over few keys in few parts and units. Those of a
// writer all begin with its mark.
type load struct {
	rng  *rand.Rand
	mark string
	big  int // one value in so many is large
}

func (l load) prefix() string {
	return l.mark + []string{"a", "aa", "ab", "abcd", "abce", "b", "b\x00", "zz\xff", "\xfe\xff"}[l.rng.IntN(9)]
}

func (l load) key() string {
	if l.rng.IntN(12) == 0 {
		return l.prefix()
	}
	return l.prefix() + string(rune('a'+l.rng.IntN(3))) + fmt.Sprint(l.rng.IntN(12))
}

// span is a range: of two keys, of all with a prefix, or of a writer's all.
func (l load) span() (lo, hi string) {
	switch n := l.rng.IntN(200); {
	case n == 0: // slow: it touches every part
		return l.mark, l.mark + "\xff\xff\xff\xff"
	case n < 20:
		return l.mark + "a", l.mark + "c"
	case n < 80:
		lo = l.prefix()
		return lo, after(lo)
	}
	lo, hi = l.key(), l.key()
	return min(lo, hi), max(lo, hi)
}

// after is the first key behind those with a prefix.
func after(prefix string) string {
	b := []byte(prefix)
	for b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	b[len(b)-1]++
	return string(b)
}

func (l load) value() string {
	n := l.rng.IntN(50)
	if l.big > 0 && l.rng.IntN(l.big) == 0 {
		n = l.rng.IntN(4000)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + l.rng.IntN(26))
	}
	return string(b)
}

func (l load) commit() (notes []note) {
	for range 1 + l.rng.IntN(6) {
		switch n := l.rng.IntN(100); {
		case n < 62:
			notes = append(notes, note{kind: 'p', key: l.key(), value: l.value()})
		case n < 80:
			notes = append(notes, note{kind: 'd', key: l.key()})
		case n < 86:
			lo, hi := l.span()
			notes = append(notes, note{kind: 'r', key: lo, value: hi})
		default:
			notes = append(notes, note{kind: 'c', key: l.prefix(), delta: l.rng.Int64N(9) - 4})
		}
	}
	return append(notes, note{kind: 'p', key: l.mark + "n", value: l.value()}) // not empty
}

// ledger is what was committed.
type ledger struct {
	mu      sync.Mutex
	commits map[engine.Ticket][]note
	// begun: of one writer, the commit that is under way or was refused last.
	begun   []note
	written engine.Ticket // Commit has returned
}

func newLedger() *ledger { return &ledger{commits: map[engine.Ticket][]note{}} }

// commit commits and writes down what.
func (l *ledger) commit(e engine.Engine, wait bool, notes []note) error {
	v, err := e.Begin(engine.ViewOptions{NoWait: !wait})
	if err != nil {
		return err
	}
	defer v.Close()
	if e.Err() == nil { // else it is not even tried
		l.mu.Lock()
		l.begun = notes
		l.mu.Unlock()
	}
	ticket, err := v.Commit(toBatch(notes))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits[ticket] = notes
	l.written = max(l.written, ticket)
	l.begun = nil
	return nil
}

// at returns the state after the first n commits, and whether they are known.
func (l *ledger) at(n engine.Ticket) (*world, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := newWorld()
	for i := engine.Ticket(1); i <= n; i++ {
		notes, known := l.commits[i]
		if !known && i == l.written+1 && l.begun != nil {
			notes, known = l.begun, true
		}
		if !known {
			return w, false
		}
		w.apply(notes)
	}
	return w, true
}

// fork returns a ledger that goes on from the first n commits.
func (l *ledger) fork(n engine.Ticket) *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := newLedger()
	for i, notes := range l.commits {
		if i <= n {
			f.commits[i] = notes
		}
	}
	if n > l.written {
		f.commits[n] = l.begun
	}
	f.written = n
	return f
}

// check says what is wrong with a store that should have at least the first so
// many commits, or nil. It returns how many it has.
func (l *ledger) check(e engine.Engine, atLeast engine.Ticket) (engine.Ticket, error) {
	n := e.Committed()
	if n < atLeast {
		return n, fmt.Errorf("%d commits are left of %d that were promised", n, atLeast)
	}
	want, known := l.at(n)
	if !known {
		return n, fmt.Errorf("the store has %d commits, %d were made", n, l.written)
	}
	return n, want.check(e)
}

// check compares a store with a state.
func (w *world) check(e engine.Engine) error {
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		return err
	}
	defer v.Close()
	for key, want := range w.counters {
		if got, err := e.Counter([]byte(key)); err != nil || got != want {
			return fmt.Errorf("counter %q is %d, %v, not %d", key, got, err, want)
		}
	}
	return w.checkRows(v)
}

func (w *world) checkRows(r engine.Reader) error {
	keys := slices.Sorted(maps.Keys(w.rows))
	if err := w.checkWalk(r.Iter(nil, nil, false), keys); err != nil {
		return err
	}
	slices.Reverse(keys)
	if err := w.checkWalk(r.Iter(nil, nil, true), keys); err != nil {
		return fmt.Errorf("backward: %w", err)
	}
	for i, key := range keys { // and one by one
		if i%3 != 0 {
			continue
		}
		if value, found, err := r.Get([]byte(key), nil); err != nil || !found || string(value) != w.rows[key] {
			return fmt.Errorf("row %q is %.40q, found %v, %w, should be %.40q", key, value, found, err, w.rows[key])
		}
	}
	return nil
}

func (w *world) checkWalk(it engine.Iterator, keys []string) (err error) {
	i := 0
	for ; it.Next() && err == nil; i++ {
		switch {
		case i == len(keys):
			err = fmt.Errorf("a row too many: %q", it.Key())
		case string(it.Key()) != keys[i] || string(it.Value()) != w.rows[keys[i]]:
			err = fmt.Errorf("row %q=%.40q, should be %q=%.40q", it.Key(), it.Value(), keys[i], w.rows[keys[i]])
		}
	}
	if broken := it.Close(); broken != nil {
		return broken
	}
	if err == nil && i < len(keys) {
		err = fmt.Errorf("rows end before %q", keys[i])
	}
	return err
}

// mustCheck fails the test if something is wrong.
func (l *ledger) mustCheck(t testing.TB, e engine.Engine, atLeast engine.Ticket) engine.Ticket {
	t.Helper()
	n, err := l.check(e, atLeast)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
