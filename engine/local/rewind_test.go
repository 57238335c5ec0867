package local

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/journal"
)

// Memory that went back is what a store has that is opened then: the same rows, the same
// counters, whatever happened before. REDOUBT_REWINDS says how many histories.
func TestRewoundIsReopened(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	for i := range scale(t, "REDOUBT_REWINDS", 8) {
		m := newMember(t, vfs.NewCrashableMem(), seed+uint64(i), busy)
		m.open()
		within(t, fmt.Sprintf("history %d", i), func() { m.history(t, 150) })
		m.close()
		if t.Failed() {
			return
		}
		if m.rewound == 0 {
			t.Log("nothing was taken back")
		}
	}
}

// history makes steps, and compares memory after each time it went back.
func (m *member) history(t *testing.T, steps int) {
	if err := m.lead(); err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		before := m.rewound
		if err := m.step(); err != nil {
			t.Errorf("step %d: %v", i, err)
			return
		}
		if m.rewound == before && m.rng.IntN(40) > 0 {
			continue
		}
		c, err := m.reopened()
		if err == nil && uint64(m.e.Committed()) <= m.log.Durable() {
			if got, want := dump(t, m.e), dump(t, c.e); got != want {
				t.Errorf("step %d: memory and a store that was opened differ: %s", i, difference(got, want))
			}
		}
		if err != nil {
			t.Errorf("step %d: the store opened again: %v", i, err)
		}
		if c != nil && c.e != nil {
			c.close()
		}
		if t.Failed() {
			return
		}
	}
}

// mustCommit commits as a leader.
func (m *member) mustCommit(notes ...note) engine.Ticket {
	m.t.Helper()
	ticket, err := m.commit(notes)
	must(m.t, err)
	return ticket
}

// led is a member that leads and has committed some rows, which are agreed upon.
func led(t *testing.T, change func(*Options)) *member {
	m := newMember(t, vfs.NewCrashableMem(), enginetest.Seed(t), change)
	m.open()
	must(t, m.lead())
	for i := range 5 {
		m.mustCommit(put(fmt.Sprintf("ab%d", i), "old"), note{kind: 'c', key: "count", delta: 1})
	}
	m.agree(m.last())
	return m
}

// A view commits only in the epoch in which it was begun, and what is refused leaves nothing.
func TestEpochs(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	before := dump(t, m.e)
	begin := func() engine.View {
		v, err := m.e.Begin(engine.ViewOptions{})
		must(t, err)
		return v
	}
	refused := func(v engine.View, want error) {
		t.Helper()
		if ticket, err := v.Commit(toBatch(m.load.commit())); !errors.Is(err, want) || ticket != 0 {
			t.Errorf("Commit = %d, %v, want %v", ticket, err, want)
		}
		v.Close()
		if now := dump(t, m.e); now != before {
			t.Errorf("what was refused is there: %s", difference(now, before))
		}
	}
	deposed, stale := begin(), begin()
	m.log.depose()
	refused(deposed, engine.ErrNotLeader)
	refused(begin(), engine.ErrNotLeader)
	must(t, m.lead())
	refused(stale, engine.ErrNotLeader)
	m.log.refuse = journal.ErrCongested
	refused(begin(), engine.ErrOverloaded)
	m.log.refuse = fmt.Errorf("the undo failed: %w", engine.ErrUnknownOutcome)
	refused(begin(), engine.ErrUnknownOutcome)
	if err := m.e.Err(); err != nil {
		t.Errorf("Err = %v", err)
	}
	m.log.refuse = nil
	m.mustCommit(put("ab", "new"))
	must(t, m.check())
	m.close()
}

// Writers wait while the log is congested, and no longer than the leadership lasts.
func TestCongestedLog(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	congest := func(on bool) {
		m.log.mu.Lock()
		m.log.congested = on
		m.log.mu.Unlock()
	}
	wait := func(end func()) (err error) {
		congest(true)
		v, begun := m.e.Begin(engine.ViewOptions{})
		must(t, begun)
		defer v.Close()
		waited := m.e.waits.Load()
		done := make(chan error)
		go func() {
			_, err := v.Commit(toBatch([]note{put("ab", "x")}))
			done <- err
		}()
		await(t, "the commit to wait", func() bool { return m.e.waits.Load() > waited })
		select {
		case err := <-done:
			t.Errorf("a commit did not wait: %v", err)
		default:
		}
		end()
		within(t, "the commit", func() { err = <-done })
		return err
	}
	if !m.e.set().Untouched(0x6162) && m.e.Congested() {
		t.Error("congested")
	}
	must(t, wait(func() { congest(false) }))
	m.note([]note{put("ab", "x")}, 0)
	if err := wait(m.log.depose); !errors.Is(err, engine.ErrNotLeader) {
		t.Errorf("deposed: %v", err)
	}
	congest(false)
	m.agree(m.last())
	must(t, m.check())
	m.close()
}

// The tables never have what is not agreed upon: a round waits for that, and gives its rows back
// when they are taken back instead.
func TestRoundWaitsForAgreement(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	must(t, m.e.Round())
	checkpoint := m.e.checkpoint.Load()
	if checkpoint != m.last() {
		t.Fatalf("the checkpoint is %d, not %d", checkpoint, m.last())
	}
	round := func() chan error {
		done := make(chan error, 1)
		go func() { done <- m.e.Round() }()
		// It has copied its rows when it waits: the new dirty rows are in a list of their own.
		await(t, "the round", func() bool { return !m.e.ingest.TryLock() || func() bool { m.e.ingest.Unlock(); return false }() })
		return done
	}
	m.mustCommit(put("ab0", "not agreed upon"), put("zz", "not either"))
	done := round()
	m.agree(m.last() - 1) // tells it to look
	select {
	case err := <-done:
		t.Fatalf("a round ended: %v", err)
	default:
	}
	m.agree(m.last())
	within(t, "the round", func() { must(t, <-done) })
	if n := m.e.checkpoint.Load(); n != m.last() {
		t.Errorf("the checkpoint is %d, not %d", n, m.last())
	}

	agreed := m.last()
	m.mustCommit(put("ab0", "taken back"), put("yy", "taken back"))
	done = round()
	m.log.depose()
	must(t, m.cut(agreed))
	within(t, "the round", func() {
		if err := <-done; !errors.Is(err, errRewinding) {
			t.Errorf("the round ended with %v", err)
		}
	})
	if m.e.roundErr.Load() != nil || m.e.roundErrors.Load() != 0 {
		t.Error("a round that gave its rows back counts as failed")
	}
	if n := m.e.checkpoint.Load(); n != agreed {
		t.Errorf("the checkpoint is %d, not %d", n, agreed)
	}
	must(t, m.hear(3))
	m.agree(m.last())
	must(t, m.log.follow(m.e))
	must(t, m.e.Round())
	must(t, m.check())
	c, err := m.reopened()
	must(t, err)
	c.close()
	m.close()
}

// A store that is closed while a round waits for agreement does not wait for it.
func TestCloseWithoutAgreement(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	m.mustCommit(put("ab", "x"))
	done := make(chan error, 1)
	go func() { done <- m.e.Round() }()
	await(t, "the round", func() bool { return !m.e.ingest.TryLock() || func() bool { m.e.ingest.Unlock(); return false }() })
	within(t, "Close", m.close)
	if err := <-done; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("the round ended with %v", err)
	}
	m.open()
	m.agree(m.last())
	must(t, m.log.follow(m.e))
	must(t, m.check())
	m.close()
}

// Views, iterators and snapshots keep the state that they were opened on, and its memory; the
// last one gives it back.
func TestPins(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	agreed := m.last()
	m.mustCommit(put("ab0", "ahead"), put("zz", "ahead"))
	v, err := m.e.Begin(engine.ViewOptions{})
	must(t, err)
	it := v.Iter(nil, nil, false)
	if !it.Next() || string(it.Key()) != "ab0" || string(it.Value()) != "ahead" {
		t.Fatalf("the first row is %q=%q", it.Key(), it.Value())
	}
	snap, err := m.e.Snapshot()
	must(t, err)
	old := m.e.present.Load()
	m.log.depose()
	must(t, m.cut(agreed))
	if m.e.present.Load() == old || old.pins.Load() != 3 {
		t.Fatalf("%d pins", old.pins.Load())
	}
	if m.e.OffHeap() != m.e.set().Mapped()+old.set.Mapped() {
		t.Error("OffHeap leaves the memory out that is pinned")
	}
	if value, found, err := v.Get([]byte("zz"), nil); err != nil || !found || string(value) != "ahead" {
		t.Errorf("the old view has %q %v %v", value, found, err)
	}
	rows := 1
	for it.Next() {
		rows++
	}
	must(t, it.Close())
	if rows != 6 {
		t.Errorf("the old iterator showed %d rows", rows)
	}
	if _, _, err := snap.Get([]byte("zz"), nil); !errors.Is(err, engine.ErrSnapshotLost) {
		t.Errorf("the old snapshot: %v", err)
	}
	must(t, snap.Close())
	if _, err := v.Commit(toBatch([]note{put("ab", "late")})); !errors.Is(err, engine.ErrNotLeader) {
		t.Errorf("the old view commits: %v", err)
	}
	if old.pins.Load() != 1 {
		t.Errorf("%d pins", old.pins.Load())
	}
	v.Close()
	if old.pins.Load() >= 0 || m.e.OffHeap() != m.e.set().Mapped() {
		t.Errorf("the memory was not given back: %d pins", old.pins.Load())
	}
	must(t, m.check())
	m.close()
}

// What has become of a ticket, also when it has come again.
func TestOutcome(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	type held struct {
		epoch  uint64
		ticket engine.Ticket
	}
	commit := func() held {
		epoch := m.e.Epoch()
		return held{epoch, m.mustCommit(put("ab", "x"))}
	}
	is := func(h held, want engine.Outcome) {
		t.Helper()
		if got := m.e.Outcome(h.epoch, h.ticket); got != want {
			t.Errorf("outcome of %+v is %d, want %d", h, got, want)
		}
	}
	var told atomic.Int64
	m.e.OnDurable(func() { told.Add(1) })
	first, second, third := commit(), commit(), commit()
	is(first, engine.Pending)
	m.agree(uint64(first.ticket))
	is(first, engine.Durable)
	is(second, engine.Pending)
	m.log.depose()
	is(second, engine.Pending) // it may be confirmed
	before := told.Load()
	must(t, m.cut(uint64(second.ticket)))
	if told.Load() == before {
		t.Error("nobody was told that commits are void")
	}
	is(first, engine.Durable)
	is(second, engine.Pending)
	is(third, engine.Void)
	must(t, m.lead()) // its empty entry has the ticket of the third
	is(second, engine.Durable)
	is(third, engine.Void)
	fourth := commit()
	again := held{m.e.Epoch(), third.ticket}
	is(again, engine.Durable)
	is(fourth, engine.Pending)
	// A cut behind what memory has takes nothing back.
	m.agree(m.last())
	m.log.depose()
	m.note(nil, 0)
	must(t, m.log.heard(m.term, nil))
	must(t, m.cut(uint64(fourth.ticket)))
	is(fourth, engine.Durable)
	is(third, engine.Void)

	for range mostCuts { // and many later
		must(t, m.lead())
		m.mustCommit(put("ab", "x"))
		m.log.depose()
		must(t, m.cut(m.last()-1))
	}
	is(third, engine.Unknown)
	m.close()
}

// Replay takes the next record, passes over what memory has, and refuses a gap and what is no
// record.
func TestReplay(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	m.log.depose()
	before := dump(t, m.e)
	for _, seq := range []uint64{1, m.last()} {
		if b, err := m.e.Replay(seq, []byte("no record, and not looked at")); b != nil || err != nil {
			t.Errorf("Replay(%d) = %v, %v", seq, b, err)
		}
	}
	if now := dump(t, m.e); now != before {
		t.Errorf("it was applied again: %s", difference(now, before))
	}
	n := m.last() + 1
	if b, err := m.e.Replay(n, nil); b != nil || err != nil || m.e.Committed() != engine.Ticket(n) {
		t.Errorf("an empty entry: %v, %v, committed %d", b, err, m.e.Committed())
	}
	b, err := m.e.Replay(n+1, appendRecord(nil, toBatch([]note{put("ab0", "new"), {kind: 'c', key: "count", delta: 5}})))
	must(t, err)
	ops := 0
	for op := range b.Ops() {
		if ops++; string(op.Key) != "ab0" {
			t.Errorf("changed: %q", op.Key)
		}
	}
	if sum, err := m.e.Counter([]byte("count")); ops != 1 || err != nil || sum != 10 {
		t.Errorf("%d rows changed, the counter is %d, %v", ops, sum, err)
	}
	if _, err := m.e.Replay(n+3, nil); !errors.Is(err, engine.ErrCorrupt) || m.e.Err() == nil {
		t.Errorf("a gap: %v", err)
	}
	if err := m.e.Close(); !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("Close = %v", err)
	}

	m = led(t, nil)
	if _, err := m.e.Replay(m.last()+1, []byte{99}); !errors.Is(err, engine.ErrCorrupt) || m.e.Err() == nil {
		t.Errorf("no record: %v", err)
	}
	if err := m.e.Close(); !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("Close = %v", err)
	}
}

// When the log cannot be read memory stays as it was, and is not written; Rewind can be called
// again.
func TestRewindFails(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	must(t, m.e.Round())
	m.mustCommit(put("ab0", "new"))
	m.agree(m.last())
	agreed := m.last()
	m.mustCommit(put("ab0", "ahead"), put("zz", "ahead"))
	m.log.depose()
	must(t, m.log.takeBack(agreed))
	m.entries = m.entries[:agreed]
	old := m.e.present.Load()
	broken := errors.New("the disk is broken")
	for name, records := range map[string]func(from, to uint64, replay func(uint64, []byte) error) error{
		"an error":  func(_, _ uint64, _ func(uint64, []byte) error) error { return broken },
		"no record": func(_, _ uint64, _ func(uint64, []byte) error) error { return nil },
		"too few": func(from, to uint64, replay func(uint64, []byte) error) error {
			return m.log.records(from, to-1, replay)
		},
		"too many": func(from, to uint64, replay func(uint64, []byte) error) error {
			return errors.Join(m.log.records(from, to, replay), replay(to+1, nil))
		},
		"a gap":   func(from, to uint64, replay func(uint64, []byte) error) error { return replay(from+2, nil) },
		"rubbish": func(from, to uint64, replay func(uint64, []byte) error) error { return replay(from+1, []byte{99}) },
	} {
		err := m.e.Rewind(agreed, m.log.Durable(), records)
		if want := engine.ErrCorrupt; name == "an error" && !errors.Is(err, broken) || name != "an error" && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if m.e.present.Load() != old || old.pins.Load() != 1 {
			t.Errorf("%s: memory has changed", name)
		}
		if err := m.e.Round(); !errors.Is(err, errRewinding) {
			t.Errorf("%s: a round: %v", name, err)
		}
		if _, err := m.e.Replay(uint64(m.e.Committed())+1, nil); !errors.Is(err, errRewinding) {
			t.Errorf("%s: Replay: %v", name, err)
		}
	}
	if err := m.e.Rewind(agreed, 0, m.log.records); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("behind the tables: %v", err)
	}
	must(t, m.e.Rewind(agreed, m.log.Durable(), m.log.records))
	must(t, m.check())
	must(t, m.hear(2))
	m.agree(m.last())
	must(t, m.log.follow(m.e))
	must(t, m.e.Round())
	must(t, m.check())
	m.close()
}

// A damaged log is not gone back to; it is refused, and so is what the tables say of another log.
func TestRewindDamage(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	must(t, m.e.Round())
	m.mustCommit(put("ab0", "a value that will be damaged"))
	m.agree(m.last())
	agreed := m.last()
	m.mustCommit(put("ab0", "ahead"))
	m.log.depose()
	must(t, m.log.takeBack(agreed))
	must(t, m.e.journal.Sync(0))
	if flips := flipIn(t, m.fs.mem, shipDir+"/"+journalDir, "a value that will be damaged"); flips != 1 {
		t.Fatalf("%d places were damaged", flips)
	}
	old := m.e.present.Load()
	if err := m.e.Rewind(agreed, m.log.Durable(), m.log.records); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("Rewind = %v", err)
	}
	if m.e.present.Load() != old {
		t.Error("memory has changed")
	}
	m.close()
	if err := m.tryOpen(); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("Open = %v", err)
	}
}

// flipIn changes a bit of the first place in each file of a directory that has the text.
func flipIn(t *testing.T, fs vfs.FS, dir, text string) (flips int) {
	for name, size := range files(t, fs, dir, ".jnl") {
		f, err := fs.Open(name)
		must(t, err)
		b := make([]byte, size)
		_, err = f.ReadAt(b, 0)
		must(t, errors.Join(err, f.Close()))
		if at := bytes.Index(b, []byte(text)); at >= 0 {
			flip(t, fs, name, int64(at), 0)
			flips++
		}
	}
	return flips
}

// A store that has a base of a log that several processes agree upon is no store of one process, nor
// the other way round.
func TestBaseIsTheLogs(t *testing.T) {
	t.Parallel()
	m := led(t, nil)
	must(t, m.e.Round())
	m.close()
	if _, err := Open(Options{Dir: shipDir, FS: m.fs, Logger: quiet}); !errors.Is(err, journal.ErrReplicated) {
		t.Errorf("opened as one: %v", err)
	}
	m.open()
	must(t, m.check())
	m.close()
}

// A disk that fails while memory goes back, or while records are replayed, ends in an error and not
// in rows that are not right; on a disk that works the store has what was agreed upon.
// REDOUBT_FAULT_POINTS says how often.
func TestRewindFaults(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(enginetest.Seed(t), 9))
	met := 0
	for i := range scale(t, "REDOUBT_FAULT_POINTS", 24) {
		m := newMember(t, vfs.NewCrashableMem(), rng.Uint64(), busy)
		m.faulty = true
		m.open()
		must(t, m.lead())
		f := &fault{at: 1 + rng.IntN(300), once: rng.IntN(2) == 0, err: []error{syscall.EIO, syscall.ENOSPC}[i%2]}
		m.fs.on(f.hook)
		var err error
		within(t, f.String(), func() {
			for n := 0; n < 120 && err == nil && !t.Failed(); n++ {
				err = m.step()
			}
		})
		m.fs.heal()
		if f.met.kind != "" {
			met++
		} else if err != nil {
			t.Errorf("an error without a fault: %v", err)
		}
		_ = m.e.Close() // it may have failed
		m.rounds.Wait()
		p := passage{fs: m.fs.crash(100, rng), no: i, percent: 100, entries: m.entries, agreed: m.agreed, at: f.met}
		if err := p.dive(t, busy); err != nil {
			t.Errorf("%v: then: %v", f, err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d faults were met", met)
}
