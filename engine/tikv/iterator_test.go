package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// fakePager has rows with single-number keys in regions of some size, and notes what it
// is asked for.
type fakePager struct {
	rows   int
	region int // rows of a region
	size   int // of a row
	fail   int // the request that fails, counted from 1
	block  chan struct{}

	mu     sync.Mutex
	limits []int
	ended  int // requests that are over
}

var errPage = errors.New("no page")

func fakeKey(i int) []byte { return fmt.Appendf(nil, "%06d", i) }

func (f *fakePager) page(ctx context.Context, lo, hi []byte, reverse bool, limit int) (page, error) {
	f.mu.Lock()
	f.limits = append(f.limits, limit)
	n := len(f.limits)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.ended++
		f.mu.Unlock()
	}()
	if f.block != nil && n > 2 {
		select {
		case <-f.block:
		case <-ctx.Done():
			return page{}, ctx.Err()
		}
	}
	if n == f.fail {
		return page{}, errPage
	}
	p := page{lo: lo, hi: hi}
	take := func(i int) bool {
		if k := fakeKey(i); bytes.Compare(k, lo) >= 0 && bytes.Compare(k, hi) < 0 {
			p.rows = append(p.rows, row{key: k})
			p.size += f.size
		}
		return len(p.rows) < limit
	}
	if !reverse {
		first := 0
		for first < f.rows && bytes.Compare(fakeKey(first), lo) < 0 {
			first++
		}
		end := (first/f.region + 1) * f.region
		for i := first; i < min(end, f.rows) && take(i); i++ {
		}
		if p.lo = fakeKey(end); len(p.rows) == limit {
			p.lo = append(bytes.Clone(p.rows[limit-1].key), 0)
		}
		if end >= f.rows && len(p.rows) < limit {
			p.lo = hi
		}
		return p, nil
	}
	last := f.rows - 1
	for last >= 0 && bytes.Compare(fakeKey(last), hi) >= 0 {
		last--
	}
	begin := last / f.region * f.region
	for i := last; i >= max(begin, 0) && take(i); i-- {
	}
	if p.hi = fakeKey(begin); len(p.rows) == limit {
		p.hi = p.rows[limit-1].key
	}
	if begin <= 0 && len(p.rows) < limit {
		p.hi = lo
	}
	return p, nil
}

func TestIteratorPages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows, region, size, read int
		limits                   []int
	}{
		{0, 1000, 10, -1, []int{16}},
		{5, 1000, 10, 1, []int{16}},
		{100, 1000, 10, 16, []int{16}}, // no request for what nobody wants
		{1000, 5000, 10, 100, []int{16, 128}},
		{1000, 5000, 10, 112, []int{16, 128, 512}}, // the walk is under way: one is fetched ahead
		{100, 1000, 10, -1, []int{16, 128}},        // 16 + 84
		{2000, 5000, 10, -1, []int{16, 128, 512, 512, 512, 512}},
		{40, 10, 10, -1, []int{16, 128, 512, 512}}, // four regions
		{199, 1000, 64 << 10, -1, []int{16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16}},
	} {
		for _, reverse := range []bool{false, true} {
			f := &fakePager{rows: c.rows, region: c.region, size: c.size}
			it := iterate(t.Context(), f, fakeKey(0), fakeKey(999999), reverse)
			var got []string
			for c.read != len(got) && it.Next() {
				got = append(got, string(it.Key()))
			}
			if err := it.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			want := c.rows
			if c.read >= 0 {
				want = c.read
			}
			if len(got) != want || len(got) > 0 && !slices.IsSortedFunc(got, func(a, b string) int {
				if reverse {
					a, b = b, a
				}
				return bytes.Compare([]byte(a), []byte(b))
			}) {
				t.Errorf("%+v, reverse %v: %d rows, %q", c, reverse, len(got), got)
			}
			if len(slices.Compact(got)) != want {
				t.Errorf("%+v, reverse %v: a row came twice", c, reverse)
			}
			if !slices.Equal(f.limits, c.limits) {
				t.Errorf("%+v, reverse %v: pages of %v", c, reverse, f.limits)
			}
			if f.ended != len(f.limits) {
				t.Errorf("%+v: %d of %d requests are over", c, f.ended, len(f.limits))
			}
		}
	}
}

// Closing in the middle ends what is under way, and leaves no goroutine behind.
func TestIteratorClose(t *testing.T) {
	t.Parallel()
	f := &fakePager{rows: 1000, region: 1000, block: make(chan struct{})}
	it := iterate(t.Context(), f, fakeKey(0), fakeKey(999999), false)
	for range 120 {
		if !it.Next() {
			t.Fatal("no row")
		}
	}
	done := make(chan error)
	go func() { done <- it.Close() }()
	select {
	case err := <-done:
		if err != nil || f.ended != 3 {
			t.Errorf("Close: %v, %d requests are over", err, f.ended)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for a page")
	}
	if it := (&iterator{err: errPage}); it.Next() || it.Close() != errPage {
		t.Error("an iterator that could not begin")
	}
}

func TestIteratorError(t *testing.T) {
	t.Parallel()
	for fail, want := range map[int]int{1: 0, 2: 16, 3: 144, 4: 656} {
		f := &fakePager{rows: 1000, region: 1000, fail: fail}
		it := iterate(t.Context(), f, fakeKey(0), fakeKey(999999), false)
		n := 0
		for it.Next() {
			n++
		}
		if it.Next() || n != want || it.Close() != errPage || it.Key() != nil {
			t.Errorf("page %d fails: %d rows, want %d", fail, n, want)
		}
	}
}
