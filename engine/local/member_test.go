package local

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/journal"
)

// member is a store on a scripted log, and what each entry of the log says.
type member struct {
	t      testing.TB
	fs     *stage
	change func(*Options) // or nil
	log    *scripted
	e      *Engine
	load   load
	rng    *rand.Rand
	rounds sync.WaitGroup

	mu      sync.Mutex // a crash reads the next two while the script goes on
	entries []entry    // entry i is entries[i-1]
	agreed  uint64     // the script has told the log that everything up to here is agreed upon
	rewound int
	faulty  bool   // the disk may fail
	term    uint64 // the newest one, if the log has forgotten it
}

func newMember(t testing.TB, mem *vfs.MemFS, seed uint64, change func(*Options)) *member {
	rng := rand.New(rand.NewPCG(seed, 7))
	return &member{t: t, fs: newStage(mem), rng: rng, load: load{rng: rng, big: 8}, change: change}
}

// entry is what an entry of the log says.
type entry struct {
	term  uint64
	notes []note // nil if it is empty
}

func (x entry) batch() *engine.Batch {
	if x.notes == nil {
		return nil
	}
	return toBatch(x.notes)
}

// busy are options under which everything happens often.
func busy(o *Options) {
	o.Memory, o.SegmentBytes, o.JournalBytes = tight, 4<<10, 16<<10
	o.Unit = func([]byte) int { return 4 }
	o.tableBytes = 2 << 10
}

func (m *member) tryOpen() error {
	m.log = &scripted{}
	o := Options{Dir: shipDir, FS: m.fs, Log: m.log.opener, Memory: 16 << 20, SegmentBytes: 1 << 20, Logger: quiet}
	if m.change != nil {
		m.change(&o)
	}
	var err error
	if m.e, err = Open(o); err == nil {
		m.log.term = max(m.log.term, m.term)
	}
	return err
}

func (m *member) open() {
	m.t.Helper()
	if err := m.tryOpen(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) close() {
	m.t.Helper()
	if err := m.e.Close(); err != nil {
		m.t.Error(err)
	}
	m.rounds.Wait()
}

func (m *member) last() uint64 { return uint64(len(m.entries)) }

// note notes the next entry, which is of the term of the log and so many behind it.
func (m *member) note(notes []note, later uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = m.log.term + later
	m.entries = append(m.entries, entry{m.term, notes})
}

// world is the state after the first n entries.
func (m *member) world(n uint64) *world {
	w := newWorld()
	for _, x := range m.entries[:n] {
		w.apply(x.notes)
	}
	return w
}

// check compares memory with what the entries say that it has.
func (m *member) check() error {
	n := uint64(m.e.Committed())
	if n > m.last() {
		return fmt.Errorf("memory has %d entries, there are %d", n, m.last())
	}
	if err := m.world(n).check(m.e); err != nil {
		return fmt.Errorf("after entry %d: %w", n, err)
	}
	return nil
}

// lead makes this process the leader.
func (m *member) lead() error {
	m.note(nil, 1)
	m.noteAgreed(m.last()) // first: a crash may come before the log is told
	n, err := m.log.lead(m.e)
	if err == nil && n != m.last() {
		err = fmt.Errorf("the empty entry is %d, should be %d", n, m.last())
	}
	return err
}

func (m *member) noteAgreed(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agreed = max(m.agreed, n)
}

// commit commits as a leader.
func (m *member) commit(notes []note) (engine.Ticket, error) {
	if m.e.crowded() { // the commit may wait for a round, which waits for this
		m.agree(m.last())
	}
	v, err := m.e.Begin(engine.ViewOptions{NoWait: m.rng.IntN(3) == 0})
	if err != nil {
		return 0, err
	}
	defer v.Close()
	m.note(notes, 0)
	ticket, err := v.Commit(toBatch(notes))
	if err == nil && uint64(ticket) != m.last() {
		err = fmt.Errorf("ticket %d, should be %d", ticket, m.last())
	}
	return ticket, err
}

func (m *member) agree(n uint64) {
	m.noteAgreed(n) // first: a crash may come before the log is told
	m.log.agree(n)
}

// cut takes entries back, and has memory follow.
func (m *member) cut(kept uint64) error {
	ahead := uint64(m.e.Committed()) > kept
	m.mu.Lock()
	m.entries = m.entries[:kept:kept]
	m.mu.Unlock()
	if err := m.log.cut(m.e, kept); err != nil {
		return err
	}
	if ahead {
		m.rewound++
		if n := uint64(m.e.Committed()); n != m.log.Durable() {
			return fmt.Errorf("memory went back to entry %d, should be %d", n, m.log.Durable())
		}
	}
	return m.check()
}

// hear appends entries of another leader, and has some of them agreed upon and replayed.
func (m *member) hear(count int) error {
	for range count {
		notes := m.load.commit()
		if m.rng.IntN(5) == 0 {
			notes = nil
		}
		m.note(notes, 0)
		if err := m.log.heard(m.term, m.entries[m.last()-1].batch()); err != nil {
			return err
		}
	}
	m.agree(m.agreed + m.rng.Uint64N(m.last()-m.agreed+1))
	return m.log.follow(m.e)
}

// step is one thing that happens to a member.
func (m *member) step() error {
	m.log.mu.Lock()
	leads := m.log.leads
	m.log.mu.Unlock()
	switch n := m.rng.IntN(24); {
	case n < 10 && leads:
		_, err := m.commit(m.load.commit())
		return err
	case n < 10:
		return m.hear(1 + m.rng.IntN(4))
	case n < 13:
		m.agree(m.agreed + m.rng.Uint64N(m.last()-m.agreed+1))
	case n < 15: // it may have to wait for the script
		m.rounds.Go(func() {
			if err := m.e.Round(); err != nil && !m.faulty && !errors.Is(err, errRewinding) && !errors.Is(err, engine.ErrClosed) {
				m.t.Errorf("round: %v", err)
			}
		})
	case n == 15:
		m.e.set().Evict(1 << 40)
	case n == 16:
		m.e.fillNext(1)
	case n == 17 && leads: // deposed, and confirmed
		m.log.depose()
		m.agree(m.last())
	case n < 21 && leads: // deposed, and some of its entries are not agreed upon
		m.log.depose()
		if err := m.cut(m.agreed + m.rng.Uint64N(m.last()-m.agreed+1)); err != nil {
			return err
		}
		return m.hear(m.rng.IntN(3))
	case n == 21 && !leads: // another leader takes back what the one before has sent
		if err := m.cut(m.agreed + m.rng.Uint64N(m.last()-m.agreed+1)); err != nil {
			return err
		}
		return m.hear(1)
	case n < 23 && !leads:
		return m.lead()
	}
	return m.log.follow(m.e)
}

// dump is all rows and counters of a store.
func dump(t testing.TB, e *Engine) string {
	t.Helper()
	v, err := e.Begin(engine.ViewOptions{})
	must(t, err)
	defer v.Close()
	it := v.Iter(nil, nil, false)
	var b strings.Builder
	b.WriteString(steps(it, 1<<30))
	must(t, it.Close())
	sums := e.present.Load().counters.Copy()
	maps.DeleteFunc(sums, func(_ string, sum int64) bool { return sum == 0 })
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&b, "%q+%d ", key, sums[key])
	}
	return b.String()
}

// reopened opens what kill -9 would leave now, and has it follow as far as m is.
func (m *member) reopened() (*member, error) {
	c := &member{t: m.t, fs: newStage(m.fs.crash(100, m.rng)), change: m.change, rng: m.rng, load: m.load, entries: m.entries}
	if err := c.tryOpen(); err != nil {
		return nil, err
	}
	if had, agreed := uint64(c.e.Committed()), m.log.Durable(); had > agreed {
		return c, fmt.Errorf("%d entries were replayed, %d were agreed upon", had, agreed)
	}
	c.agree(uint64(m.e.Committed()))
	return c, errors.Join(c.log.follow(c.e), c.check())
}

var _ journal.Log = (*scripted)(nil)
