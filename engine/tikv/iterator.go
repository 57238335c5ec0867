package tikv

import (
	"bytes"
	"context"
)

// pager fetches the pages of an iterator.
type pager interface {
	page(ctx context.Context, lo, hi []byte, reverse bool, limit int) (page, error)
}

// iterator implements engine.Iterator.
//
// The first page is small, since most callers want a row or a few. Later pages are
// larger. From the second page on, the next page is fetched while the caller works on
// the last quarter of the present one; not before, since many walks end after a hundred
// rows.
type iterator struct {
	ctx     context.Context
	cancel  context.CancelFunc
	from    pager
	reverse bool
	now     page
	next    int // index of the next row in now.rows
	limit   int
	pages   int
	ahead   chan fetched // not nil while a page is being fetched ahead
	err     error
	cur     row
}

type fetched struct {
	p   page
	err error
}

const (
	firstPage = 16
	growth    = 8
	maxPage   = 512
	pageBytes = 1 << 20 // about how many bytes a page may hold
)

func newIterator(ctx context.Context, s *scanner, lo, hi []byte, reverse bool) *iterator {
	from, to := s.within(lo, hi)
	return iterate(ctx, s, from, to, reverse)
}

func iterate(ctx context.Context, from pager, lo, hi []byte, reverse bool) *iterator {
	it := &iterator{from: from, reverse: reverse, limit: firstPage, now: page{lo: lo, hi: hi}}
	it.ctx, it.cancel = context.WithCancel(ctx)
	return it
}

// Next implements engine.Iterator.
func (it *iterator) Next() bool {
	for it.err == nil && it.next == len(it.now.rows) {
		if !it.nextPage() {
			it.cur = row{}
			return false
		}
	}
	if it.err != nil {
		it.cur = row{}
		return false
	}
	it.cur = it.now.rows[it.next]
	it.next++
	if it.pages > 1 && it.ahead == nil && it.next*4 >= len(it.now.rows)*3 && bytes.Compare(it.now.lo, it.now.hi) < 0 {
		it.fetch()
	}
	return true
}

// nextPage moves to the next page. It returns false at the end and on error.
func (it *iterator) nextPage() bool {
	var f fetched
	switch {
	case it.ahead != nil:
		f = <-it.ahead
		it.ahead = nil
	case bytes.Compare(it.now.lo, it.now.hi) >= 0:
		it.now.rows, it.next = nil, 0
		return false
	default:
		f.p, f.err = it.from.page(it.ctx, it.now.lo, it.now.hi, it.reverse, it.limit)
	}
	if f.err != nil {
		it.err = f.err
		return false
	}
	it.now, it.next = f.p, 0
	it.pages++
	it.limit = nextLimit(it.limit, &f.p)
	return true
}

// nextLimit is how many rows the page after p may have.
func nextLimit(limit int, p *page) int {
	limit = min(limit*growth, maxPage)
	if n := len(p.rows); n > 0 && p.size/n > 0 {
		limit = min(limit, max(pageBytes/(p.size/n), firstPage))
	}
	return limit
}

// fetch starts to fetch the next page in the background.
func (it *iterator) fetch() {
	it.ahead = make(chan fetched, 1)
	go func(out chan<- fetched, lo, hi []byte, limit int) {
		p, err := it.from.page(it.ctx, lo, hi, it.reverse, limit)
		out <- fetched{p, err}
	}(it.ahead, it.now.lo, it.now.hi, it.limit)
}

// Key and Value implement engine.Iterator.
func (it *iterator) Key() []byte   { return it.cur.key }
func (it *iterator) Value() []byte { return it.cur.value }

func (it *iterator) version() uint64 { return it.cur.version }

// Close implements engine.Iterator. It cancels a page that is being fetched and waits for
// its end, so that nothing is read later.
func (it *iterator) Close() error {
	if it.cancel != nil {
		it.cancel()
	}
	if it.ahead != nil {
		<-it.ahead
		it.ahead = nil
	}
	return it.err
}
