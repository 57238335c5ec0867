// Package histogram counts times in buckets, as load generators need them: constant memory, a
// count in a few nanoseconds, and percentiles within 3 %.
package histogram

import (
	"math/bits"
	"time"
)

// Histogram counts times in buckets of about 3 %: 32 to every power of two, in
// nanoseconds, up to 18 minutes.
type Histogram struct {
	buckets [1<<5*35 + 1<<6]uint64
	count   int
	most    time.Duration
}

const longest = 1<<40 - 1

func bucketOf(ns uint64) int {
	ns = min(ns, longest)
	if ns < 1<<6 {
		return int(ns)
	}
	shift := bits.Len64(ns) - 6
	return shift<<5 + int(ns>>shift)
}

// bucketTop is the longest time of a bucket.
func bucketTop(i int) time.Duration {
	if i < 1<<6 {
		return time.Duration(i)
	}
	shift := i>>5 - 1
	return time.Duration((i-shift<<5+1)<<shift - 1)
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) {
	h.buckets[bucketOf(uint64(max(d, 0)))]++
	h.count++
	h.most = max(h.most, d)
}

// At returns the time within which the part q of all were done.
func (h *Histogram) At(q float64) time.Duration {
	want := int(q * float64(h.count))
	for i, n := range h.buckets {
		if want -= int(n); want < 0 {
			return min(bucketTop(i), h.most)
		}
	}
	return h.most
}

// Milliseconds is At in milliseconds.
func (h *Histogram) Milliseconds(q float64) float64 { return h.At(q).Seconds() * 1e3 }

// Count returns how many times were counted, Most the longest of them.
func (h *Histogram) Count() int { return h.count }

func (h *Histogram) Most() time.Duration { return h.most }

// Merge counts all times of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.count += o.count
	h.most = max(h.most, o.most)
}

// Each visits the times that were counted from the shortest on: how many were up to a
// time and longer than the one before.
func (h *Histogram) Each(visit func(upTo time.Duration, n int)) {
	for i, n := range h.buckets {
		if n > 0 {
			visit(min(bucketTop(i), h.most), int(n))
		}
	}
}
