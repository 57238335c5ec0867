package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"redoubt/engine"
)

// piece is what a commit writes in one partition.
type piece struct {
	puts    []Row // values without versions
	deletes [][]byte
	ranges  []Span
	checks  [][]byte
	size    int
}

// empty reports whether the piece writes nothing.
func (p *piece) empty() bool { return len(p.puts)+len(p.deletes)+len(p.ranges) == 0 }

// wrote returns the rows and ranges that the piece writes.
func (p *piece) wrote() (f footprint) {
	for _, r := range p.puts {
		f.add(r.Key)
	}
	for _, key := range p.deletes {
		f.add(key)
	}
	f.spans = p.ranges
	return f
}

// fill adds the piece to a change. Ranges are cut around the rows that the change puts.
func (p *piece) fill(c *Change) {
	for _, r := range p.puts {
		c.Puts = append(c.Puts, Row{r.Key, appendValue(make([]byte, 0, len(r.Value)+versionSize), r.Value, c.To)})
	}
	c.Deletes = append(c.Deletes, p.deletes...)
	for _, s := range p.ranges {
		var cuts [][]byte
		for _, r := range p.puts {
			if inside(r.Key, s) {
				cuts = append(cuts, r.Key)
			}
		}
		slices.SortFunc(cuts, bytes.Compare)
		for _, key := range cuts {
			if bytes.Compare(s.Lo, key) < 0 {
				c.Ranges = append(c.Ranges, Span{s.Lo, key})
			}
			s.Lo = append(key[:len(key):len(key)], 0)
		}
		if s.Hi == nil || bytes.Compare(s.Lo, s.Hi) < 0 {
			c.Ranges = append(c.Ranges, s)
		}
	}
}

// pieces divides a batch by partitions.
func (v *view) pieces(b *engine.Batch) (map[int]*piece, error) {
	l, parts := v.e.layout, make(map[int]*piece)
	at := func(part int) *piece {
		p := parts[part]
		if p == nil {
			p = new(piece)
			parts[part] = p
		}
		return p
	}
	for lo, hi := range b.Ranges() {
		for i, end := l.within(lo, hi); i < end; i++ {
			p := at(int(l.starts[i]))
			from, to := l.clip(i, lo, hi)
			if from == nil {
				from = l.begin(i)
				if len(from) == 0 {
					from = []byte{0} // the empty key is the partition's own
				}
			}
			p.ranges = append(p.ranges, Span{bytes.Clone(from), bytes.Clone(to)})
			p.size += len(from) + len(to) + rowOverhead
		}
	}
	for op := range b.Ops() {
		if len(op.Key) == 0 || !v.own && isReserved(op.Key) {
			return nil, fmt.Errorf("row % x is reserved", brief(op.Key))
		}
		if len(op.Key) > maxKey {
			return nil, fmt.Errorf("a name, member or field of %d bytes is too long for this store, which takes %d: choose a shorter one", len(op.Key), maxKey)
		}
		p := at(l.part(op.Key))
		if op.Delete {
			p.deletes = append(p.deletes, op.Key)
		} else {
			p.puts = append(p.puts, Row{op.Key, op.Value})
		}
		p.size += len(op.Key) + len(op.Value) + rowOverhead
	}
	for _, p := range parts {
		if p.size > maxPiece {
			return nil, fmt.Errorf("a command that writes %d bytes at once is too large for this store, which takes %d: write less at a time", p.size, maxPiece)
		}
		if n := len(p.puts) + len(p.deletes) + len(p.ranges); n > maxRows {
			return nil, fmt.Errorf("a command that writes %d rows at once is too large for this store, which takes %d: write fewer at a time", n, maxRows)
		}
	}
	for key := range b.Checks() {
		p := at(l.part(key))
		p.checks = append(p.checks, key)
	}
	return parts, nil
}

const (
	maxKey      = 60 << 10
	maxPiece    = 12 << 20
	maxRows     = 50_000
	rowOverhead = 32
)

// A staged piece is its rows one after the other: a kind, and one or two byte strings, each
// with its length before it.
const (
	stagedPut    = 1 // key, value
	stagedDelete = 2 // key
	stagedRange  = 3 // lo, hi
	stagedRest   = 4 // lo, up to the end of the partition
)

func (p *piece) encode() []byte {
	b := make([]byte, 0, p.size)
	add := func(kind byte, fields ...[]byte) {
		b = append(b, kind)
		for _, f := range fields {
			b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
		}
	}
	for _, s := range p.ranges {
		if s.Hi == nil {
			add(stagedRest, s.Lo)
		} else {
			add(stagedRange, s.Lo, s.Hi)
		}
	}
	for _, key := range p.deletes {
		add(stagedDelete, key)
	}
	for _, r := range p.puts {
		add(stagedPut, r.Key, r.Value)
	}
	return b
}

func decodePiece(b []byte) (*piece, error) {
	p, bad := new(piece), fmt.Errorf("what a transaction has staged does not decode: %w", engine.ErrCorrupt)
	for len(b) > 0 {
		kind, fields := b[0], [2][]byte{}
		if kind < stagedPut || kind > stagedRest {
			return nil, bad
		}
		b = b[1:]
		n := 1
		if kind == stagedPut || kind == stagedRange {
			n = 2
		}
		for i := range n {
			size, w := binary.Uvarint(b)
			if w <= 0 || size > uint64(len(b)-w) {
				return nil, bad
			}
			fields[i], b = b[w:w+int(size)], b[w+int(size):]
		}
		switch kind {
		case stagedPut:
			p.puts = append(p.puts, Row{fields[0], fields[1]})
		case stagedDelete:
			p.deletes = append(p.deletes, fields[0])
		case stagedRange:
			p.ranges = append(p.ranges, Span{fields[0], fields[1]})
		case stagedRest:
			p.ranges = append(p.ranges, Span{fields[0], nil})
		}
	}
	return p, nil
}
