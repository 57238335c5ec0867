//go:build linux

package main

import (
	"math/bits"
	"time"
)

// histogram counts times in buckets of about 3 %: 32 to every power of two, in
// nanoseconds, up to 18 minutes.
type histogram struct {
	buckets [1<<5*35 + 1<<6]uint32
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

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(uint64(max(d, 0)))]++
	h.count++
	h.most = max(h.most, d)
}

// at is the time within which the part q of all were done.
func (h *histogram) at(q float64) time.Duration {
	want := int(q * float64(h.count))
	for i, n := range h.buckets {
		if want -= int(n); want < 0 {
			return min(bucketTop(i), h.most)
		}
	}
	return h.most
}

// ms is that in milliseconds.
func (h *histogram) ms(q float64) float64 { return h.at(q).Seconds() * 1e3 }
