package hash

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types/member"
	"redoubt/types/pack"
)

// rows is the form of large hashes. Each field has a sub row
//
//	home:2 02 id:8 hash:4 field -> 00 value
//	home:2 02 id:8 hash:4 field -> 01 time:8 value
//
// and a field with a time also has a score row, an index by time, to find the first
// and the last death, and the fields that are due:
//
//	home:2 03 id:8 time:8 field -> nothing
//
// The body of the meta row is a keyspace.Ref, followed in RowsTimed by
// keyspace.FieldTimes and the number of fields with a time, as 8 bytes.
//
// FieldTimes.Next may be too early: when the first field to die gets another time
// or is removed, it is not worth while to look for the next. purge corrects Next.
// FieldTimes.End must be exact, since the key is dead at that time.
type rows struct {
	member.Rows
	times    keyspace.FieldTimes // End: the latest time, also with fields without one; 0 if unknown
	volatile int64               // fields with a time
	changed  bool                // the meta row is to be written
	key, val []byte              // scratch
	page     []byte              // scratch
}

// The first byte of a field's row.
const (
	flagTime  = 1
	knownFlag = flagTime
)

// rowWork is the cost of reading a row, in the unit of Tx.Heavy.
const rowWork = 64

const volatileAt = keyspace.RefSize + keyspace.FieldTimesSize

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: hash: %s", engine.ErrCorrupt, fmt.Sprintf(format, args...))
}

func (r *rows) open(tx *keyspace.Tx, m keyspace.Meta) {
	r.Tx, r.Ref = tx, m.Ref()
	r.times, r.volatile, r.changed = m.FieldTimes(), 0, false
	if m.Timed() {
		if len(m.Body) < volatileAt+8 {
			tx.Fail(corrupt("meta row has no room for the number of fields with a time"))
			return
		}
		r.volatile = int64(binary.BigEndian.Uint64(m.Body[volatileAt:]))
	}
}

// start begins a hash without fields.
func (r *rows) start(tx *keyspace.Tx, ref keyspace.Ref) {
	r.Tx, r.Ref = tx, ref
	r.times, r.volatile, r.changed = keyspace.FieldTimes{}, 0, true
}

func (r *rows) release() {
	r.Tx = nil
	if cap(r.val) > maxScratch {
		r.val = nil
	}
	if cap(r.page) > maxScratch {
		r.page = nil
	}
}

func (r *rows) size() int64 { return r.Ref.Size }
func (r *rows) next() int64 { return r.times.Next }

// decode reads a field's row.
func (r *rows) decode(row []byte) (e Entry) {
	switch {
	case len(row) > 0 && row[0] == 0:
		e.Value = row[1:]
	case len(row) > 8 && row[0] == knownFlag:
		e.At, e.Value = int64(binary.BigEndian.Uint64(row[1:])), row[9:]
	default:
		r.Tx.Fail(corrupt("a field's row begins with % x", row[:min(len(row), 9)]))
		return e
	}
	e.found = true
	return e
}

func (r *rows) find(field []byte) Entry {
	row, found := r.Get(field)
	if !found {
		return Entry{}
	}
	return r.decode(row)
}

func (r *rows) put(field, value []byte, at int64, was Entry) {
	if at == 0 {
		r.val = append(r.val[:0], 0)
	} else {
		r.val = binary.BigEndian.AppendUint64(append(r.val[:0], flagTime), uint64(at))
	}
	r.val = append(r.val, value...)
	r.Put(field, r.val)
	if !was.found {
		r.Ref.Size++
		r.changed = true
	}
	r.retime(field, was.At, at)
}

func (r *rows) remove(field []byte, was Entry) {
	r.Delete(field)
	r.Ref.Size--
	r.changed = true
	r.retime(field, was.At, 0)
}

// retime updates the score rows and the times of the meta row for a changed time.
func (r *rows) retime(field []byte, from, to int64) {
	if from == to {
		return
	}
	r.changed = true
	if from != 0 {
		r.Tx.DeleteRow(r.timeKey(from, field))
		r.volatile--
		if from == r.times.End {
			r.times.End = 0
		}
	}
	if to == 0 {
		return
	}
	r.Tx.PutRow(r.timeKey(to, field), nil)
	r.volatile++
	if r.times.Next == 0 || to < r.times.Next {
		r.times.Next = to
	}
	if r.times.End != 0 || r.volatile == 1 {
		r.times.End = max(r.times.End, to)
	}
}

func (r *rows) timeKey(at int64, field []byte) []byte {
	r.key = keyspace.AppendRowKey(r.key[:0], r.Ref, keyspace.ScoreRow)
	r.key = binary.BigEndian.AppendUint64(r.key, uint64(at))
	return append(r.key, field...)
}

// timeOf reads the time and the field in the key of a score row.
func (r *rows) timeOf(key []byte) (at int64, field []byte) {
	rest := key[keyspace.RowKeyHead:]
	if len(rest) < 8 {
		r.Tx.Fail(corrupt("a row by time has the key % x", key))
		return 0, nil
	}
	return int64(binary.BigEndian.Uint64(rest)), rest[8:]
}

// due counts the score rows whose time has passed.
func (r *rows) due(now int64) (n int64) {
	it := r.Tx.IterKind(r.Ref, keyspace.ScoreRow, nil, binary.BigEndian.AppendUint64(nil, uint64(now)+1), false)
	defer r.Tx.CloseRows(it)
	for it.Next() {
		if n++; n%1024 == 0 && r.Tx.Heavy(n*rowWork) {
			return n
		}
	}
	return n
}

func (r *rows) purge(now int64, limit int, gone func(field []byte)) (n int) {
	r.page = r.page[:0]
	next := int64(0)
	it := r.Tx.IterKind(r.Ref, keyspace.ScoreRow, nil, nil, false)
	for it.Next() {
		at, _ := r.timeOf(it.Key())
		if r.Tx.Err() != nil {
			break
		}
		if at > now || n == limit {
			next = at
			break
		}
		// Rows must not change under an open iterator.
		r.page = pack.AppendEntry(r.page, it.Key())
		n++
	}
	r.Tx.CloseRows(it)
	for off := 0; ; {
		key, end, ok := pack.Buf(r.page).At(off)
		if !ok {
			break
		}
		off = end
		at, field := r.timeOf(key)
		gone(field)
		r.remove(field, Entry{found: true, At: at})
	}
	if next != r.times.Next {
		r.times.Next, r.changed = next, true
	}
	return n
}

func (r *rows) each(visit func(field []byte, e Entry) bool) {
	r.Each(func(field, row []byte) bool {
		e := r.decode(row)
		return e.found && visit(field, e)
	})
}

func (r *rows) scan(cursor uint64, count int, visit func(field []byte, e Entry)) uint64 {
	return r.Scan(cursor, count, func(field, row []byte) {
		if e := r.decode(row); e.found {
			visit(field, e)
		}
	})
}

// living returns a function that reports whether a field's row is live; nil if all are.
func (r *rows) living(now int64) func(row []byte) bool {
	if r.times.Next == 0 || r.times.Next > now {
		return nil
	}
	return func(row []byte) bool {
		e := r.decode(row)
		return e.found && (e.At == 0 || e.At > now)
	}
}

func (r *rows) draw(now, count int64, rng *rand.Rand, visit func(field []byte, e Entry) bool) {
	live := r.living(now)
	for ; count > 0; count-- {
		held := r.Tx.Held()
		field, row, ok := r.Pick(rng, live)
		if !ok || !visit(field, r.decode(row)) {
			return
		}
		r.Tx.Release(held)
	}
}

func (r *rows) sample(now, count int64, rng *rand.Rand, visit func(field []byte, e Entry)) {
	r.Sample(count, rng, r.living(now), func(field, row []byte) {
		if e := r.decode(row); e.found {
			visit(field, e)
		}
	})
}

func (r *rows) save(buf []byte) (keyspace.Meta, bool) {
	if r.volatile <= 0 {
		buf = keyspace.AppendRef(buf, r.Ref)
		return keyspace.Meta{Type: keyspace.Hash, Encoding: keyspace.Rows, Body: buf}, r.changed
	}
	f := r.times
	switch {
	case r.volatile < r.Ref.Size:
		f.End = 0
	case f.End == 0:
		f.End = r.last()
	}
	buf = keyspace.AppendFieldTimes(keyspace.AppendRef(buf, r.Ref), f)
	buf = binary.BigEndian.AppendUint64(buf, uint64(r.volatile))
	return keyspace.Meta{Type: keyspace.Hash, Encoding: keyspace.RowsTimed, Body: buf}, r.changed
}

// last is the latest time of a field.
func (r *rows) last() int64 {
	it := r.Tx.IterKind(r.Ref, keyspace.ScoreRow, nil, nil, true)
	defer r.Tx.CloseRows(it)
	if !it.Next() {
		return 0
	}
	at, _ := r.timeOf(it.Key())
	return at
}
