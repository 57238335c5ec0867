package keyspace

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"redoubt/budget"
	"redoubt/engine"
)

// Tx is one execution's view of the keys: an engine's transaction plus the
// time, the selected database and the effects.
//
// Errors are sticky: after the first failure reads find nothing, writes do
// nothing, iterators end, and Err returns why. The executor checks Err after the
// handler, discards the reply and rolls back; so handlers need not check it,
// except before they build on what a long loop produced.
//
// Bytes that a Tx returns stay valid until the end of the execution, except
// where an iterator's comment says otherwise.
type Tx struct {
	Space *Space
	Rows  engine.Txn
	FX    *Effects

	DB        int   // the selected database
	Now       int64 // the time of this execution, in Unix milliseconds
	NowMicros int64
	Writable  bool  // the command is a write
	Latched   bool  // the keys of the command are latched
	Worker    bool  // runs where it may take long
	Cold      bool  // runs again and waits for rows that were not in memory
	OneState  bool  // sees one state of all keys, not only of those that are latched
	Listening Class // classes of events that somebody listens to
	By        int64 // the number of the client that changes keys, 0 for none
	// Numbers, if not nil, are the keyspace numbers of the databases, for an
	// execution on an older state. See Space.Numbers.
	Numbers []uint32
	// Undying: a master decides when keys and fields die. One that is past its time is alive
	// until the master's own command deletes it.
	Undying bool
	// Quiet: what the command reads does not count as used.
	Quiet bool

	err   error
	reads int
	// work is how many bytes the command under way touches, worked what earlier commands of
	// the same execution did: see Heavy.
	work, worked int64

	rowk     []byte   // scratch for row keys
	vals     []byte   // values read by this execution
	expected expected // rows that the command is about to read

	// Lease is the working memory of an execution on a worker, Gone reports that its client
	// has left, and Unrefused means that it gets whatever it needs: see memory.go.
	Lease     *budget.Lease
	Gone      func() bool
	Unrefused bool
	mem       memory

	// CommitAside, if set, commits rows at once that are not visible yet: see aside.go.
	CommitAside func(*engine.Batch) error
	asides      []Ref // values that were written aside, and that the batch is going to name
	// building is the new value that the command under way makes.
	building *aside
	room     aside        // storage of building
	portion  engine.Batch // storage of building.rows

	guards []guard    // on a shared store: see guard.go
	fresh  []uint64   // ids of values that this execution has made: see fresh.go
	own    engine.Txn // what rowsOf returns: see fresh.go
}

// TxMark is a place to roll a transaction back to.
type TxMark struct {
	rows   engine.Mark
	fx     effectsMark
	asides int
}

// Start begins an execution inside the batch: it forgets what the previous
// execution read, and returns the mark to roll back to.
func (t *Tx) Start() TxMark {
	t.err, t.reads, t.vals = nil, 0, t.vals[:0]
	t.work, t.worked = 0, 0
	t.guards, t.fresh = t.guards[:0], t.fresh[:0]
	if t.expected.fetched {
		t.expected.reset()
	}
	if cap(t.vals) > 1<<20 {
		t.vals = nil
	}
	if cap(t.rowk) > 1<<20 {
		t.rowk = nil
	}
	t.dropBuilding()
	t.startMemory()
	return t.Mark()
}

// Mark returns a place inside the execution to roll back to.
func (t *Tx) Mark() TxMark { return TxMark{t.Rows.Batch.Mark(), t.FX.mark(), len(t.asides)} }

// Rollback undoes everything since the mark.
func (t *Tx) Rollback(m TxMark) {
	t.Rows.Batch.Rollback(m.rows)
	t.FX.rollback(m.fx)
	t.abandon(m.asides)
	t.building = nil
}

// Undo is Rollback for an execution that has failed and will not be run again: its hits,
// misses and MissEv events remain.
func (t *Tx) Undo(m TxMark) {
	hits, misses, events := t.FX.Hits, t.FX.Misses, t.FX.Events
	t.Rollback(m)
	t.FX.Hits, t.FX.Misses = hits, misses
	for _, ev := range events[m.fx.events:] {
		if ev.Class == MissEv {
			t.FX.Events = append(t.FX.Events, ev)
		}
	}
}

// slotOf is SlotOf, or the slot in t.rowk if that is the meta row of this key,
// as when a command stores what it has just found.
func (t *Tx) slotOf(key []byte) uint16 {
	if k := t.rowk; len(k) == metaKeyHead+len(key) && k[2] == kindMeta && bytes.Equal(k[metaKeyHead:], key) {
		return uint16(k[0])<<8 | uint16(k[1])
	}
	return SlotOf(key)
}

// Past returns the time up to which keys and fields that expire are dead: Now, or 0 if Undying.
func (t *Tx) Past() int64 {
	if t.Undying {
		return 0
	}
	return t.Now
}

// Err returns the first failure.
func (t *Tx) Err() error { return t.err }

// Fail makes err the failure, if it is the first.
func (t *Tx) Fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// Heavy is called by a handler that is about to touch about so many bytes in all. It
// reports true if the execution must stop: it will be run again on a worker, or has
// failed.
func (t *Tx) Heavy(bytes int64) bool {
	t.work = max(t.work, bytes)
	if !t.Worker && (bytes > heavyBytes || t.worked+bytes > heavyBytes) {
		t.Fail(TakesLong)
	}
	return t.err != nil
}

// Worked is called between the commands of an execution that runs several: it adds
// up the bytes that they touch.
func (t *Tx) Worked() { t.worked, t.work = min(t.worked+min(t.work, heavyBytes), heavyBytes), 0 }

// WantsOneState is called by a handler that is about to read keys which are not among its
// arguments. It reports true if the execution must stop and will be run again on one
// state of all keys: on a snapshot, or with the whole keyspace latched if it writes.
func (t *Tx) WantsOneState() bool {
	if !t.OneState {
		t.Fail(NeedsOneState)
	}
	return t.err != nil
}

// heavyBytes is what an event loop may touch for one command: about a tenth of
// a millisecond's work.
const heavyBytes = 1 << 20

// GetRow reads one of a type's own rows; keys are read by Find.
func (t *Tx) GetRow(row []byte) ([]byte, bool) {
	if t.err != nil {
		return nil, false
	}
	if t.reads++; t.reads > 1 && !t.Latched {
		t.err = NeedsLatch
		return nil, false
	}
	if t.expected.fetched {
		t.read()
	}
	at := len(t.vals)
	v, found, err := t.get(row)
	if err != nil {
		t.err = fmt.Errorf("read row: %w", err)
		return nil, false
	}
	t.vals = v
	if len(v) > t.mem.valsNext {
		t.account()
	}
	return v[at:len(v):len(v)], found
}

func (t *Tx) get(row []byte) ([]byte, bool, error) {
	if t.Quiet {
		return t.rowsOf(row).Peek(row, t.vals)
	}
	return t.rowsOf(row).Get(row, t.vals)
}

// Reads returns how many reads the execution has done so far.
func (t *Tx) Reads() int { return t.reads }

// Held and Release let a command over many keys free the memory of what it has
// read: after Release everything read since the call of Held is invalid.
func (t *Tx) Held() int        { return len(t.vals) }
func (t *Tx) Release(held int) { t.vals = t.vals[:min(held, len(t.vals))] }

// PutRow writes one of a type's own rows.
func (t *Tx) PutRow(row, value []byte) {
	if t.writable() {
		if t.builds(row) {
			t.building.write(row, value, false)
		} else {
			t.Rows.Batch.Put(row, value)
		}
		t.guardWrite(row)
		t.wrote()
	}
}

// DeleteRow deletes one of a type's own rows.
func (t *Tx) DeleteRow(row []byte) {
	if t.writable() {
		if t.builds(row) {
			t.building.write(row, nil, true)
		} else {
			t.Rows.Batch.Delete(row)
		}
		t.guardWrite(row)
		t.wrote()
	}
}

// IterRows iterates over a type's own rows. The iterator must be closed by CloseRows,
// which keeps its error.
func (t *Tx) IterRows(lo, hi []byte, reverse bool) engine.Iterator {
	if t.reads++; t.reads > 1 && !t.Latched {
		t.Fail(NeedsLatch)
	}
	if t.err != nil {
		return noRows{}
	}
	return t.rowsOf(lo).Iter(lo, hi, reverse)
}

// IterKind iterates over the rows of one kind of a value with from <= rest < to,
// where rest is the key behind the first RowKeyHead bytes; nil is no bound. The
// iterator is closed by CloseRows.
func (t *Tx) IterKind(r Ref, k Kind, from, to []byte, reverse bool) engine.Iterator {
	lo, hi := kindRange(r, k, from, to)
	return t.IterRows(lo, hi, reverse)
}

func kindRange(r Ref, k Kind, from, to []byte) (lo, hi []byte) {
	n := partHead + len(from)
	both := append(AppendRowKey(make([]byte, 0, n+partHead+len(to)), r, k), from...)
	both = AppendRowKey(both, r, k)
	lo, hi = both[:n:n], both[n:]
	if to != nil {
		return lo, append(hi, to...)
	}
	return lo, successorIn(hi)
}

// CountKind counts the rows that IterKind would visit. ok is false if the engine
// cannot do so without a scan.
func (t *Tx) CountKind(r Ref, k Kind, from, to []byte) (n int64, ok bool) {
	lo, hi := kindRange(r, k, from, to)
	if t.err != nil || t.reads > 0 && !t.Latched || bytes.Compare(lo, hi) >= 0 || t.builds(lo) {
		return 0, false
	}
	count, ok := t.Rows.Count(lo, hi)
	return int64(count), ok
}

// NthKind appends to b the rest of the key (see IterKind) of the n-th row of a kind.
// ok is false if the engine cannot find the row without a scan.
func (t *Tx) NthKind(r Ref, k Kind, n int64, b []byte) (rest []byte, found, ok bool) {
	lo, hi := kindRange(r, k, nil, nil)
	if t.err != nil || t.reads > 0 && !t.Latched || t.builds(lo) {
		return b, false, false
	}
	at := len(b)
	b, found, ok = t.Rows.Nth(lo, hi, int(n), b)
	if found {
		b = append(b[:at], b[at+partHead:]...)
	}
	return b, found, ok
}

// AnyKind appends to b the rest of the key (see IterKind) of a random row of a kind,
// each equally likely. ok is false if the engine cannot do so without a scan.
func (t *Tx) AnyKind(r Ref, k Kind, intn func(int) int, b []byte) (rest []byte, ok bool) {
	lo, hi := kindRange(r, k, nil, nil)
	if t.err != nil || t.reads > 0 && !t.Latched || t.builds(lo) {
		return b, false
	}
	at := len(b)
	b, _, ok = t.Rows.Any(lo, hi, intn, b)
	if ok {
		b = append(b[:at], b[at+partHead:]...)
	}
	return b, ok
}

// Own returns a copy of b, with room for so many more bytes. The copy may be changed
// and stays valid until the end of the execution.
func (t *Tx) Own(b []byte, room int) []byte {
	at := len(t.vals)
	t.vals = append(t.vals, b...)
	t.vals = slices.Grow(t.vals, room)
	end := len(t.vals) + room
	own := t.vals[at:len(t.vals):end]
	t.vals = t.vals[:end]
	if end > t.mem.valsNext {
		t.account()
	}
	return own
}

// CloseRows closes an iterator and keeps its error.
func (t *Tx) CloseRows(it engine.Iterator) {
	if err := it.Close(); err != nil {
		t.Fail(fmt.Errorf("iterate over rows: %w", err))
	}
}

type noRows struct{}

func (noRows) Next() bool    { return false }
func (noRows) Key() []byte   { return nil }
func (noRows) Value() []byte { return nil }
func (noRows) Close() error  { return nil }

// writable guards against a write in a command that is not flagged as a write,
// or names no keys: it holds no latches.
func (t *Tx) writable() bool {
	if t.err == nil && !t.Writable {
		t.err = errors.New("a command that is not flagged as a write, or has no keys, tried to write")
	}
	return t.err == nil
}

// ks returns the keyspace number of the selected database, as this batch sees it.
func (t *Tx) ks() uint32 { return t.ksOf(t.DB) }

func (t *Tx) ksOf(db int) uint32 {
	if t.Numbers != nil {
		return t.Numbers[db]
	}
	for i := len(t.FX.moves) - 1; i >= 0; i-- {
		if t.FX.moves[i].db == db {
			return t.FX.moves[i].ks
		}
	}
	return t.Space.dbs[db].Load()
}

// Find returns the meta row of a key, or the zero Meta if the key does not exist
// or has expired. In a command that writes, Find removes an expired key.
func (t *Tx) Find(key []byte) Meta {
	if t.err != nil {
		return Meta{}
	}
	ks := t.ks()
	t.rowk = appendMetaKey(t.rowk[:0], t.slotOf(key), ks, key)
	v, found := t.GetRow(t.rowk)
	t.Space.store.readMeta(t)
	if !found {
		return Meta{}
	}
	m, err := decodeMeta(v)
	if err != nil {
		t.err = fmt.Errorf("key %.64q: %w", key, err)
		return Meta{}
	}
	if m.External() {
		t.Space.store.opened(t, m)
	}
	if m.dead(t.Past()) {
		if t.Writable {
			t.expire(key, m)
		}
		return Meta{}
	}
	return m
}

// Death returns when a key dies, 0 if never, and whether the key exists and is not
// dead. Unlike Find it removes nothing.
func (t *Tx) Death(key []byte) (at int64, exists bool) {
	writable := t.Writable
	t.Writable = false
	m := t.Find(key)
	t.Writable = writable
	return m.death(), m.Exists()
}

// Read is Find for a command that reads the key's value: it counts a hit or a
// miss.
func (t *Tx) Read(key []byte) Meta {
	m := t.Find(key)
	if m.Exists() {
		t.FX.Hits++
	} else {
		t.FX.Misses++
		if t.Listening&MissEv != 0 {
			t.Note(MissEv, "keymiss", key)
		}
	}
	return m
}

// Store sets the meta row of the key to m. old is what Find returned for the key.
// The rows of an external old value stay only if m refers to the same id.
func (t *Tx) Store(key []byte, old, m Meta) {
	if !t.writable() {
		return
	}
	if t.building != nil {
		t.built(m)
	}
	slot, ks := t.slotOf(key), t.ks()
	if !old.Exists() {
		t.count(sysKeys, ks, 1)
		if t.Listening&NewEv != 0 {
			t.Note(NewEv, "new", key)
		}
	} else if old.External() && !sameValue(old, m) {
		t.dropRows(old.Ref())
	}
	t.moveExpiry(slot, ks, key, old, m)
	if blocksOn(m.Type) || old.Type == Stream || (m.Type == Channel || old.Type == Channel) && !sameValue(old, m) {
		t.Awaken(key)
	}
	t.rowk = appendMetaKey(t.rowk[:0], slot, ks, key)
	var head [metaHead]byte
	t.Rows.Batch.Put2(t.rowk, appendMetaHead(head[:0], m), m.Body)
	t.wrote()
}

// Remove deletes the key and its value, in O(1). old is what Find returned for the
// key, and exists.
func (t *Tx) Remove(key []byte, old Meta) {
	if old.External() && t.writable() {
		t.dropRows(old.Ref())
	}
	t.Detach(key, old)
}

// Detach deletes the key's meta row but leaves the rows of its value: RENAME
// and MOVE then Store the same Meta under another name.
func (t *Tx) Detach(key []byte, old Meta) {
	if !t.writable() {
		return
	}
	slot, ks := t.slotOf(key), t.ks()
	t.count(sysKeys, ks, -1)
	t.moveExpiry(slot, ks, key, old, Meta{})
	if old.Type == Stream || old.Type == Channel {
		t.Awaken(key)
	}
	t.rowk = appendMetaKey(t.rowk[:0], slot, ks, key)
	t.Rows.Batch.Delete(t.rowk)
}

// blocksOn reports whether every Store of a value of the type may make waiters ready. A
// channel is stored for other reasons, too: its type calls Awaken.
func blocksOn(t Type) bool { return t == List || t == ZSet || t == Stream }

// sameValue reports whether two Metas name the same rows.
func sameValue(a, b Meta) bool { return a.External() && b.External() && a.Ref().ID == b.Ref().ID }

// Awaken notes that the waiters of the key must be run again. Store calls it for
// types on which clients can wait.
func (t *Tx) Awaken(key []byte) {
	switch {
	case t.err != nil:
	case t.Space.Waiting.Load() > 0:
		t.FX.Ready = append(t.FX.Ready, Ready{t.DB, append([]byte(nil), key...)})
	default:
		t.FX.UntrackedReady = true
	}
}

// AwakenAll is Awaken for every key of a database.
func (t *Tx) AwakenAll(db int) {
	switch {
	case t.err != nil:
	case t.Space.Waiting.Load() > 0:
		t.FX.Ready = append(t.FX.Ready, Ready{DB: db})
	default:
		t.FX.UntrackedReady = true
	}
}

// expire removes an expired key.
func (t *Tx) expire(key []byte, old Meta) {
	t.Remove(key, old)
	t.propagateDeath(key, old)
	if old.Expire == 0 || old.Expire > t.Now { // the last field or part of the value has expired
		if old.Type == Channel {
			t.Note(ChannelEv, "cexpired", key)
		} else {
			t.Note(HashEv, "hexpired", key)
		}
		t.Note(Generic, "del", key)
		return
	}
	t.FX.Expired++
	t.Note(ExpiredEv, "expired", key)
}

// moveExpiry replaces the expire row of a key whose Meta changes from old to m.
func (t *Tx) moveExpiry(slot uint16, ks uint32, key []byte, old, m Meta) {
	if (old.Expire != 0) != (m.Expire != 0) {
		delta := int64(1)
		if m.Expire == 0 {
			delta = -1
		}
		t.count(sysVolatile, ks, delta)
	}
	from, to := old.due(), m.due()
	if from == to {
		return
	}
	if from != 0 {
		t.rowk = appendExpireKey(t.rowk[:0], slot, from, ks, key)
		t.Rows.Batch.Delete(t.rowk)
	}
	if to != 0 {
		t.rowk = appendExpireKey(t.rowk[:0], slot, to, ks, key)
		t.Rows.Batch.Put(t.rowk, nil)
		t.FX.dues = append(t.FX.dues, due{slot, to})
	}
}

func (t *Tx) count(what byte, ks uint32, delta int64) {
	var k [6]byte
	t.Rows.Batch.Add(appendSysKey32(k[:0], what, ks), delta)
}

// dropRows deletes the rows of a value: at once if a range delete is cheap, else
// in the background.
func (t *Tx) dropRows(r Ref) {
	if r.Size > manyElements {
		t.FX.Dropped++
	}
	if !t.Space.eng.Capabilities().CheapRangeDelete {
		t.FX.Garbage++
		t.Rows.Batch.Put(appendGarbageKey(nil, r.Home, r.ID), nil)
		return
	}
	deleteValue(t.Rows.Batch, r)
}

// deleteValue deletes the rows of a value at once.
func deleteValue(b *engine.Batch, r Ref) {
	for kind := byte(kindSub); kind <= kindRank; kind++ {
		lo := appendPart(nil, r.Home, kind, r.ID)
		b.DeleteRange(lo, successor(lo))
	}
}

// manyElements is the size above which the deletion of a value is counted in
// Effects.Dropped, since Redis would leave it to the background.
const manyElements = 64

// NewRef makes the Ref of a new external value of the key.
func (t *Tx) NewRef(key []byte, size int64) Ref {
	id, err := t.Space.store.newID(t.NowMicros, t.Rows.Batch, t.FX)
	if err != nil {
		t.Fail(err)
	} else if !t.Local() {
		t.fresh = append(t.fresh, id)
	}
	r := Ref{ID: id, Home: SlotOf(key), Size: size}
	t.build(r)
	return r
}

// Note notes an event for the listeners. Every change of a key is noted.
func (t *Tx) Note(class Class, event string, key []byte) {
	if t.err != nil {
		return
	}
	if t.Listening&class != 0 {
		t.FX.Events = append(t.FX.Events, Event{class, event, t.DB, append([]byte(nil), key...)})
	}
	switch {
	case class&(MissEv|NewEv) != 0:
	case t.Space.Observers.Load() > 0:
		t.touch(key, class == ExpiredEv)
	default:
		t.FX.UntrackedTouch = true
	}
}

// touch notes that a key was changed. It skips repetitions: one command often
// notes several events of a key.
func (t *Tx) touch(key []byte, expired bool) {
	by := t.By
	if expired {
		by = 0
	}
	if n := len(t.FX.Touched); n > 0 {
		if last := &t.FX.Touched[n-1]; last.DB == t.DB && last.By == by && last.Expired == expired && bytes.Equal(last.Key, key) {
			return
		}
	}
	t.FX.Touched = append(t.FX.Touched, Touch{t.DB, append([]byte{}, key...), expired, by})
}

// touchAll notes that any key of a database may have been changed.
func (t *Tx) touchAll(db int) {
	if t.Space.Observers.Load() > 0 {
		t.FX.Touched = append(t.FX.Touched, Touch{DB: db, By: t.By})
	} else {
		t.FX.UntrackedTouch = true
	}
}

// Publish has a message published once the execution is committed.
func (t *Tx) Publish(channel, payload []byte, shard bool) {
	if t.err != nil {
		return
	}
	n := len(channel)
	b := append(append(make([]byte, 0, n+len(payload)), channel...), payload...)
	t.FX.Messages = append(t.FX.Messages, Message{b[:n:n], b[n:], shard, len(t.FX.Events)})
}

// Changed counts one change of a key by a command, and notes its event.
func (t *Tx) Changed(class Class, event string, key []byte) {
	t.FX.Changes++
	t.Note(class, event, key)
}

// Size returns how many keys the selected database has.
func (t *Tx) Size() int64 { return t.sizeOf(t.ks()) }

func (t *Tx) sizeOf(ks uint32) int64 {
	k := appendSysKey32(nil, sysKeys, ks)
	n, err := t.Space.eng.Counter(k)
	if err != nil {
		t.Fail(fmt.Errorf("count keys: %w", err))
	}
	return t.Space.shown(n + t.Rows.Batch.Pending(k))
}

// Flush empties a database in O(1): the database gets a new keyspace number, and the
// old one is cleared in the background. The whole keyspace must be latched.
func (t *Tx) Flush(db int) {
	t.FX.Flushed = true
	if !t.writable() || t.Space.store.exact() && t.sizeOf(t.ksOf(db)) == 0 || !t.Space.store.changesCatalog(t) {
		return
	}
	t.FX.Garbage++
	t.Rows.Batch.Put(appendSysKey32(nil, sysDead, t.ksOf(db)), nil)
	ks := t.allocate()
	if t.err != nil {
		return
	}
	t.assign(db, ks)
	t.AwakenAll(db)
	t.touchAll(db)
}

// Swap exchanges the contents of two databases in O(1). The whole keyspace
// must be latched.
func (t *Tx) Swap(a, b int) {
	if t.writable() && t.Space.store.changesCatalog(t) {
		x, y := t.ksOf(a), t.ksOf(b)
		t.assign(a, y)
		t.assign(b, x)
		t.AwakenAll(a)
		t.AwakenAll(b)
		t.touchAll(a)
		t.touchAll(b)
	}
}

func (t *Tx) assign(db int, ks uint32) {
	t.Rows.Batch.Put(sysKey16(sysDatabase, db), appendNumber(nil, ks))
	t.FX.moves = append(t.FX.moves, move{db, ks})
}
