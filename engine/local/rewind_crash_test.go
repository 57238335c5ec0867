package local

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/journal"
)

// The contract of engines holds on a log that several processes agree upon, whenever they do.
func TestEngineOnAgreedLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		at       when
		restless bool
		change   func(*Options)
	}{
		{"at once", atOnce, false, func(*Options) {}},
		{"later", later, false, func(o *Options) { o.Memory, o.JournalBytes = tight, 32<<10 }},
		{"restless", later, true, func(o *Options) { o.Memory, o.Fsync = tight, journal.Always }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := func(t *testing.T, fs vfs.FS) *Engine {
				s := &scripted{}
				e := opened(t, func(o *Options) {
					c.change(o)
					o.FS, o.Log = fs, s.opener
				})
				if _, err := s.lead(e); err != nil {
					t.Fatal(err)
				}
				s.mu.Lock()
				s.at = c.at
				s.mu.Unlock()
				return restless(t, e, c.restless)
			}
			enginetest.Run(t, func(t *testing.T) engine.Engine { return start(t, vfs.NewMem()) },
				enginetest.Reopen(func(t *testing.T, e engine.Engine) engine.Engine {
					fs := e.(*Engine).fs
					must(t, e.Close())
					return start(t, fs)
				}))
		})
	}
}

// passage is a member at a moment of a crash: what is left of its files, and what was true.
type passage struct {
	fs      *vfs.MemFS
	at      change
	no      int
	percent int
	entries []entry
	agreed  uint64
}

// A crash at any change of the disk, while entries are appended, replayed, agreed upon and taken
// back: the store opens, its memory is the state after some entry that is agreed upon, and with
// the entries that the others have it goes on to the same state as they.
// REDOUBT_CRASH_POINTS says at how many points.
func TestRewindCrashSweep(t *testing.T) {
	t.Parallel()
	for name, fsync := range map[string]journal.Policy{"always": journal.Always, "everysec": journal.EverySec} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const steps = 220
			seed := enginetest.Seed(t)
			options := func(o *Options) {
				busy(o)
				o.Fsync = fsync
			}
			points := scale(t, "REDOUBT_CRASH_POINTS", 32)
			var total atomic.Int64
			dry := newMember(t, vfs.NewCrashableMem(), seed, options)
			dry.fs.on(func(change) error { total.Add(1); return nil })
			dry.sail(steps)
			stride := max(1, int(total.Load())/max(1, points))

			m := newMember(t, vfs.NewCrashableMem(), seed, options)
			wrecks := make(chan passage, 2)
			var divers sync.WaitGroup
			for range 2 {
				divers.Go(func() {
					for p := range wrecks {
						if err := p.dive(t, options); err != nil {
							t.Errorf("crash before change %d (%s %s), of what was not synced %d%% is left: %v", p.no, p.at.kind, p.at.path, p.percent, err)
						}
					}
				})
			}
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(seed, 2))
			n, taken := 0, 0
			m.fs.on(func(c change) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n%stride == 0 && !t.Failed() {
					p := passage{at: c, no: n, percent: chances[taken%len(chances)]}
					m.mu.Lock()
					p.fs = m.fs.crash(p.percent, rng)
					p.entries, p.agreed = slices.Clone(m.entries), m.agreed
					m.mu.Unlock()
					wrecks <- p
					taken++
				}
				return nil
			})
			m.sail(steps)
			m.fs.heal()
			close(wrecks)
			divers.Wait()
			t.Logf("crashed at %d of %d changes, memory went back %d times", taken, n, m.rewound)
		})
	}
}

// sail makes steps, with a restart in the middle.
func (m *member) sail(steps int) {
	m.open()
	if err := m.lead(); err != nil {
		m.t.Error(err)
	}
	for i := range steps {
		if i == steps/2 {
			m.close()
			m.open()
			m.agree(m.agreed)
		}
		if err := m.step(); err != nil {
			m.t.Errorf("step %d: %v", i, err)
			break
		}
	}
	m.close()
}

// dive opens what a crash has left, and has it catch up.
func (p passage) dive(t testing.TB, change func(*Options)) error {
	m := newMember(t, p.fs, uint64(p.no), change)
	m.entries = p.entries
	if n := len(m.entries); n > 0 {
		m.term = m.entries[n-1].term + 1
	}
	if err := m.tryOpen(); err != nil {
		return err
	}
	err := m.catchUp(p.agreed)
	if err == nil {
		err = m.goOn()
	}
	m.close()
	return err
}

// catchUp has the log follow that of the others, of which entries up to agreed are
// agreed upon.
func (m *member) catchUp(agreed uint64) error {
	if n := uint64(m.e.Committed()); n > agreed {
		return fmt.Errorf("memory has %d entries, %d were agreed upon", n, agreed)
	}
	if n := m.e.checkpoint.Load(); n > agreed {
		return fmt.Errorf("the tables have %d entries, %d were agreed upon", n, agreed)
	}
	if err := m.check(); err != nil {
		return err
	}
	// The log may have entries that were taken back, and lack others that were not synced.
	kept := uint64(m.e.Committed())
	for ; kept < min(agreed, m.log.raft.Last()); kept++ {
		if term, err := m.log.raft.Term(kept + 1); err != nil || term != m.entries[kept].term {
			break
		}
	}
	if kept < m.log.raft.Last() {
		if err := m.log.cut(m.e, kept); err != nil {
			return err
		}
	}
	for _, x := range m.entries[kept:agreed] {
		if err := m.log.heard(x.term, x.batch()); err != nil {
			return err
		}
	}
	m.entries = m.entries[:agreed:agreed]
	m.log.term = m.term
	m.agree(agreed)
	if err := m.log.follow(m.e); err != nil {
		return err
	}
	if n := uint64(m.e.Committed()); n != agreed {
		return fmt.Errorf("memory has %d entries, not %d", n, agreed)
	}
	return m.check()
}

// goOn leads, commits some more and looks at all of it.
func (m *member) goOn() error {
	if err := m.lead(); err != nil {
		return err
	}
	for range 10 {
		if err := m.step(); err != nil {
			return err
		}
	}
	if err := m.check(); err != nil {
		return err
	}
	c, err := m.reopened()
	if c != nil && c.e != nil {
		c.close()
	}
	return err
}
