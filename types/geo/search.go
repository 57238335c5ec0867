package geo

import (
	"container/heap"
	"math"
	"slices"
)

// Source visits the members of a sorted set with min <= score < max, in order, until
// visit returns false. Bytes are valid during the call only. Source returns false if
// visit did, or if the source itself wants the search to end.
type Source func(min, max float64, visit func(member []byte, score float64) bool) bool

// Order is the order of what a search finds.
type Order int

const (
	Unordered Order = iota // by boxes, and inside a box by score
	Nearest                // the nearest first
	Farthest
)

// Search is the query of a search: a shape, an order and a limit.
type Search struct {
	Shape
	Order Order
	// Count is the number of places wanted, the first in the order; 0 for all.
	Count int64
	// Any: any Count places suffice, sorted among themselves.
	Any bool
	// Take, if set, accounts for the memory of the places. It returns false to end the
	// search.
	Take func(bytes int64) bool
}

// Place is a member that was found. Distance is in the units of the search.
type Place struct {
	Member   []byte
	Score    float64
	Lon, Lat float64
	Distance float64

	metres float64
	number int // in the order of finding
}

// Find returns the places in the shape. Places at the same distance come in the
// order in which they were found. Memory is bounded by the result: places beyond
// Count are dropped during the search.
func (s *Search) Find(from Source) []Place {
	r := results{order: s.Order, keep: math.MaxInt64}
	if s.Count > 0 && r.order == Unordered && !s.Any {
		r.order = Nearest
	}
	if s.Count > 0 && !s.Any {
		r.keep = s.Count
	}
	m := s.measure()
	wanted := func() bool { return !s.Any || int64(len(r.places)) < s.Count }
	for _, b := range s.boxes() {
		min, max := b.scores()
		more := from(min, max, func(member []byte, score float64) bool {
			lon, lat := Decode(score)
			if d, ok := m.within(lon, lat); ok {
				if s.Take != nil && int64(len(r.places)) < r.keep && !s.Take(placeBytes+int64(len(member))) {
					return false
				}
				r.add(Place{Member: member, Score: score, Lon: lon, Lat: lat, metres: d})
			}
			return wanted()
		})
		if !more || !wanted() {
			break
		}
	}
	if r.order != Unordered {
		slices.SortFunc(r.places, func(a, b Place) int {
			if r.before(&a, &b) {
				return -1
			}
			return 1 // no two are equal
		})
	}
	for i := range r.places {
		r.places[i].Distance = r.places[i].metres / float64(s.Unit)
	}
	return r.places
}

// results are the places found, at most keep of them. Once there are so many, they
// are a heap with the last one in order on top, which a better one replaces.
type results struct {
	order  Order
	keep   int64
	places []Place
	found  int
	chunk  []byte // room for members
}

func (r *results) add(p Place) {
	r.found++
	p.number = r.found
	if int64(len(r.places)) < r.keep {
		p.Member = r.own(p.Member)
		r.places = append(r.places, p)
		if int64(len(r.places)) == r.keep {
			heap.Init(r)
		}
		return
	}
	if r.before(&p, &r.places[0]) {
		p.Member = append(r.places[0].Member[:0], p.Member...)
		r.places[0] = p
		heap.Fix(r, 0)
	}
}

// placeBytes is about the memory of a place besides its member.
const placeBytes = 128

// own copies a member into one of a few large buffers.
func (r *results) own(member []byte) []byte {
	if len(r.chunk)+len(member) > cap(r.chunk) {
		r.chunk = make([]byte, 0, max(len(member), min(chunkSize, 2*cap(r.chunk)), 256))
	}
	at := len(r.chunk)
	r.chunk = append(r.chunk, member...)
	return r.chunk[at:len(r.chunk):len(r.chunk)]
}

const chunkSize = 64 << 10

// before reports whether a comes before b in the reply.
func (r *results) before(a, b *Place) bool {
	if a.metres != b.metres {
		return (a.metres < b.metres) == (r.order == Nearest)
	}
	return a.number < b.number
}

func (r *results) Len() int           { return len(r.places) }
func (r *results) Less(i, j int) bool { return r.before(&r.places[j], &r.places[i]) }
func (r *results) Swap(i, j int)      { r.places[i], r.places[j] = r.places[j], r.places[i] }
func (r *results) Push(any)           {} // unused: a heap that never grows
func (r *results) Pop() any           { return nil }
