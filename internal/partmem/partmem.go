// Package partmem is a store of partitions in memory, for tests of engine/partition and of
// what runs on it. It loses answers, makes changes late, refuses them, and is slow, as its
// user says.
package partmem

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
	"redoubt/engine/partition"
)

// Table is what the stores of several engines share.
type Table struct {
	mu    sync.Mutex
	parts map[int]*part
}

type part struct {
	state   partition.State
	staged  []byte
	rows    []partition.Row // ascending
	graves  [][]byte        // keys of deleted rows, which reads pass over; ascending
	last    map[int32]int64
	decided map[string]bool
}

// New makes an empty table.
func New() *Table { return &Table{parts: make(map[int]*part)} }

// Fault is what happens to a change. The zero Fault is none.
type Fault struct {
	// Err is returned instead of the answer. The change is made before, if Applied; or
	// after Later, if that is above 0; else never.
	Err     error
	Applied bool
	Later   time.Duration
	// Delay comes before the change.
	Delay time.Duration
	// Wait, if not nil, is waited for before the change.
	Wait <-chan struct{}
}

// Store is one process's use of a table. It implements partition.Store.
type Store struct {
	table *Table
	// Faults chooses what happens to a change; nil means nothing. It is to be set before
	// the store is used, or through SetFaults.
	faults atomic.Pointer[func(*partition.Change) Fault]
	cut    atomic.Bool
	reads  atomic.Int64
	traces atomic.Int64
	tries  atomic.Int64
	passed atomic.Int64
	wg     sync.WaitGroup
}

// Open makes one more store on the table.
func (t *Table) Open() *Store { return &Store{table: t} }

// SetFaults has f choose the fault of each change; nil ends that.
func (s *Store) SetFaults(f func(*partition.Change) Fault) {
	if f == nil {
		s.faults.Store(nil)
		return
	}
	s.faults.Store(&f)
}

// Cut makes the table unreachable for this store until Cut(false).
func (s *Store) Cut(cut bool) { s.cut.Store(cut) }

// Statements returns how many reads of rows, reads of traces, and changes were sent.
func (s *Store) Statements() (reads, traces, changes int64) {
	return s.reads.Load(), s.traces.Load(), s.tries.Load()
}

// Passed returns how many deleted rows reads of ranges have passed over.
func (s *Store) Passed() int64 { return s.passed.Load() }

func (s *Store) reach(ctx context.Context) error {
	if s.cut.Load() || ctx.Err() != nil {
		return fmt.Errorf("the way is cut: %w", engine.ErrUnavailable)
	}
	return nil
}

// Read implements partition.Store.
func (s *Store) Read(ctx context.Context, q *partition.Query) (a partition.Answer, err error) {
	s.reads.Add(1)
	if err := s.reach(ctx); err != nil {
		return a, err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	p := s.table.parts[q.Part]
	a.Known = q.Keys != nil
	if p == nil {
		return a, nil
	}
	if q.Keys != nil {
		a.State = p.state
		for _, key := range q.Keys {
			if i, found := p.find(key); found {
				a.Rows = append(a.Rows, p.rows[i])
			}
		}
		return a, nil
	}
	from, _ := p.find(q.Lo)
	to := len(p.rows)
	if q.Hi != nil {
		to, _ = p.find(q.Hi)
	}
	rows := p.rows[from:max(from, to)]
	if q.Reverse {
		rows = slices.Clone(rows)
		slices.Reverse(rows)
	}
	if len(q.Lo) == 0 { // the sentinel row of a real store, which is the first one
		a.Known = a.Known || !q.Reverse || len(rows) < q.Limit
	}
	if len(rows) > q.Limit || q.Limit == 1 && len(rows) == 1 {
		rows, a.More = rows[:q.Limit], true
	}
	passed := partition.Span{Lo: q.Lo, Hi: q.Hi}
	switch {
	case a.More && q.Reverse:
		passed.Lo = rows[len(rows)-1].Key
	case a.More:
		passed.Hi = rows[len(rows)-1].Key
	}
	a.Passed = p.gravesIn(passed)
	s.passed.Add(int64(a.Passed))
	a.Rows = slices.Clone(rows)
	if a.Known = a.Known || len(rows) > 0; a.Known {
		a.State = p.state
		if len(q.Lo) > 0 || q.Reverse {
			a.Note = nil // it is in the sentinel row
		}
	}
	return a, nil
}

// Trace implements partition.Store.
func (s *Store) Trace(ctx context.Context, n int, owner int32, txn []byte) (t partition.Trace, err error) {
	s.traces.Add(1)
	if err := s.reach(ctx); err != nil {
		return t, err
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if p := s.table.parts[n]; p != nil {
		t = partition.Trace{State: p.state, Last: p.last[owner], Decided: p.decided[string(txn)], Staged: p.staged}
	}
	return t, nil
}

// Change implements partition.Store.
func (s *Store) Change(ctx context.Context, c *partition.Change) (applied bool, now partition.State, err error) {
	s.tries.Add(1)
	var f Fault
	if choose := s.faults.Load(); choose != nil {
		f = (*choose)(c)
	}
	if f.Wait != nil {
		select {
		case <-f.Wait:
		case <-ctx.Done():
		}
	}
	if f.Delay > 0 {
		time.Sleep(f.Delay)
	}
	if err := s.reach(ctx); err != nil {
		return false, now, err
	}
	if f.Err != nil {
		switch {
		case f.Applied:
			s.table.change(c)
		case f.Later > 0:
			late := clone(c)
			s.wg.Go(func() {
				time.Sleep(f.Later)
				s.table.change(late)
			})
		}
		return false, now, fmt.Errorf("injected: %w", f.Err)
	}
	applied, now = s.table.change(c)
	return applied, now, nil
}

// Time implements partition.Store.
func (s *Store) Time(ctx context.Context) (time.Time, error) { return time.Now(), s.reach(ctx) }

// Address implements partition.Store. The address is that of this machine.
func (s *Store) Address() string { return "127.0.0.1:1" }

// Close implements partition.Store. It waits for changes that come late.
func (s *Store) Close() error {
	s.wg.Wait()
	return nil
}

func (t *Table) change(c *partition.Change) (applied bool, now partition.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.parts[c.Part]
	if p == nil {
		p = &part{last: make(map[int32]int64), decided: make(map[string]bool)}
	}
	if p.state.Version != c.From || len(p.state.Lock) > 0 && !c.Locked {
		return false, p.state
	}
	t.parts[c.Part] = p
	p.state.Version = c.To
	p.last[c.Owner] = c.To
	if c.Note != nil {
		p.state.Note = bytes.Clone(c.Note)
	}
	for _, s := range c.Ranges {
		p.rows = slices.DeleteFunc(p.rows, func(r partition.Row) bool {
			in := bytes.Compare(r.Key, s.Lo) >= 0 && (s.Hi == nil || bytes.Compare(r.Key, s.Hi) < 0)
			if in {
				p.bury(r.Key)
			}
			return in
		})
	}
	for _, key := range c.Deletes {
		if i, found := p.find(key); found {
			p.rows = slices.Delete(p.rows, i, i+1)
		}
		p.bury(key)
	}
	for _, r := range c.Puts {
		r = partition.Row{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
		if i, found := slices.BinarySearchFunc(p.graves, r.Key, bytes.Compare); found {
			p.graves = slices.Delete(p.graves, i, i+1)
		}
		if i, found := p.find(r.Key); found {
			p.rows[i] = r
		} else {
			p.rows = slices.Insert(p.rows, i, r)
		}
	}
	if c.Unlock {
		p.state.Lock, p.staged = nil, nil
	}
	if c.Lock != nil {
		p.state.Lock, p.staged = bytes.Clone(c.Lock), bytes.Clone(c.Staged)
	}
	if c.Decide != nil {
		p.decided[string(c.Decide)] = true
	}
	for _, id := range c.Forget {
		delete(p.decided, string(id))
	}
	return true, p.state
}

func (p *part) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(p.rows, key, func(r partition.Row, key []byte) int { return bytes.Compare(r.Key, key) })
}

// bury notes that a row was deleted.
func (p *part) bury(key []byte) {
	if i, found := slices.BinarySearchFunc(p.graves, key, bytes.Compare); !found {
		p.graves = slices.Insert(p.graves, i, bytes.Clone(key))
	}
}

func (p *part) gravesIn(s partition.Span) int {
	from, _ := slices.BinarySearchFunc(p.graves, s.Lo, bytes.Compare)
	to := len(p.graves)
	if s.Hi != nil {
		to, _ = slices.BinarySearchFunc(p.graves, s.Hi, bytes.Compare)
	}
	return max(0, to-from)
}

// Locks returns the numbers of the locked partitions, and Decided how many notes of
// decisions there are.
func (t *Table) Locks() (parts []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, p := range t.parts {
		if len(p.state.Lock) > 0 {
			parts = append(parts, n)
		}
	}
	slices.Sort(parts)
	return parts
}

// Decided is described at Locks.
func (t *Table) Decided() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.parts {
		n += len(p.decided)
	}
	return n
}

func clone(c *partition.Change) *partition.Change {
	d := *c
	d.Puts = nil
	for _, r := range c.Puts {
		d.Puts = append(d.Puts, partition.Row{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
	}
	d.Deletes = nil
	for _, key := range c.Deletes {
		d.Deletes = append(d.Deletes, bytes.Clone(key))
	}
	d.Ranges = nil
	for _, s := range c.Ranges {
		d.Ranges = append(d.Ranges, partition.Span{Lo: bytes.Clone(s.Lo), Hi: bytes.Clone(s.Hi)})
	}
	return &d
}
