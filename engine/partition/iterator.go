package partition

import (
	"bytes"
	"context"
	"sync"

	"redoubt/engine"
)

// iterator reads a range page by page. Inside of one partition it is as strict as the view;
// a range over several partitions, or one of a present, shows each page as it is when it is
// read, with all that was committed before the iterator began.
type iterator struct {
	e       *Engine
	v       *view // nil if the iterator is not strict
	ctx     context.Context
	lo, hi  []byte
	reverse bool
	next    int // index of the partition to be read; end is one past the last
	end     int
	rest    *Span // what is left to be read of the partition; nil: it is not begun
	limit   int
	passed  int               // pages read
	gaps    gaps              // of the partition, if v is nil
	ahead   map[int]chan page // first pages of the next partitions, by index
	rows    []Row
	at      int
	key     []byte
	value   []byte
	err     error
}

const (
	firstPage = 64
	lastPage  = 2048
	// aheadParts is of how many partitions first pages are fetched ahead.
	aheadParts = 12
)

// page is what a statement has found.
type page struct {
	Answer
	err error
}

// Iter implements engine.Reader.
func (v *view) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	if err := v.ready(); err != nil {
		return &iterator{err: err}
	}
	it := v.e.iterate(v.ctx, lo, hi, reverse)
	if v.own {
		it.next, it.end = v.e.layout.at(lo), v.e.layout.at(lo)+1
	}
	if it.end-it.next == 1 {
		it.v = v
	}
	return it.begin()
}

func (e *Engine) iterate(ctx context.Context, lo, hi []byte, reverse bool) *iterator {
	it := &iterator{e: e, ctx: ctx, lo: bytes.Clone(lo), hi: bytes.Clone(hi), reverse: reverse, limit: firstPage, at: -1}
	it.next, it.end = e.layout.within(lo, hi)
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		it.end = it.next
	}
	return it
}

func (it *iterator) begin() *iterator {
	if it.reverse {
		it.next, it.end = it.end-1, it.next-1
	}
	return it
}

// Next implements engine.Iterator.
func (it *iterator) Next() bool {
	for it.err == nil {
		if it.at++; it.at < len(it.rows) {
			r := it.rows[it.at]
			if len(r.Key) == 0 {
				continue
			}
			it.key = r.Key
			it.value, _, it.err = split(r.Key, r.Value)
			return it.err == nil
		}
		if it.next == it.end {
			it.rows = nil
			return false
		}
		it.err = it.page()
	}
	return false
}

// page reads the next page, and leaves the partition if it was the last one.
func (it *iterator) page() error {
	it.rows, it.at = nil, -1
	part := int(it.e.layout.starts[it.next])
	if it.rest == nil {
		lo, hi := it.e.layout.clip(it.next, it.lo, it.hi)
		it.rest = &Span{lo, hi}
		if err := it.enter(part); err != nil {
			return err
		}
	}
	a, behind, err := it.fetch(part)
	if err != nil {
		return err
	}
	it.fetchAhead()
	it.rows, it.limit = a.Rows, min(2*it.limit, lastPage)
	covered := *it.rest
	if n := len(a.Rows); a.More && n > 0 {
		last := a.Rows[n-1].Key
		behind = &Span{it.rest.Lo, last}
		if !it.reverse {
			behind = &Span{append(bytes.Clone(last), 0), it.rest.Hi}
		}
	}
	if behind != nil && it.reverse {
		covered.Lo = behind.Hi
	} else if behind != nil {
		covered.Hi = behind.Lo
	}
	it.note(part, covered, &a)
	if it.rest = behind; behind != nil {
		return nil
	}
	it.gaps = nil
	if it.reverse {
		it.next--
	} else {
		it.next++
	}
	return nil
}

// fetch reads the first rows of what is left of a partition, and tells what is left behind a
// gap that it leaves out.
func (it *iterator) fetch(part int) (a Answer, behind *Span, err error) {
	if fetched, ok := it.ahead[it.next]; ok {
		delete(it.ahead, it.next)
		p := <-fetched
		it.gaps, _ = decodeGaps(p.Note)
		return p.Answer, nil, p.err
	}
	for {
		var version int64
		gaps := it.gaps
		if it.v != nil {
			version, gaps = it.v.seen[part].version, it.v.seen[part].gaps
		}
		first, behind, ok := gaps.next(*it.rest, it.reverse)
		if !ok {
			return Answer{}, nil, nil
		}
		a, err = it.read(&Query{Part: part, Lo: first.Lo, Hi: first.Hi, Reverse: it.reverse, Limit: it.limit, Level: Fresh})
		if err != nil || it.v == nil || it.v.seen[part].version == version {
			return a, behind, err
		}
		// What was read belongs to a newer version than the gaps.
	}
}

// note has the view remember what it has seen, and the store where rows begin behind many
// that were deleted.
func (it *iterator) note(part int, covered Span, a *Answer) {
	if a.Passed >= costly {
		it.e.figures.passed.Add(1)
	}
	if it.v == nil {
		if len(it.gaps) == 0 && len(a.Note) > 0 {
			it.gaps, _ = decodeGaps(a.Note) // a walk without them is only slow
		}
		return
	}
	s := it.v.seen[part]
	s.saw(covered, a.Rows, it.reverse)
	if a.Passed < costly || len(a.Rows) > 1 {
		return // it is not known that the deleted rows lie before the first one
	}
	if len(a.Rows) > 0 && it.reverse {
		covered.Lo = append(bytes.Clone(a.Rows[0].Key), 0)
	} else if len(a.Rows) > 0 {
		covered.Hi = a.Rows[0].Key
	}
	if before(covered.Lo, covered.Hi) {
		it.e.remember(part, s, covered)
	}
}

// fetchAhead fetches the first pages of the partitions that come next, while the iterator walks
// over many of them.
func (it *iterator) fetchAhead() {
	if it.passed++; it.passed < 3 || it.v != nil || it.reverse || it.end-it.next < aheadParts {
		return
	}
	if it.ahead == nil {
		it.ahead = make(map[int]chan page)
	}
	for i := it.next + 1; i < min(it.end, it.next+aheadParts); i++ {
		if _, ok := it.ahead[i]; ok {
			continue
		}
		_, hi := it.e.layout.clip(i, it.lo, it.hi)
		got := make(chan page, 1)
		it.ahead[i] = got
		go func() {
			a, err := it.read(&Query{Part: int(it.e.layout.starts[i]), Hi: hi, Limit: firstPage, Level: Fresh})
			got <- page{a, err}
		}()
	}
}

// enter begins a partition: a lock is met before the first page is read.
func (it *iterator) enter(part int) error {
	if it.v != nil {
		return it.v.enterRange(part, *it.rest)
	}
	if it.rest.Lo == nil && !it.reverse {
		return nil // the first page shows the state
	}
	a, err := it.read(&Query{Part: part, Keys: [][]byte{nil}, Level: Fresh})
	if err == nil {
		it.gaps, err = decodeGaps(a.Note)
	}
	return err
}

// enterRange has the view see a partition before a range of it is read.
func (v *view) enterRange(part int, s Span) error {
	var mu sync.Mutex
	if v.seen[part] == nil {
		if _, _, err := v.look(&mu, &Query{Part: part, Keys: [][]byte{nil}}); err != nil {
			return err
		}
	}
	read := &v.seen[part].read
	if len(read.spans) < maxSpans {
		read.spans = append(read.spans, Span{bytes.Clone(s.Lo), bytes.Clone(s.Hi)})
	} else { // all of the partition
		read.spans = append(read.spans[:0], Span{})
	}
	return nil
}

// maxSpans is how many ranges a view notes for one partition.
const maxSpans = 64

func (it *iterator) read(q *Query) (Answer, error) {
	if it.v != nil {
		var mu sync.Mutex
		a, _, err := it.v.look(&mu, q)
		return a, err
	}
	for {
		a, err := it.e.store.Read(it.ctx, q)
		if err != nil {
			return a, it.e.note(err)
		}
		again, err := it.e.pass(it.ctx, q.Part, &a)
		if err != nil || !again {
			return a, it.e.note(err)
		}
	}
}

// readWithState reads rows, and the state of their partition also if there are none.
func (e *Engine) readWithState(ctx context.Context, q *Query) (Answer, error) {
	a, err := e.store.Read(ctx, q)
	if err != nil || a.Known {
		return a, err
	}
	b, err := e.store.Read(ctx, &Query{Part: q.Part, Keys: [][]byte{nil}, Level: q.Level})
	a.State, a.Known = b.State, true
	return a, err
}

// Key and Value implement engine.Iterator.
func (it *iterator) Key() []byte   { return it.key }
func (it *iterator) Value() []byte { return it.value }

// Close implements engine.Iterator.
func (it *iterator) Close() error {
	for _, fetched := range it.ahead { // nothing is under way behind the end
		<-fetched
	}
	it.ahead, it.rows, it.next = nil, nil, it.end
	return it.err
}

// Edge implements engine.Reader: one statement for one row.
func (v *view) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	if err := v.ready(); err != nil {
		return b, 0, false, err
	}
	it := v.e.iterate(v.ctx, lo, hi, reverse)
	if it.end-it.next == 1 {
		it.v, it.limit = v, 1
	}
	it.begin()
	if found = it.Next(); found {
		key = len(it.Key())
		b = append(append(b, it.Key()...), it.Value()...)
	}
	return b, key, found, it.Close()
}

// present is an engine.Snapshot that shows each row as it is when it is read.
type present struct {
	engine.Uncounted
	e *Engine
}

func (p *present) view() *view { return p.e.view(engine.ViewOptions{}) }

// Get implements engine.Reader.
func (p *present) Get(key, dst []byte) ([]byte, bool, error) {
	v := p.view()
	defer v.Close()
	return v.Get(key, dst)
}

// GetMany implements engine.Reader.
func (p *present) GetMany(keys [][]byte, visit func(int, []byte, bool) error) error {
	v := p.view()
	defer v.Close()
	return v.GetMany(keys, visit)
}

// Iter implements engine.Reader.
func (p *present) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return p.e.iterate(p.e.ctx, lo, hi, reverse).begin()
}

// Edge implements engine.Reader.
func (p *present) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	return engine.EdgeByIter(p, lo, hi, reverse, b)
}

// Close implements engine.Snapshot.
func (p *present) Close() error { return nil }
