// Package enginetest tests engines against the contract in package engine.
//
// An engine's own tests call Run with a function that opens an empty store. The
// suite closes what it opens. A durable engine adds Reopen, and its stores are
// then also closed and opened again. A shared engine adds Another, and its stores are
// then also used by two at once. The random test prints its seed; set
// ENGINETEST_SEED to run one again.
//
// Keys that the suite writes begin with a byte below ff, as engines may reserve
// keys from ff ff ff ff on.
package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"redoubt/engine"
)

// Option changes what Run tests.
type Option func(*suite)

// Reopen gives the function that closes a store and opens it again. The engine
// must find everything that was committed.
func Reopen(reopen func(t *testing.T, e engine.Engine) engine.Engine) Option {
	return func(s *suite) { s.reopen = reopen }
}

// Counts requires that Count and Nth of a view return ok, for a few rows whose keys have their
// first two bytes in common.
func Counts() Option { return func(s *suite) { s.counts = true } }

// Another gives the function that opens the store of an engine once more, as another
// process would.
func Another(another func(t *testing.T, e engine.Engine) engine.Engine) Option {
	return func(s *suite) { s.another = another }
}

// Longest gives the length of the longest key that the engine takes, if there is a limit.
func Longest(n int) Option { return func(s *suite) { s.longest = n } }

type suite struct {
	open    func(t *testing.T) engine.Engine
	reopen  func(t *testing.T, e engine.Engine) engine.Engine
	another func(t *testing.T, e engine.Engine) engine.Engine
	counts  bool
	longest int
}

// Run tests an engine against its contract.
func Run(t *testing.T, open func(t *testing.T) engine.Engine, opts ...Option) {
	s := &suite{open: open}
	for _, o := range opts {
		o(s)
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"Get", testGet},
		{"GetMany", testGetMany},
		{"Iter", testIter},
		{"IterBounds", testIterBounds},
		{"IterIsolation", testIterIsolation},
		{"Edge", testEdge},
		{"Count", testCount},
		{"NoWait", testNoWait},
		{"Snapshot", testSnapshot},
		{"Ownership", testOwnership},
		{"BatchOrder", testBatchOrder},
		{"DeleteRange", testDeleteRange},
		{"EmptyCommit", testEmptyCommit},
		{"LargeCommit", testLargeCommit},
		{"Counter", testCounter},
		{"CounterConcurrent", testCounterConcurrent},
		{"Tickets", testTickets},
		{"OnDurable", testOnDurable},
		{"AtomicVisibility", testAtomicVisibility},
		{"ConsistentIteration", testConsistentIteration},
		{"ReadYourCommit", testReadYourCommit},
		{"Checkpoint", testCheckpoint},
		{"Stats", testStats},
		{"Close", testClose},
		{"Random", testRandom},
		{"Long", testLong},
		{"Moment", testMoment},
		{"PointRead", testPointRead},
		{"Version", testVersion},
		{"Conflict", testConflict},
		{"NoConflict", testNoConflict},
		{"Validate", testValidate},
		{"CommitBefore", testCommitBefore},
		{"NextID", testNextID},
		{"Stamp", testStamp},
		{"Now", testNow},
		{"Oldest", testOldest},
		{"SharedCounter", testSharedCounter},
		{"LostUpdate", testLostUpdate},
		{"LongShared", testLongShared},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, s)
		})
	}
}

// store is an open engine in a test, with calls that fail the test on error.
type store struct {
	engine.Engine
	t *testing.T
}

// begin opens an empty store that is closed at the end of the test.
func (s *suite) begin(t *testing.T) *store {
	t.Helper()
	st := &store{Engine: s.open(t), t: t}
	t.Cleanup(func() {
		if err := st.Engine.Close(); err != nil && !errors.Is(err, engine.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return st
}

// cycle closes the store and opens it again, if the engine can.
func (s *suite) cycle(st *store) {
	if s.reopen != nil {
		st.Engine = s.reopen(st.t, st.Engine)
	}
}

// noMoments reports whether views and snapshots show rows as they are: see
// engine.Capabilities.
func (st *store) noMoments() bool { return st.Capabilities().NoMoments }

// needsMoments skips a test of what views and snapshots show of one moment.
func (st *store) needsMoments() {
	st.t.Helper()
	if st.noMoments() {
		st.t.Skip("the engine has no moments")
	}
}

func (st *store) view() engine.View { return st.open(engine.ViewOptions{}) }

func (st *store) open(o engine.ViewOptions) engine.View {
	st.t.Helper()
	v, err := st.Begin(o)
	if err != nil {
		st.t.Fatalf("Begin: %v", err)
	}
	return v
}

func (st *store) commit(b *engine.Batch) engine.Ticket {
	st.t.Helper()
	ticket, err := apply(st.Engine, b)
	if err != nil {
		st.t.Fatalf("Commit: %v", err)
	}
	return ticket
}

// apply commits a batch without checks, and retries it on a conflict: a shared engine may have one
// with another commit on the same rows.
func apply(e engine.Engine, b *engine.Batch) (engine.Ticket, error) {
	for {
		v, err := e.Begin(engine.ViewOptions{})
		if err != nil {
			return 0, err
		}
		ticket, err := v.Commit(b)
		v.Close()
		if !errors.Is(err, engine.ErrConflict) || !e.Capabilities().Shared {
			return ticket, err
		}
	}
}

// put commits rows given as key, value, key, value...
func (st *store) put(rows ...string) engine.Ticket {
	st.t.Helper()
	var b engine.Batch
	for i := 0; i < len(rows); i += 2 {
		b.Put([]byte(rows[i]), []byte(rows[i+1]))
	}
	return st.commit(&b)
}

// get reads one row: its value in quotes, or "none".
func (st *store) get(r engine.Reader, key string) string {
	st.t.Helper()
	value, found, err := r.Get([]byte(key), nil)
	if err != nil {
		st.t.Fatalf("Get %q: %v", key, err)
	}
	if !found {
		return "none"
	}
	return fmt.Sprintf("%q", value)
}

func (st *store) counter(key string) int64 {
	st.t.Helper()
	n, err := st.Counter([]byte(key))
	if err != nil {
		st.t.Fatalf("Counter %q: %v", key, err)
	}
	return n
}

// rows walks an iterator to its end and closes it.
func rows(t *testing.T, it engine.Iterator) []string {
	t.Helper()
	out := []string{}
	for it.Next() {
		out = append(out, string(it.Key())+"="+string(it.Value()))
	}
	if it.Next() {
		t.Error("Next is true after the end")
	}
	if err := it.Close(); err != nil {
		t.Errorf("Iterator.Close: %v", err)
	}
	return out
}

// await polls until ok, or fails the test after a while.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func bound(s string) []byte {
	if s == "nil" {
		return nil
	}
	return []byte(s)
}

// pairs yields "k000".."k(n-1)" with values that name them.
func pairs(n int) iter.Seq2[string, string] {
	return func(yield func(k, v string) bool) {
		for i := range n {
			if !yield(fmt.Sprintf("k%03d", i), fmt.Sprintf("v%d", i)) {
				return
			}
		}
	}
}

// both runs a check on a view of the present state and on a snapshot of it.
func (st *store) both(check func(t *testing.T, r engine.Reader)) {
	st.t.Helper()
	v := st.view()
	defer v.Close()
	check(st.t, v)
	snap, err := st.Engine.Snapshot()
	if err != nil {
		st.t.Fatalf("Snapshot: %v", err)
	}
	check(st.t, snap)
	if err := snap.Close(); err != nil {
		st.t.Errorf("Snapshot.Close: %v", err)
	}
}

func clobber(p []byte) {
	copy(p, bytes.Repeat([]byte{0xee}, len(p)))
}
