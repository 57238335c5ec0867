package rdb

import (
	"fmt"
	"slices"
)

// pending is an entry of a group that was delivered and not acknowledged.
type pending struct {
	id        ID
	delivered int64
	count     uint64
	owned     bool
}

// group visits a group: its name and numbers, all pending entries, and then the ids that
// each consumer has of them. Since visitors want the two together, the pending entries of a
// group are held in memory.
func (s *streamReader) group(names *unique) error {
	r := s.v.in
	name, err := s.newName(names)
	if err != nil {
		return err
	}
	last, err := s.id()
	if err != nil {
		return err
	}
	read := s.position(last)
	if s.v.code != typeStream {
		n, err := r.length()
		if err != nil {
			return err
		}
		read = max(int64(n), Unknown)
	}
	if err := s.to.Group(name, last, read); err != nil {
		return err
	}
	if err := s.pending(); err != nil {
		return err
	}
	n, err := r.count(10, "the consumers of a stream")
	if err != nil {
		return err
	}
	u := s.v.unique()
	for ; n > 0; n-- {
		if err := s.consumer(u); err != nil {
			return err
		}
	}
	for i := range s.wait {
		if !s.wait[i].owned {
			return fmt.Errorf("%w: a pending entry without a consumer", ErrFormat)
		}
	}
	return nil
}

// newName takes a name that is not among names, and adds it.
func (s *streamReader) newName(names *unique) ([]byte, error) {
	at := s.v.in.at
	name, err := s.v.in.str(&s.name)
	if err != nil {
		return nil, err
	}
	return name, names.add(at, name)
}

// id takes an id as two numbers.
func (s *streamReader) id() (id ID, err error) {
	if id.Ms, err = s.v.in.length(); err == nil {
		id.Seq, err = s.v.in.length()
	}
	return id, err
}

// position returns how many entries a group at an id has read, if the payload does not say
// so: this is known only at the ends of the stream.
func (s *streamReader) position(id ID) int64 {
	a := &s.about
	last := id.Compare(a.Last)
	switch {
	case a.Added == 0:
		return 0
	case last > 0:
		return Unknown
	case last == 0:
		return a.Added
	case id.Compare(a.First) < 0:
		return a.Added - a.Length
	case id == a.First:
		return a.Added - a.Length + 1
	}
	return Unknown
}

// pendingSize is the least size of a pending entry in a payload.
const pendingSize = 16 + 8 + 1

// pending takes the pending entries of a group.
func (s *streamReader) pending() error {
	r := s.v.in
	n, err := r.count(pendingSize, "the pending entries of a stream")
	s.wait = s.wait[:0]
	for ; n > 0 && err == nil; n-- {
		var b []byte
		if b, err = r.take(24, "a pending entry"); err != nil {
			return err
		}
		w := pending{id: rawID(b), delivered: signed(b[16:])}
		if w.count, err = r.length(); err == nil {
			s.wait = append(s.wait, w)
		}
	}
	// Redis writes them in order, but the format does not demand it.
	order := func(x, y pending) int { return x.id.Compare(y.id) }
	if !slices.IsSortedFunc(s.wait, order) {
		slices.SortFunc(s.wait, order)
	}
	for i := 1; i < len(s.wait) && err == nil; i++ {
		if s.wait[i-1].id == s.wait[i].id {
			err = fmt.Errorf("%w: an entry is pending twice", ErrFormat)
		}
	}
	return err
}

// consumer visits a consumer and its pending entries.
func (s *streamReader) consumer(names *unique) error {
	r := s.v.in
	name, err := s.newName(names)
	if err != nil {
		return err
	}
	seen, err := r.millis()
	if err != nil {
		return err
	}
	active := seen
	if s.v.code == typeStream3 {
		if active, err = r.millis(); err != nil {
			return err
		}
	}
	if err := s.to.Consumer(name, seen, active); err != nil {
		return err
	}
	n, err := r.count(16, "the pending entries of a consumer")
	for ; n > 0 && err == nil; n-- {
		var b []byte
		if b, err = r.take(16, "a pending entry"); err != nil {
			return err
		}
		id := rawID(b)
		i, found := slices.BinarySearchFunc(s.wait, id, func(w pending, id ID) int { return w.id.Compare(id) })
		if !found || s.wait[i].owned {
			return fmt.Errorf("%w: an entry is pending for two consumers, or not for the group", ErrFormat)
		}
		w := &s.wait[i]
		w.owned = true
		err = s.to.Pending(id, w.delivered, w.count)
	}
	return err
}
