package copier

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"redoubt/engine"
	"redoubt/keyspace"
)

// ErrDiffers: the destination's rows are not the source's.
var ErrDiffers = errors.New("the copy differs from its source")

// Sort is all rows of one sort.
type Sort struct {
	Name        string
	Rows, Bytes int64
	Sum         uint64 // xxHash64 of the rows in order, each with the lengths of key and value before it
}

// sums are the sums of the rows of one side.
type sums [keyspace.Sorts]struct {
	rows, bytes int64
	hash        xxhash.Digest
}

func newSums() *sums {
	s := new(sums)
	for i := range s {
		s[i].hash.Reset()
	}
	return s
}

func (s *sums) add(r row) {
	t := &s[keyspace.SortOf(r.key)]
	t.rows++
	t.bytes += int64(len(r.key) + len(r.value))
	var n [8]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(r.key)))
	binary.BigEndian.PutUint32(n[4:], uint32(len(r.value)))
	t.hash.Write(n[:])
	t.hash.Write(r.key)
	t.hash.Write(r.value)
}

func (s *sums) list() (list []Sort) {
	for i := range s {
		if t := &s[i]; t.rows > 0 {
			list = append(list, Sort{keyspace.SortName(i), t.rows, t.bytes, t.hash.Sum64()})
		}
	}
	return list
}

// Count reads and counts all rows of a source that a copy would copy.
func Count(ctx context.Context, r engine.Reader, tell func(Progress)) ([]Sort, Result, error) {
	s, c, rows, bytes := newSums(), keyspace.Census{}, int64(0), int64(0)
	side := walk(ctx, r)
	defer side.stop()
	for {
		at, err := side.next()
		if err != nil || at.key == nil {
			result := Result{Rows: rows, Bytes: bytes}
			for _, n := range c.Spaces {
				result.Keys += n.All
			}
			return s.list(), result, err
		}
		s.add(at)
		c.Add(at.key, at.value)
		rows++
		bytes += int64(len(at.key) + len(at.value))
		if rows%tellEvery == 0 {
			tell(Progress{"counted", rows, bytes, percent(at.key)})
		}
	}
}

const tellEvery = 4096

// verify reads both sides again and compares them.
func (c *copying) verify(ctx context.Context) (list []Sort, err error) {
	err = c.look(ctx, func(snap engine.Snapshot) (err error) {
		list, err = c.compare(ctx, snap)
		return err
	})
	return list, err
}

// compare compares the source with one state of the destination.
func (c *copying) compare(ctx context.Context, snap engine.Reader) (list []Sort, err error) {
	from, to := walk(ctx, c.from.Rows), walk(ctx, snap)
	defer from.stop()
	defer to.stop()
	had, has := newSums(), newSums()
	var rows, size int64
	for {
		a, err := from.next()
		if err != nil {
			return nil, fmt.Errorf("read the source: %w", err)
		}
		b, err := to.next()
		if err != nil {
			return nil, fmt.Errorf("read the destination: %w", err)
		}
		if what := differ(a, b); what != "" {
			return nil, fmt.Errorf("%w: %s", ErrDiffers, what)
		}
		if a.key == nil {
			break
		}
		had.add(a)
		has.add(b)
		rows++
		if size += int64(len(a.key) + len(a.value)); rows%tellEvery == 0 {
			c.Progress(Progress{"verified", rows, size, percent(a.key)})
		}
	}
	c.Progress(Progress{"verified", rows, size, 100})
	// The rows were compared one by one. The sums are for the operator's records; the number of
	// rows must be what was written.
	list = had.list()
	for i, s := range has.list() {
		if s != list[i] {
			return nil, fmt.Errorf("%w: of the %s rows %+v were read and %+v written", ErrDiffers, s.Name, list[i], s)
		}
	}
	if rows != c.mark.rows {
		return nil, fmt.Errorf("%w: %d rows were written, and there are %d", ErrDiffers, c.mark.rows, rows)
	}
	return list, nil
}

// differ describes how a row of the source differs from that of the destination, "" if not.
func differ(a, b row) string {
	var tell keyspace.Describer
	tell.Learn(a.key, a.value)
	switch order := bytes.Compare(a.key, b.key); {
	case a.key == nil && b.key == nil:
		return ""
	case b.key == nil || a.key != nil && order < 0:
		return "the source has " + tell.Row(a.key, a.value) + ", the copy has not"
	case a.key == nil || order > 0:
		return "the copy has " + tell.Row(b.key, b.value) + ", the source has not"
	case !bytes.Equal(a.value, b.value):
		return fmt.Sprintf("%s is %s, and %s in the copy", tell.Key(a.key), told(&tell, a), told(&tell, b))
	}
	return ""
}

func told(t *keyspace.Describer, r row) string {
	if v := t.Value(r.key, r.value); v != "" {
		return v
	}
	return "empty"
}

// row is a row; a nil key stands for the end.
type row struct{ key, value []byte }

// side reads ahead the rows of a store, in blocks, so that two stores are read in parallel.
type side struct {
	blocks chan []row
	stop   context.CancelFunc
	err    error // once blocks is closed
	rest   []row
}

const (
	blockRows  = 512
	blockBytes = 256 << 10
)

func walk(ctx context.Context, r engine.Reader) *side {
	ctx, stop := context.WithCancel(ctx)
	s := &side{blocks: make(chan []row, 4), stop: stop}
	stopped := make(chan struct{})
	s.stop = func() { // returns when the reader is not used any more
		stop()
		<-stopped
	}
	go func() {
		defer close(stopped)
		defer close(s.blocks)
		it := r.Iter(nil, nil, false)
		var block []row
		size := 0
		send := func() bool {
			select {
			case s.blocks <- block:
				block, size = make([]row, 0, blockRows), 0
				return true
			case <-ctx.Done():
				s.err = ctx.Err()
				return false
			}
		}
		for s.err == nil && it.Next() {
			if !keyspace.Copied(it.Key()) {
				continue
			}
			k, n := it.Key(), len(it.Key())
			b := append(append(make([]byte, 0, n+len(it.Value())), k...), it.Value()...)
			block = append(block, row{b[:n:n], b[n:]})
			if size += len(b); (len(block) >= blockRows || size >= blockBytes) && !send() {
				break
			}
		}
		s.err = errors.Join(s.err, it.Close())
		if s.err == nil && len(block) > 0 {
			send()
		}
	}()
	return s
}

// next returns the next row.
func (s *side) next() (row, error) {
	for len(s.rest) == 0 {
		block, ok := <-s.blocks
		if !ok {
			return row{}, s.err
		}
		s.rest = block
	}
	r := s.rest[0]
	s.rest = s.rest[1:]
	return r, nil
}
