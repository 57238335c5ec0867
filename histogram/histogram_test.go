package histogram

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h Histogram
	for i := 1; i <= 1000; i++ {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Microsecond}, {0.5, 500 * time.Microsecond}, {0.99, 990 * time.Microsecond}, {1, time.Millisecond}} {
		if got := h.At(c.q); got < c.want || got > c.want+c.want/25 {
			t.Errorf("at %v: %s, not %s", c.q, got, c.want)
		}
	}
	// Every time is in a bucket whose top is not below it, nor far above.
	for ns := uint64(1); ns < longest; ns += ns/7 + 1 {
		if top := uint64(bucketTop(bucketOf(ns))); top < ns || top > ns+ns/32+1 {
			t.Fatalf("%d is in a bucket up to %d", ns, top)
		}
	}
	h.Add(time.Hour)
	if h.At(1) != time.Hour {
		t.Errorf("the longest is %s", h.At(1))
	}
}

// Merging two histograms is counting all their times in one, and a walk finds each time once.
func TestMerge(t *testing.T) {
	t.Parallel()
	var a, b, all Histogram
	for i := range 1000 {
		d := time.Duration(i*i) * time.Microsecond
		all.Add(d)
		if i%3 == 0 {
			a.Add(d)
		} else {
			b.Add(d)
		}
	}
	a.Merge(&b)
	if a != all {
		t.Error("the merged histogram differs")
	}
	n, last := 0, time.Duration(-1)
	a.Each(func(upTo time.Duration, count int) {
		if upTo <= last {
			t.Errorf("%s follows %s", upTo, last)
		}
		n, last = n+count, upTo
	})
	if n != 1000 || last != all.Most() || all.Count() != 1000 {
		t.Errorf("%d times up to %s, %d were counted", n, last, all.Count())
	}
}
