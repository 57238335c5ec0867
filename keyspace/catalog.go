package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"redoubt/engine"
)

// The catalog of a shared store: which keyspace numbers the databases have, and the
// libraries of functions. Every process has a copy, since to read it in each
// transaction would make its rows the hottest of all, and yet no transaction may use
// numbers that another process has changed: what it wrote would be lost.
//
// So the copy has a lease, as schemas have in F1 and TiDB. A process looks at the
// catalog row all the time; what it sees at some moment holds for the lease from that
// moment on, in the store's own time. A transaction that reads or commits later is run
// again. Who changes the catalog writes the moment from which the change is in effect,
// far enough away that no lease from before the change reaches it, and answers when it
// has come. Until then everybody goes on with the old copy. If there is no other
// process the change is in effect at once.
const (
	catalogLease = 600 * time.Millisecond
	lookEvery    = 150 * time.Millisecond
	// A change must be committed within a lease, and all leases from before that
	// must end.
	changeDelay = 2 * catalogLease
)

// LookEvery is how often somebody must call Look.
const LookEvery = lookEvery

// errPending: a change of the catalog is not in effect yet.
var errPending = errors.New("a change of the catalog is under way")

// busy waits for a moment if opening a store failed because another process opens it or
// changes its catalog.
func (s *Space) busy(err error) bool {
	if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, errPending) {
		return false
	}
	time.Sleep(lookEvery)
	return true
}

type catalog struct {
	mu        sync.Mutex
	version   uint64            // of the catalog row whose content is in use or is next
	libraries map[string]string // those in use, with their sources
	next      *nextCatalog
	lease     Lease
}

// nextCatalog is a change that is not in effect yet.
type nextCatalog struct {
	from      engine.Stamp
	numbers   []uint32
	libraries []LibraryChange
}

// Lease is how long the catalog in use holds.
type Lease struct {
	until  engine.Stamp // in the store's time
	looked time.Time    // from when on a lease has passed on this machine's clock
	// Pending: a change is on its way, so that only the store's time tells.
	Pending bool
}

// Holds says whether the catalog held at a moment or, if that is 0, holds until now.
func (l Lease) Holds(at engine.Stamp) bool {
	if at == 0 {
		return !l.Pending && time.Since(l.looked) < catalogLease
	}
	return at < l.until
}

// Until is the moment from which on it does not hold.
func (l Lease) Until() engine.Stamp { return l.until }

// Aged says that it is time to look again, whoever should have done so.
func (l Lease) Aged() bool { return time.Since(l.looked) > catalogLease/2 }

// Lease returns the lease of the numbers in use. Who keeps it keeps the whole
// keyspace latched, shared at least.
func (s *Space) Lease() Lease {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	return s.catalog.lease
}

// join notes in the batch that a process joins: a change of the catalog that goes on
// at the same time, and may believe to be alone, conflicts with it.
func (s *Space) join(r engine.Reader, b *engine.Batch) error {
	from, err := readCatalog(r)
	if err != nil {
		return err
	}
	b.Put(sysKey(sysCatalog), binary.BigEndian.AppendUint64(nil, uint64(from)))
	return nil
}

func isCatalog(row []byte) bool { return len(row) == 2 && row[0] == system && row[1] == sysCatalog }

func readCatalog(r engine.Reader) (from engine.Stamp, err error) {
	v, found, err := r.Get(sysKey(sysCatalog), nil)
	switch {
	case err != nil:
		return 0, err
	case found && len(v) != 8:
		return 0, fmt.Errorf("%w: catalog row of %d bytes", engine.ErrCorrupt, len(v))
	case found:
		from = engine.Stamp(binary.BigEndian.Uint64(v))
	}
	return from, nil
}

// Look reads the catalog row and takes a new lease. If the catalog was changed the
// new one is used from its moment on: see Adopt. It may be called at any time.
func (s *Space) Look() error {
	c := &s.catalog
	looked := time.Now()
	view, err := s.eng.Begin(true)
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	defer view.Close()
	shared := view.(engine.SharedView)
	shared.Behind() // clients wait for it, but while they have their places
	version, err := shared.Version(sysKey(sysCatalog))
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	at, err := shared.Stamp()
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	c.mu.Lock()
	known := c.version
	c.mu.Unlock()
	var next *nextCatalog
	if version != known {
		if next, err = s.readNext(view); err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case looked.Before(c.lease.looked), c.version != known:
		return nil // somebody else has looked since
	case next != nil && c.version == 0: // the first look: nobody uses anything yet
		if at < next.from {
			return errPending
		}
		s.use(next)
		next = nil
	case next != nil && c.next == nil && s.uses(next): // a process has joined
	case next != nil:
		c.next = next
	}
	c.version = version
	c.lease = Lease{until: s.shared.Later(at, catalogLease), looked: looked, Pending: c.next != nil}
	if c.next != nil {
		c.lease.until = min(c.lease.until, c.next.from)
	}
	return nil
}

func (s *Space) readNext(r engine.Reader) (*nextCatalog, error) {
	from, err := readCatalog(r)
	if err != nil {
		return nil, err
	}
	next := &nextCatalog{from: from, numbers: make([]uint32, len(s.dbs))}
	for db := range s.dbs {
		v, found, err := r.Get(sysKey16(sysDatabase, db), nil)
		if err == nil && (!found || len(v) != 4) {
			err = fmt.Errorf("%w: database %d has no number", engine.ErrCorrupt, db)
		}
		if err != nil {
			return nil, err
		}
		next.numbers[db] = binary.BigEndian.Uint32(v)
	}
	next.libraries, err = readLibraries(r)
	return next, err
}

// NextCatalog returns the moment from which a change is in effect that Look has found,
// 0 if there is none.
func (s *Space) NextCatalog() engine.Stamp {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.catalog.next == nil {
		return 0
	}
	return max(1, s.catalog.next.from)
}

// Adopt puts a change in effect if its moment has come, and returns the databases that
// have other contents now. The whole keyspace must be latched.
func (s *Space) Adopt(now engine.Stamp) (changed []int) {
	c := &s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil || now < c.next.from {
		return nil
	}
	for db, ks := range c.next.numbers {
		if s.dbs[db].Load() != ks {
			changed = append(changed, db)
		}
	}
	s.use(c.next)
	c.next = nil
	c.lease = Lease{} // until the next look
	return changed
}

// uses says whether a catalog is just like the one in use. mu is held.
func (s *Space) uses(n *nextCatalog) bool {
	for db, ks := range n.numbers {
		if s.dbs[db].Load() != ks {
			return false
		}
	}
	for _, l := range n.libraries {
		if s.catalog.libraries[l.Name] != l.Source {
			return false
		}
	}
	return len(n.libraries) == len(s.catalog.libraries)
}

// use makes a catalog the one in use. mu is held.
func (s *Space) use(n *nextCatalog) {
	for db, ks := range n.numbers {
		s.dbs[db].Store(ks)
	}
	var diff []LibraryChange
	there := make(map[string]string, len(n.libraries))
	for _, l := range n.libraries {
		there[l.Name] = l.Source
		if s.catalog.libraries[l.Name] != l.Source {
			diff = append(diff, l)
		}
	}
	for name := range s.catalog.libraries {
		if _, ok := there[name]; !ok {
			diff = append(diff, LibraryChange{Name: name})
		}
	}
	s.catalog.libraries = there
	if len(diff) > 0 && s.OnLibraries != nil {
		s.OnLibraries(diff)
	}
}

// renumber is called before the catalog is changed. It says false when that cannot be
// now. The whole keyspace must be latched.
func (t *Tx) renumber() bool {
	s := t.Space
	if s.shared == nil || t.err != nil || t.FX.catalog {
		return t.err == nil
	}
	view := t.Rows.View.(engine.SharedView)
	version, err := view.Version(sysKey(sysCatalog))
	var at engine.Stamp
	if err == nil {
		at, err = view.Stamp()
	}
	if err != nil {
		t.Fail(fmt.Errorf("change the catalog: %w", err))
		return false
	}
	s.catalog.mu.Lock()
	stale := version != s.catalog.version || s.catalog.next != nil
	s.catalog.mu.Unlock()
	if stale {
		t.Fail(Stale)
		return false
	}
	t.FX.catalog, t.FX.from = true, 0
	if !t.onlyMember() {
		t.FX.from = s.shared.Later(at, changeDelay)
	}
	t.Rows.Batch.Put(sysKey(sysCatalog), binary.BigEndian.AppendUint64(nil, uint64(t.FX.from)))
	return t.err == nil
}

// onlyMember says whether no other process uses the store.
func (t *Tx) onlyMember() bool {
	lo := sysKey(sysMember)
	it := t.IterRows(lo, successor(lo), false)
	n := 0
	for n < 2 && it.Next() {
		n++
	}
	t.CloseRows(it)
	return n < 2
}

// Await waits, after a commit, until the change of the catalog in it is in effect, and
// makes it known here. The whole keyspace is latched.
func (s *Space) Await(e *Effects, sleep func(time.Duration)) error {
	if !e.catalog {
		return nil
	}
	for begin := time.Now(); e.from > 0 && time.Since(begin) < changeDelay; {
		sleep(changeDelay - time.Since(begin))
	}
	for {
		if err := s.Look(); err != nil {
			return err
		}
		now, err := s.shared.Stamp()
		if err != nil {
			return err
		}
		if s.Adopt(now); s.NextCatalog() == 0 {
			return nil
		}
		sleep(lookEvery / 10)
	}
}
