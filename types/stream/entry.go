package stream

import (
	"encoding/binary"
	"errors"
)

// Errors of adding an entry.
var (
	// ErrExhausted: the last possible ID was given.
	ErrExhausted = errors.New("no more IDs")
	// ErrSmallID: the ID is not above the last one.
	ErrSmallID = errors.New("ID not above the last one")
	// ErrLarge: the entry is larger than an entry may be.
	ErrLarge = errors.New("entry too large")
)

// Entry holds the fields and values of an entry, as they are stored.
type Entry []byte

// Pairs returns the number of fields, and a reader of the alternating fields and
// values.
func (e Entry) Pairs() (n int, items Items) {
	count, size := binary.Uvarint(e)
	// Each item has at least one byte, so too large a count is rejected.
	if size <= 0 || count > uint64(len(e)-size)/2 {
		return 0, nil
	}
	return int(count), Items(e[size:])
}

// Items are the unread fields and values of an entry.
type Items []byte

// Next returns the next item. ok is false at the end, and where the bytes are
// malformed.
func (i *Items) Next() (item []byte, ok bool) {
	n, size := binary.Uvarint(*i)
	if size <= 0 || n > uint64(len(*i)-size) {
		return nil, false
	}
	item, *i = (*i)[size:size+int(n)], (*i)[size+int(n):]
	return item, true
}

// Valid reports whether all fields and values can be read.
func (e Entry) Valid() bool {
	n, items := e.Pairs()
	if items == nil {
		return false
	}
	for range 2 * n {
		if _, ok := items.Next(); !ok {
			return false
		}
	}
	return len(items) == 0
}

// appendEntry appends the fields and values of an entry.
func appendEntry(b []byte, pairs [][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(pairs)/2))
	for _, p := range pairs {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

// NextID is the ID of an entry that is added now without one.
func (s *Stream) NextID() (ID, error) {
	if now := uint64(s.tx.Now); now > s.Last.Ms {
		return ID{Ms: now}, nil
	}
	id, ok := s.Last.Next()
	if !ok {
		return ID{}, ErrExhausted
	}
	return id, nil
}

// NextIn is the ID of an entry that is added with a time but no number (ms-*).
func (s *Stream) NextIn(ms uint64) (ID, error) {
	id := ID{Ms: ms}
	if ms == s.Last.Ms {
		next, ok := s.Last.Next()
		if !ok || next.Ms != ms {
			return ID{}, ErrSmallID
		}
		id = next
	}
	return id, nil
}

// Add adds an entry; pairs are its fields and values in turn.
func (s *Stream) Add(id ID, pairs [][]byte) error {
	if s.Last == MaxID {
		return ErrExhausted
	}
	if !s.Last.Less(id) {
		return ErrSmallID
	}
	size := int64(0)
	for _, p := range pairs {
		size += int64(len(p))
	}
	if size > maxNode {
		return ErrLarge
	}
	s.start()
	s.add(id, pairs, size)
	s.Added++
	return nil
}

func (s *Stream) add(id ID, pairs [][]byte, size int64) {
	s.grow(id, pairs, size)
	room := int(size) + (len(pairs)+1)*binary.MaxVarintLen32
	held := s.tx.Held()
	value := appendEntry(s.tx.Own(nil, room), pairs)
	s.tx.PutRow(s.idRow(rowEntry, id), value)
	s.release(held)
	if s.ref.Size == 0 {
		s.First = id
	}
	s.ref.Size++
	s.Last, s.changed = id, true
}

// Get returns an entry. It stays valid until the end of the execution.
func (s *Stream) Get(id ID) (Entry, bool) {
	if s.ref.Size == 0 || id.Less(s.First) || s.Last.Less(id) {
		return nil, false
	}
	v, found := s.tx.GetRow(s.idRow(rowEntry, id))
	return v, found
}

// expect adds the row of an entry to a prefetch.
func (s *Stream) expect(id ID) {
	if s.ref.Size > 0 && !id.Less(s.First) && !s.Last.Less(id) {
		s.tx.Expect(s.idRow(rowEntry, id))
	}
}

// Each visits the entries in [from, to], backwards if reverse, until visit returns
// false. The bytes are valid during the call, and
// visit must not write.
func (s *Stream) Each(from, to ID, reverse bool, visit func(id ID, e Entry) bool) {
	// Rows deleted before the first entry may be slow to step over.
	if from.Less(s.First) {
		from = s.First
	}
	if s.Last.Less(to) {
		to = s.Last
	}
	if s.ref.Size == 0 || to.Less(from) {
		return
	}
	it := s.rows([]byte{rowEntry}, from, to, reverse)
	defer s.tx.CloseRows(it)
	var w work
	for it.Next() {
		k := rest(it.Key())
		if len(k) != 1+idSize {
			s.corrupt("an entry's key is malformed")
			return
		}
		if !w.add(s.tx, len(it.Value())) || !visit(decodeID(k[1:]), Entry(it.Value())) {
			return
		}
	}
}

// Count is the number of entries in [from, to], or most if there are more.
func (s *Stream) Count(from, to ID, most int64) (n int64) {
	if !s.First.Less(from) && !to.Less(s.Last) {
		return min(s.ref.Size, most)
	}
	if most == 0 {
		return 0
	}
	s.Each(from, to, false, func(ID, Entry) bool {
		n++
		return n < most
	})
	return n
}

// LastEntry is the ID of the last entry, or 0-0. LastEntry is below Last if the entry
// with that ID was deleted.
func (s *Stream) LastEntry() (last ID) {
	s.Each(ID{}, MaxID, true, func(id ID, _ Entry) bool {
		last = id
		return false
	})
	return last
}

// Delete deletes entries and returns how many of them existed.
func (s *Stream) Delete(ids ...ID) (deleted int64) {
	first, gone := s.First, false
	if s.tx.WorthPrefetching(len(ids)) {
		for _, id := range ids {
			s.expect(id)
		}
		s.tx.FetchExpected()
	}
	for _, id := range ids {
		held := s.tx.Held()
		_, found := s.Get(id)
		s.release(held)
		if !found {
			continue
		}
		s.tx.DeleteRow(s.idRow(rowEntry, id))
		s.shrink(id)
		s.ref.Size--
		if s.MaxDeleted.Less(id) {
			s.MaxDeleted = id
		}
		deleted++
		gone = gone || id == first
		if s.ref.Size == 0 {
			break
		}
	}
	s.changed = s.changed || deleted > 0
	if gone || s.ref.Size == 0 {
		s.findFirst(first)
	}
	return deleted
}

// findFirst looks for the first entry from an ID on.
func (s *Stream) findFirst(from ID) {
	s.First = ID{}
	if s.ref.Size == 0 {
		return
	}
	s.Each(from, MaxID, false, func(id ID, _ Entry) bool {
		s.First = id
		return false
	})
}
