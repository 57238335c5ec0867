package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"redoubt/engine"
)

// Catalog is the metadata that the processes of a shared store agree about: the keyspace
// numbers of the databases, the libraries of functions, and the role. Every process has a copy, since
// reads in each transaction would make its rows the hottest of all. Yet no transaction may
// use numbers that another process has changed: what it wrote would be lost.
//
// So the copy has a lease, as schemas have in F1 and TiDB. A process reads the catalog row
// every RenewEvery; the copy is valid for the lease from the moment of the read on, in the
// store's own time. A transaction that reads or commits later is retried. A process that
// changes the catalog writes the moment from which the change is in effect, so far ahead
// that no lease from before the change reaches it, and replies when that moment has come.
// Until then all processes use the old copy. If there is no other process the change is in
// effect at once.
//
// On an engine without moments (engine.Capabilities) a process cannot compare its time with
// another's, and a commit under way may take effect late. There the change has no moment: it
// is undecided, and whoever reads that uses neither copy, until the process that made it, or
// another one if that takes too long, has waited for a lease, fenced the store, and written
// that the change is in effect.
type Catalog struct {
	space *Space
	eng   engine.Shared

	mu        sync.Mutex
	version   uint64            // of the catalog row whose content is in use or is next
	libraries map[string]string // the libraries in use: name -> source
	next      *nextCatalog
	lease     Lease
	undecided time.Time // when a change without a moment was read first
}

const (
	catalogLease = 600 * time.Millisecond
	// RenewEvery is how often Renew must be called.
	RenewEvery = 150 * time.Millisecond
	// A change must be committed within a lease, and all leases from before that
	// must end.
	changeDelay = 2 * catalogLease
	// undecided is the moment of a change that has none yet, and takeOver is when another
	// process decides it.
	undecided = engine.Stamp(math.MaxUint64)
	takeOver  = 5 * catalogLease
)

// errPending is returned by the first Renew while a change of the catalog is not in effect.
var errPending = errors.New("a change of the catalog is under way")

func newCatalog(s *Space, eng engine.Shared) *Catalog { return &Catalog{space: s, eng: eng} }

// openAgain waits for RenewEvery and reports true if opening the store failed because another
// process opens it or changes its catalog.
func (c *Catalog) openAgain(err error) bool {
	if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, errPending) {
		return false
	}
	time.Sleep(RenewEvery)
	return true
}

// nextCatalog is a change that is not in effect yet.
type nextCatalog struct {
	from      engine.Stamp
	numbers   []uint32
	libraries []LibraryChange
	role      Role
}

// Lease is how long the catalog in use is valid.
type Lease struct {
	until engine.Stamp // in the store's time
	begin time.Time    // on this machine's clock
	// Pending: a change is not in effect yet, so that only the store's time decides.
	Pending bool
}

// Holds reports whether the catalog was valid at a moment or, if that is 0, is valid now.
func (l Lease) Holds(at engine.Stamp) bool {
	if at == 0 {
		return !l.Pending && time.Since(l.begin) < catalogLease
	}
	return at < l.until
}

// Until returns the moment from which on the catalog is not valid.
func (l Lease) Until() engine.Stamp { return l.until }

// Aged reports whether the lease should have been renewed by now.
func (l Lease) Aged() bool { return time.Since(l.begin) > catalogLease/2 }

// Lease returns the lease of the catalog in use. While the caller holds the keyspace latch,
// shared at least, the lease is that of the numbers in use.
func (c *Catalog) Lease() Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease
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

// Renew reads the catalog row and takes a new lease. A changed catalog is used from its
// moment on: see Adopt. Renew may be called at any time.
func (c *Catalog) Renew() error {
	begin := time.Now()
	moments := !c.eng.Capabilities().NoMoments
	before, err := engine.Stamp(0), error(nil)
	if !moments { // the lease counts from before the read
		if before, err = c.eng.Stamp(); err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
	}
	view, err := c.eng.Begin(engine.ViewOptions{Background: true}) // takes no place of a transaction: clients that have one wait for it
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	defer view.Close()
	shared := view.(engine.SharedView)
	version, err := shared.Version(sysKey(sysCatalog))
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	at := before
	if moments {
		if at, err = shared.Stamp(); err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
	}
	c.mu.Lock()
	known := c.version
	c.mu.Unlock()
	var next *nextCatalog
	if version != known {
		if next, err = c.readNext(view); err == nil {
			err = shared.Validate()
		}
		if err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case begin.Before(c.lease.begin), c.version != known:
		return nil // another goroutine has renewed it since
	case next != nil && c.version == 0: // the first call: nothing is in use yet
		if at < next.from {
			return errPending
		}
		c.use(next)
		next = nil
	case next != nil && c.next == nil && c.uses(next): // unchanged: a process has joined
	case next != nil:
		c.next = next
	}
	c.version = version
	c.lease = Lease{until: c.eng.Later(at, catalogLease), begin: begin, Pending: c.next != nil}
	if c.next != nil {
		c.lease.until = min(c.lease.until, c.next.from)
	}
	if c.next != nil && c.next.from == undecided {
		c.lease.until = 0
	}
	return nil
}

// Decide puts an undecided change in effect if its author has not done so for long.
func (c *Catalog) Decide() error {
	from, err := c.stored()
	c.mu.Lock()
	if err != nil || from != undecided {
		c.undecided = time.Time{}
	} else if c.undecided.IsZero() {
		c.undecided = time.Now()
	}
	since := c.undecided
	c.mu.Unlock()
	if since.IsZero() || time.Since(since) < takeOver {
		return err
	}
	return c.decide()
}

// stored reads from when on the stored catalog is in effect.
func (c *Catalog) stored() (engine.Stamp, error) {
	view, err := c.eng.Begin(engine.ViewOptions{Background: true})
	if err != nil {
		return 0, fmt.Errorf("read the catalog: %w", err)
	}
	defer view.Close()
	return readCatalog(view)
}

// decide puts an undecided change in effect. It was read, or written, a lease ago: nobody
// uses the old catalog any more, and after a fence nothing that was written with it comes.
func (c *Catalog) decide() error {
	fencer, ok := c.eng.(engine.Fencer)
	if !ok {
		return errors.New("the engine has no moments and no fence")
	}
	if err := fencer.Fence(); err != nil {
		return fmt.Errorf("fence the store: %w", err)
	}
	for begin := time.Now(); ; time.Sleep(RenewEvery / 10) {
		err := c.tryDecide()
		if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknownOutcome) || time.Since(begin) > takeOver {
			return err
		}
	}
}

func (c *Catalog) tryDecide() error {
	view, err := c.eng.Begin(engine.ViewOptions{Background: true})
	if err != nil {
		return fmt.Errorf("change the catalog: %w", err)
	}
	defer view.Close()
	if from, err := readCatalog(view); err != nil || from != undecided {
		return err
	}
	var b engine.Batch
	b.Put(sysKey(sysCatalog), binary.BigEndian.AppendUint64(nil, 0))
	_, err = view.Commit(&b)
	return err
}

func (c *Catalog) readNext(r engine.Reader) (*nextCatalog, error) {
	from, err := readCatalog(r)
	if err != nil {
		return nil, err
	}
	next := &nextCatalog{from: from, numbers: make([]uint32, len(c.space.dbs))}
	for db := range next.numbers {
		v, found, err := r.Get(sysKey16(sysDatabase, db), nil)
		if err == nil && (!found || len(v) != 4) {
			err = fmt.Errorf("%w: database %d has no number", engine.ErrCorrupt, db)
		}
		if err != nil {
			return nil, err
		}
		next.numbers[db] = binary.BigEndian.Uint32(v)
	}
	if next.role, err = readRole(r); err != nil {
		return nil, err
	}
	next.libraries, err = readLibraries(r)
	return next, err
}

// Next returns the moment from which on a change that Renew has found is in effect, 0 if
// there is none.
func (c *Catalog) Next() engine.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		return 0
	}
	return max(1, c.next.from)
}

// Adopt puts a change in effect if its moment has come, and returns the databases whose
// contents have changed. The whole keyspace must be latched.
func (c *Catalog) Adopt(now engine.Stamp) (changed []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil || now < c.next.from {
		return nil
	}
	for db, ks := range c.next.numbers {
		if c.space.dbs[db].Load() != ks {
			changed = append(changed, db)
		}
	}
	c.use(c.next)
	c.next = nil
	c.lease = Lease{} // until it is renewed
	return changed
}

// uses reports whether a catalog equals the one in use. mu is held.
func (c *Catalog) uses(n *nextCatalog) bool {
	for db, ks := range n.numbers {
		if c.space.dbs[db].Load() != ks {
			return false
		}
	}
	for _, l := range n.libraries {
		if c.libraries[l.Name] != l.Source {
			return false
		}
	}
	return len(n.libraries) == len(c.libraries) && n.role == c.space.Role()
}

// use makes a catalog the one in use. mu is held.
func (c *Catalog) use(n *nextCatalog) {
	for db, ks := range n.numbers {
		c.space.dbs[db].Store(ks)
	}
	var diff []LibraryChange
	there := make(map[string]string, len(n.libraries))
	for _, l := range n.libraries {
		there[l.Name] = l.Source
		if c.libraries[l.Name] != l.Source {
			diff = append(diff, l)
		}
	}
	for name := range c.libraries {
		if _, ok := there[name]; !ok {
			diff = append(diff, LibraryChange{Name: name})
		}
	}
	c.libraries = there
	c.space.useRole(n.role)
	if len(diff) > 0 && c.space.OnLibraries != nil {
		c.space.OnLibraries(diff)
	}
}

// change is store.changesCatalog.
func (c *Catalog) change(t *Tx) bool {
	if t.err != nil || t.FX.catalog {
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
	c.mu.Lock()
	stale := version != c.version || c.next != nil
	c.mu.Unlock()
	if stale {
		t.Fail(Stale)
		return false
	}
	t.FX.catalog, t.FX.from = true, 0
	switch {
	case t.onlyMember():
	case c.eng.Capabilities().NoMoments:
		t.FX.from = undecided
	default:
		t.FX.from = c.eng.Later(at, changeDelay)
	}
	t.Rows.Batch.Put(sysKey(sysCatalog), binary.BigEndian.AppendUint64(nil, uint64(t.FX.from)))
	return t.err == nil
}

// onlyMember reports whether no other process uses the store.
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

// Await waits, after a commit that changes the catalog, until the change is in effect, and
// adopts it. The whole keyspace is latched.
func (c *Catalog) Await(e *Effects, sleep func(time.Duration)) error {
	if !e.catalog {
		return nil
	}
	for begin := time.Now(); e.from > 0 && time.Since(begin) < changeDelay; {
		sleep(changeDelay - time.Since(begin))
	}
	if e.from == undecided {
		if err := c.decide(); err != nil {
			return err
		}
	}
	for {
		if err := c.Renew(); err != nil {
			return err
		}
		now, err := c.eng.Stamp()
		if err != nil {
			return err
		}
		if c.Adopt(now); c.Next() == 0 {
			return nil
		}
		sleep(RenewEvery / 10)
	}
}
