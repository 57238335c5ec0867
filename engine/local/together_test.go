package local

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/internal/race"
	"redoubt/journal"
)

// sight is all rows as somebody saw them at one moment, between two commits.
type sight struct {
	who      string
	from, to engine.Ticket
	rows     map[string]string
}

func (s *sight) add(it engine.Iterator) error {
	s.rows = map[string]string{}
	for it.Next() {
		s.rows[string(it.Key())] = string(it.Value())
	}
	return it.Close()
}

// see takes a sight by a view or a snapshot. A view that may not wait may see
// nothing.
func see(e *Engine, who string) (*sight, error) {
	s := &sight{who: who, from: e.Committed()}
	if who == "snapshot" {
		snap, err := e.Snapshot()
		if err != nil {
			return nil, err
		}
		s.to = e.Committed()
		return s, errors.Join(s.add(snap.Iter(nil, nil, false)), snap.Close())
	}
	v, err := e.Begin(engine.ViewOptions{NoWait: who != "waiting view"})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	it := v.Iter(nil, nil, false)
	s.to = e.Committed()
	if err := s.add(it); !errors.Is(err, engine.ErrCold) || who == "waiting view" {
		return s, err
	}
	return nil, nil
}

// verify finds the state that was seen.
func (s *sight) verify(l *ledger) error {
	for n := s.from; n <= s.to; n++ {
		w, known := l.at(n)
		if known && maps.Equal(w.rows, s.rows) {
			return nil
		}
	}
	best, least := engine.Ticket(0), ""
	for n := max(s.from, 20) - 20; n <= s.to+20; n++ { // what it looks most like
		if w, known := l.at(n); known {
			if d := l.differences(w, s.rows); best == 0 || len(d) < len(least) {
				best, least = n, d
			}
		}
	}
	return fmt.Errorf("a %s saw the state of no commit from %d to %d; from that of %d it differs in%s", s.who, s.from, s.to, best, least)
}

func (l *ledger) differences(w *world, rows map[string]string) (d string) {
	for k, v := range rows {
		if was, found := w.rows[k]; !found || was != v {
			d += fmt.Sprintf(" %q=%.20q of %d, not %.20q of %d;", k, v, l.source(k, v), was, l.source(k, was))
		}
	}
	for k := range w.rows {
		if _, found := rows[k]; !found {
			d += fmt.Sprintf(" %q is missing;", k)
		}
	}
	return d
}

// source is the first commit that put a row.
func (l *ledger) source(key, value string) engine.Ticket {
	for n := engine.Ticket(1); n <= l.written; n++ {
		for _, c := range l.commits[n] {
			if c.kind == 'p' && c.key == key && c.value == value {
				return n
			}
		}
	}
	return 0
}

// Everything at once: whoever looks sees the state of some commit.
// REDOUBT_TOGETHER says for how many milliseconds.
func TestTogether(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	fs := newStage(vfs.NewCrashableMem())
	options := func(o *Options) {
		o.Dir, o.FS, o.Memory, o.SegmentBytes, o.JournalBytes = shipDir, fs, 256<<10, 16<<10, 64<<10
		o.Unit, o.tableBytes = func([]byte) int { return 4 }, 16<<10
	}
	e := opened(t, options)
	l := newLedger()
	stop := make(chan struct{})
	var all sync.WaitGroup
	loop := func(no uint64, pause time.Duration, f func(rng *rand.Rand) error) {
		rng := rand.New(rand.NewPCG(seed, no))
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(pause):
				}
				if err := f(rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range uint64(3) {
		writer := load{rng: rand.New(rand.NewPCG(seed, 100+w)), mark: fmt.Sprint(w), big: 12}
		loop(w, 300*time.Microsecond, func(rng *rand.Rand) error { return l.commit(e, rng.IntN(2) == 0, writer.commit()) })
	}
	var mu sync.Mutex
	var sights []*sight
	for i, who := range []string{"snapshot", "waiting view", "hasty view"} {
		loop(uint64(10+i), 20*time.Millisecond, func(*rand.Rand) error {
			s, err := see(e, who)
			mu.Lock()
			defer mu.Unlock()
			if s != nil {
				sights = append(sights, s)
			}
			return err
		})
	}
	for i := range uint64(2) {
		loop(20+i, 50*time.Microsecond, func(rng *rand.Rand) error {
			v, err := e.Begin(engine.ViewOptions{NoWait: i > 0})
			if err != nil {
				return err
			}
			defer v.Close()
			reader := load{rng: rng, mark: fmt.Sprint(rng.IntN(3))}
			v.Prefetch([][]byte{[]byte(reader.key()), []byte(reader.key())})
			if _, _, err = v.Get([]byte(reader.key()), nil); errors.Is(err, engine.ErrCold) && i == 1 {
				err = nil
			}
			e.Stats()
			return err
		})
	}
	loop(30, time.Millisecond, func(*rand.Rand) error { return e.Round() })
	loop(31, time.Millisecond, func(*rand.Rand) error { e.set().Evict(1 << 40); return nil })
	loop(32, time.Millisecond, func(rng *rand.Rand) error { e.fillNext(rng.IntN(1 << 16)); return nil })
	loop(33, 30*time.Millisecond, func(rng *rand.Rand) error { return e.SetFsync(journal.Policy(1 + rng.IntN(3))) })
	loop(34, 30*time.Millisecond, func(rng *rand.Rand) error { e.SetMemory(rng.Int64N(8 << 20)); return nil })
	copies := 0
	loop(35, 150*time.Millisecond, func(*rand.Rand) error {
		copies++
		return e.Checkpoint(path.Join(copyDir, fmt.Sprint(copies)))
	})
	time.Sleep(time.Duration(scale(t, "REDOUBT_TOGETHER", 1600)) * time.Millisecond)
	close(stop)
	within(t, "the end", all.Wait)

	l.mustCheck(t, e, l.written)
	for _, s := range sights {
		if err := s.verify(l); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d commits, %d sights, %d checkpoints, %d rounds", l.written, len(sights), copies, e.rounds.Load())
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	dirs := []string{shipDir}
	for i := range copies {
		dirs = append(dirs, path.Join(copyDir, fmt.Sprint(i+1)))
	}
	for i, dir := range dirs {
		e := opened(t, func(o *Options) { options(o); o.Dir = dir })
		n, err := l.check(e, 0)
		if err != nil || i == 0 && n != l.written {
			t.Errorf("%s, %d of %d commits: %v", dir, n, l.written, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Close waits for a round or a checkpoint that is under way.
func TestCloseMeanwhile(t *testing.T) {
	t.Parallel()
	for i := range race.Or(6, 20) {
		v := newVoyage(t, vfs.NewCrashableMem(), journal.EverySec, uint64(i))
		e := v.open()
		for range 20 {
			if err := v.step(e); err != nil {
				t.Fatal(err)
			}
		}
		started := make(chan struct{})
		var busy sync.WaitGroup
		busy.Go(func() {
			close(started)
			for n := 0; ; n++ {
				err := e.Round()
				if err == nil {
					err = e.Checkpoint(path.Join(copyDir, fmt.Sprint("late", n)))
				}
				if err != nil {
					if !errors.Is(err, engine.ErrClosed) && !errors.Is(err, journal.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
		<-started
		for range i { // not always at the same moment
			if err := v.ledger.commit(e, true, v.load.commit()); err != nil {
				t.Fatal(err)
			}
		}
		v.close(e)
		busy.Wait()
		v.mustLook()
	}
}
