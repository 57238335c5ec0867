package feed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/budget"
	"redoubt/engine"
)

// world is a stream whose commits are durable when a test says so.
type world struct {
	*Stream
	t       *testing.T
	durable atomic.Uint64
}

func newWorld(t *testing.T, l Limits) *world {
	w := &world{Stream: New(), t: t}
	w.Durable = func() engine.Ticket { return engine.Ticket(w.durable.Load()) }
	w.Memory = new(budget.Account)
	w.SetLimits(l)
	w.Want()
	return w
}

// commit appends commands, given as words, as one unit each.
func (w *world) commit(ticket engine.Ticket, db int, commands ...string) {
	b := Batch{On: true}
	b.BeginUnit()
	for _, c := range commands {
		var args [][]byte
		for _, a := range strings.Fields(c) {
			args = append(args, []byte(a))
		}
		b.Add(db, args...)
	}
	w.Append(&b, ticket)
}

// online returns a replica that reads from the present end on.
func (w *world) online() *Replica {
	r := w.Join(true, func(error) {})
	r.Snapshot(true)
	r.Online()
	return r
}

// read returns what Next has handed out until the cursor reached released bytes.
func (w *world) read(r *Replica) string {
	w.t.Helper()
	var all []byte
	for {
		w.mu.Lock()
		more := r.over == nil && r.cursor < w.released
		w.mu.Unlock()
		if !more {
			return text(all)
		}
		b, err := r.Next(100)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, b...)
	}
}

// text shows commands as words.
func text(b []byte) string {
	var words []string
	for line := range strings.SplitSeq(string(b), "\r\n") {
		if line != "" && line[0] != '*' && line[0] != '$' {
			words = append(words, line)
		}
	}
	return strings.Join(words, " ")
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A unit of several commands is a transaction; SELECT comes where the database changes, and
// again for a replica that does not know.
func TestUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Backlog: 1 << 20})
	r := w.online()
	w.commit(0, 0, "SET a 1")
	w.commit(0, 0, "SET a 2", "SET b 2")
	w.commit(0, 3, "SET c 3")
	var b Batch
	b.Add(3, []byte("DEL"), []byte("x"))
	b.Add(3, []byte("DEL"), []byte("y"))
	w.Append(&b, 0)
	equal(t, "the stream", w.read(r), "SELECT 0 SET a 1 MULTI SET a 2 SET b 2 EXEC SELECT 3 SET c 3 DEL x DEL y")
	late := w.online()
	w.commit(0, 3, "SET d 4")
	equal(t, "a later replica", w.read(late), "SELECT 3 SET d 4")
	equal(t, "the first one", w.read(r), "SELECT 3 SET d 4")
}

// What a commit that is not durable has done is not handed out, nor what comes behind it.
func TestNothingBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Backlog: 1 << 20})
	r := w.online()
	w.commit(5, 0, "SET a 5")
	w.commit(3, 0, "SET b 3") // another loop's, that was committed before
	w.commit(0, 0, "PUBLISH c m")
	equal(t, "before", w.read(r), "")
	w.durable.Store(4)
	w.Release()
	equal(t, "with the second", w.read(r), "")
	w.durable.Store(5)
	w.Release()
	equal(t, "with both", w.read(r), "SELECT 0 SET a 5 SET b 3 PUBLISH c m")
	got := make(chan string)
	go func() {
		b, err := r.Next(1000)
		got <- fmt.Sprint(text(b), err)
	}()
	w.commit(6, 0, "SET a 6")
	w.durable.Store(6)
	w.Release()
	equal(t, "who waits", <-got, "SET a 6<nil>")
}

// Any cut of a stream of any pieces is read again as it was.
func TestContinueAnywhere(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, Limits{Backlog: 300 << 10})
	var all []byte
	r := w.online()
	for range 200 {
		size := rng.IntN(100)
		if rng.IntN(10) == 0 {
			size = rng.IntN(60 << 10)
		}
		w.commit(0, rng.IntN(2), "SET k "+strings.Repeat("x", size))
		for r.cursor < w.released {
			b, err := r.Next(1 + rng.IntN(30<<10))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
	}
	st := w.State()
	equal(t, "the end", st.Offset, int64(len(all)))
	if st.Kept < 300<<10 || st.Kept > 400<<10 || st.First != st.Offset-st.Kept+1 {
		t.Errorf("the backlog is %+v", st)
	}
	equal(t, "the memory", w.Memory.Used(), st.Memory)
	for range 100 {
		from := st.First + rng.Int64N(st.Kept+1)
		r := w.Continue(st.ID, from, func(error) {})
		if r == nil {
			t.Fatalf("not from %d, the backlog is %+v", from, st)
		}
		for at := from - 1; at < st.Offset; {
			b, err := r.Next(1 + rng.IntN(50<<10))
			if err != nil {
				t.Fatal(err)
			}
			if string(b) != string(all[at:at+int64(len(b))]) {
				t.Fatalf("from %d: other bytes at %d", from, at)
			}
			at += int64(len(b))
		}
		r.Close(ErrClosed)
	}
	for _, c := range []struct {
		id   string
		next int64
	}{{st.ID, st.First - 1}, {st.ID, 0}, {st.ID, -1}, {st.ID, st.Offset + 2}, {"another", st.Offset}} {
		if w.Continue(c.id, c.next, nil) != nil {
			t.Errorf("a replica goes on from %d of %s", c.next, c.id)
		}
	}
}

// After another id was given, replicas go on that have the history until then.
func TestRenew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Backlog: 1 << 20})
	w.commit(0, 0, "SET a 1")
	old, end := w.State().ID, w.End()
	w.Renew(true)
	w.commit(0, 0, "SET a 2")
	if w.State().ID == old || w.State().ID2 != old {
		t.Errorf("ids %s and %s after %s", w.State().ID, w.State().ID2, old)
	}
	if w.Continue(old, end+1, func(error) {}) == nil {
		t.Error("who has the whole old history cannot go on")
	}
	if w.Continue(old, end+2, func(error) {}) != nil {
		t.Error("who has more of the old history than there was goes on")
	}
	w.Renew(false)
	if w.Continue(old, end+1, func(error) {}) != nil {
		t.Error("the second id outlives a new history")
	}
}

// A replica that does not read ends at the limit, and what it needed goes.
func TestLimits(t *testing.T) {
	t.Parallel()
	big := "SET k " + strings.Repeat("x", 10<<10)
	w := newWorld(t, Limits{Backlog: 64 << 10, Hard: 512 << 10})
	var why error
	r := w.Join(true, func(err error) { why = err })
	r.Snapshot(true)
	for range 45 {
		w.commit(0, 0, big)
	}
	equal(t, "below the limit", why, nil)
	if n := w.Memory.Used(); n < 450<<10 {
		t.Errorf("%d bytes are kept", n)
	}
	for range 10 {
		w.commit(0, 0, big)
	}
	if !errors.Is(why, ErrLag) {
		t.Errorf("beyond the limit: %v", why)
	}
	if n := w.Memory.Used(); n > 110<<10 {
		t.Errorf("%d bytes are kept for nobody", n)
	}
	if _, err := r.Next(1); !errors.Is(err, ErrLag) {
		t.Errorf("Next: %v", err)
	}
	w.Memory.SetLimit(200 << 10) // of all clients: half of it is for the stream
	r = w.Join(true, func(err error) { why = err })
	r.Snapshot(true)
	why = nil
	for range 15 {
		w.commit(0, 0, big)
	}
	if !errors.Is(why, ErrLag) {
		t.Errorf("beyond the share of all clients' memory: %v", why)
	}
	w.SetLimits(Limits{Soft: 1 << 10, SoftFor: time.Minute})
	w.Memory.SetLimit(0)
	why = nil
	r = w.Join(true, func(err error) { why = err })
	r.Snapshot(true)
	w.commit(0, 0, big)
	w.Tick(time.Now(), time.Hour, 0)
	equal(t, "a soft limit", why, nil)
	w.Tick(time.Now().Add(2*time.Minute), time.Hour, 0)
	if !errors.Is(why, ErrLag) {
		t.Errorf("a soft limit after its time: %v", why)
	}
}

// Silent replicas end, and the backlog goes some time after the last replica.
func TestTick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Backlog: 1 << 20})
	var why error
	r := w.Join(true, func(err error) { why = err })
	r.Snapshot(true)
	now := time.Now()
	w.Tick(now.Add(time.Hour), time.Minute, 0)
	equal(t, "a replica that loads", why, nil)
	r.Online()
	r.Acknowledge(w.End(), 0)
	equal(t, "good ones", w.Good(now, time.Minute), 1)
	equal(t, "good ones later", w.Good(now.Add(time.Hour), time.Minute), 0)
	w.Tick(now.Add(time.Hour), time.Minute, 0)
	if !errors.Is(why, ErrTimeout) {
		t.Errorf("a silent replica: %v", why)
	}
	w.commit(0, 0, "SET a 1")
	id, end := w.State().ID, w.End()
	w.Tick(now.Add(time.Hour), time.Minute, 2*time.Hour)
	equal(t, "wanted for a while", w.Wanted(), true)
	w.Tick(now.Add(4*time.Hour), time.Minute, 2*time.Hour)
	equal(t, "wanted", w.Wanted(), false)
	equal(t, "memory", w.Memory.Used(), 0)
	w.commit(0, 0, "SET a 2")
	equal(t, "the end", w.End(), end)
	if w.Continue(id, end+1, nil) != nil {
		t.Error("a replica goes on although there is no backlog")
	}
	w.Want()
	if w.Continue(id, end+1, nil) != nil {
		t.Error("a replica goes on although something is missing")
	}
}

// Acknowledgments are counted by offset, and wake those who wait.
func TestAcknowledgments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Backlog: 1 << 20})
	r := w.online()
	w.commit(0, 0, "SET a 1")
	end := w.End()
	equal(t, "before", w.Acked(end, false), 0)
	next := w.NextAck()
	r.Acknowledge(end, 0)
	<-next
	equal(t, "in memory", w.Acked(end, false), 1)
	equal(t, "in a file", w.Acked(end, true), 0)
	r.Acknowledge(end, end)
	equal(t, "in a file, then", w.Acked(end, true), 1)
	equal(t, "of more", w.Acked(end+1, false), 0)
	r.Close(ErrClosed)
	equal(t, "when it has gone", w.Acked(end, false), 0)
}

// A rollback takes back what was noted since the mark.
func TestRollback(t *testing.T) {
	t.Parallel()
	b := Batch{On: true}
	b.Add(0, []byte("a"))
	m := b.Mark()
	b.Own++
	b.Add(0, []byte("b"))
	b.Rollback(m)
	b.Add(0, []byte("c"))
	w := newWorld(t, Limits{Backlog: 1 << 20})
	r := w.online()
	w.Append(&b, 0)
	equal(t, "the stream", w.read(r), "SELECT 0 a c")
	equal(t, "own", b.Own, 0)
	b.Reset()
	if !b.Empty() || b.On {
		t.Error("a batch that was reset is not empty")
	}
}
