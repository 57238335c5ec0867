package resident

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"redoubt/engine"
)

// nameBytes is what the filters take, those that were given up included.
func nameBytes(s *Set) (n int64) {
	if f := s.filter.now.Load(); f != nil {
		n = f.bytes
	}
	for _, g := range s.filter.retired {
		n += int64(len(g.lines)) * lineSize
	}
	return n
}

// Every key that was added is found again, through all generations; few others are;
// and when there is no more room nothing is known, and the memory comes back.
func TestNames(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	s := newSet(t, true)
	const limit = 128 << 10
	s.LimitFilter(limit)
	number := s.BeginFilter()
	if s.filter.excludes(1) {
		t.Error("a filter is of use before it is ready")
	}
	if s.FilterReady(number+1) || !s.FilterReady(number) || !s.filter.excludes(1) {
		t.Error("an empty filter has heard of a key")
	}
	var added []uint64
	for n := roomFor(limit, keyBits); int64(len(added)) < n; {
		added = append(added, rng.Uint64())
		s.AddToFilter(added[len(added)-1:])
	}
	keys, bytes, ready := s.FilterFigures()
	if bytes > limit || bytes < limit/2 || ready != 1 || keys < int64(len(added))*97/100 || keys > int64(len(added)) {
		t.Errorf("%d keys of %d in %d bytes, ready %d", keys, len(added), bytes, ready)
	}
	if n := len(*s.filter.now.Load().gens.Load()); n < 4 {
		t.Errorf("there are %d generations", n)
	}
	for _, hash := range added {
		if s.filter.excludes(hash) {
			t.Fatalf("key %x was added and is not known", hash)
		}
	}
	wrong := 0
	for range 100_000 {
		if !s.filter.excludes(rng.Uint64()) {
			wrong++
		}
	}
	if wrong > 8000 { // each generation adds a percent, at the most
		t.Errorf("%d of 100000 others are taken for known", wrong)
	}
	for s.AddToFilter([]uint64{rng.Uint64()}) {
		added = append(added, 0)
	}
	if most := roomFor(limit, tightBits); int64(len(added)) > 3*most {
		t.Errorf("it took %d keys, the most should be about %d", len(added), most)
	}
	if s.filter.excludes(rng.Uint64()) {
		t.Error("a filter that was given up is used")
	}
	s.FreeFilters()
	if s.Bytes() != 0 {
		t.Errorf("%d bytes are left", s.Bytes())
	}
	check(t, s)
}

// When a filter should be made anew.
func TestNamesDue(t *testing.T) {
	t.Parallel()
	s := newSet(t, false)
	s.LimitFilter(leastGeneration)
	if !s.FilterDue() {
		t.Error("none is made at first")
	}
	fill := func() {
		s.FilterReady(s.BeginFilter())
		for s.AddToFilter([]uint64{rand.Uint64()}) {
		}
	}
	if fill(); s.FilterDue() {
		t.Error("it is made again though the keys are too many")
	}
	s.filter.gone.Add(s.filter.keys / 2)
	if !s.FilterDue() {
		t.Error("it is not made though many keys went")
	}
	if fill(); s.FilterDue() {
		t.Error("what went before counts again")
	}
	if s.LimitFilter(4 * leastGeneration); !s.FilterDue() {
		t.Error("it is not made though there is room now")
	}
	number := s.BeginFilter()
	if s.GiveUpFilter(number - 1); s.FilterDue() {
		t.Error("another one than that of the number was given up")
	}
	if s.GiveUpFilter(number); !s.FilterDue() || s.FilterReady(number) {
		t.Error("one that could not be made is not made again")
	}
	s.BeginFilter()
	s.AddToFilter([]uint64{1})
	if s.LimitFilter(0); s.filter.now.Load() != nil {
		t.Error("it takes more than it may")
	}
}

// ocean is a resident set above a store that is a map, and what should be there.
type ocean struct {
	t            *testing.T
	s            *Set
	rng          *rand.Rand
	store, model map[string]string
	seq          uint64
	answered     int // misses that the filter alone answered
}

func (o *ocean) key() []byte {
	return fmt.Appendf(nil, "%c%c\x02u%d:%d", 'a', 'a'+o.rng.IntN(3), o.rng.IntN(2), o.rng.IntN(400))
}

func (o *ocean) commit() {
	o.seq++
	apply(o.t, o.s, o.seq, func(b *engine.Batch) {
		if o.rng.IntN(40) == 0 { // a unit goes
			lo := o.key()[:5]
			hi := bytes.Clone(lo)
			hi[4]++
			b.DeleteRange(lo, hi)
			maps.DeleteFunc(o.model, func(k, _ string) bool { return strings.HasPrefix(k, string(lo)) })
		}
		for range 1 + o.rng.IntN(30) {
			k := o.key()
			if o.rng.IntN(3) == 0 {
				b.Delete(k)
				delete(o.model, string(k))
			} else {
				v := fmt.Sprint(o.seq)
				b.Put(k, []byte(v))
				o.model[string(k)] = v
			}
		}
	})
}

// round writes back, or fails to.
func (o *ocean) round() {
	fails := o.rng.IntN(4) == 0
	next := maps.Clone(o.store)
	var taken []int
	for no := range parts {
		if !o.s.Take(no) {
			continue
		}
		taken = append(taken, no)
		for _, d := range o.s.Deletions(no) {
			maps.DeleteFunc(next, func(k, _ string) bool { return k >= string(d.Lo) && k < string(d.Hi) })
		}
		stop := errors.New("enough")
		err := o.s.Copy(no, func(key, value []byte, deleted bool) error {
			if next[string(key)] = string(value); deleted {
				delete(next, string(key))
			}
			if fails && o.rng.IntN(20) == 0 {
				return stop
			}
			return nil
		})
		if err != nil {
			break
		}
		if o.rng.IntN(2) == 0 {
			o.commit() // while the round is under way
		}
	}
	if !fails {
		o.store = next
	}
	for _, no := range taken {
		if fails {
			o.s.Return(no)
		} else {
			o.s.Finish(no)
		}
	}
}

// filter begins another filter, and adds the rows of the store while rounds go on.
func (o *ocean) filter() {
	number := o.s.BeginFilter()
	keys := slices.Sorted(maps.Keys(o.store))
	for i, k := range keys {
		if _, still := o.store[k]; still && !o.s.AddToFilter([]uint64{engine.Hash([]byte(k))}) {
			return
		}
		if i%200 == 0 {
			o.round()
		}
	}
	o.s.FilterReady(number)
	o.s.FreeFilters()
}

// look compares what the set says of a row with what it is: a row that exists is
// never hidden.
func (o *ocean) look(key []byte) {
	hash := engine.Hash(key)
	value, state, token := o.s.Get(key, hash, nil)
	want, exists := o.model[string(key)]
	stored, inStore := o.store[string(key)]
	switch {
	case state == Found && (!exists || string(value) != want):
		o.t.Fatalf("row % x is %q, want %q (%v)", key, value, want, exists)
	case state == Absent && exists:
		o.t.Fatalf("row % x is hidden", key)
	case state == Unknown && (exists != inStore || stored != want):
		o.t.Fatalf("row % x: the store is asked, and has %q (%v), want %q (%v)", key, stored, inStore, want, exists)
	case state == Unknown && o.rng.IntN(2) == 0:
		if err := o.s.Load(key, hash, []byte(stored), inStore, token); err != nil {
			o.t.Fatal(err)
		}
	case state == Absent:
		p := o.s.parts[Part(key)].Load()
		if p == nil {
			break
		}
		p.mu.RLock()
		if o.s.find(p, hash, key) == 0 && o.s.absent(p, key, now) == Unknown {
			o.answered++
		}
		p.mu.RUnlock()
	}
}

// A row that exists is never hidden by the filter, whatever happens: rows come, go,
// are written back, evicted, read again, moved, rounds fail, filters fill up and are
// made anew.
func TestNamesHideNothing(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	answered := 0
	for _, limit := range []int64{0, leastGeneration, 64 << 10} {
		s := New(func([]byte) int { return 5 }, true)
		t.Cleanup(s.Close)
		o := &ocean{t: t, s: s, rng: rng, store: map[string]string{}, model: map[string]string{}}
		s.LimitFilter(limit)
		s.FilterReady(s.BeginFilter())
		for range 3000 {
			switch n := rng.IntN(20); {
			case n < 8:
				o.commit()
			case n < 10:
				o.round()
			case n < 13:
				s.Evict(int64(rng.IntN(20_000)))
			case n < 14 && rng.IntN(8) == 0:
				o.filter()
			case n < 15:
				s.Compact(1 << 20)
			case n < 16:
				s.Clear()
			default:
				for range 30 {
					o.look(o.key())
				}
			}
			for k := range o.model {
				o.look([]byte(k))
				break
			}
		}
		for k := range o.model {
			o.look([]byte(k))
		}
		check(t, s)
		answered += o.answered
	}
	if answered == 0 {
		t.Error("the filter has answered nothing")
	}
}
