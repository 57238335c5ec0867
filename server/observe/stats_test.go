package observe

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/wire"
)

// Buckets are in order, without gaps, and a duration is in the bucket whose top
// is the first that is not below it.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for i := range buckets {
		top := bucketTop(i)
		if got := bucketTop(bucketOf(top)); got != top {
			t.Fatalf("the top %d of bucket %d is in the bucket with the top %d", top, i, got)
		}
		if i > 0 && top < bucketTop(i-1) {
			t.Fatalf("bucket %d ends at %d, before bucket %d", i, top, i-1)
		}
		if i < buckets-1 && top >= octaveParts && bucketOf(top+1) != i+1 {
			t.Fatalf("%d is in bucket %d, not %d", top+1, bucketOf(top+1), i+1)
		}
	}
	for d := time.Duration(1); d < time.Minute; d = d*5/4 + 1 {
		if top := bucketTop(bucketOf(d)); top < d || float64(top) > 1.125*float64(d)+1 {
			t.Errorf("%d is in a bucket with the top %d", d, top)
		}
	}
	for _, d := range []time.Duration{-1, 0} {
		if bucketOf(d) != 0 {
			t.Errorf("%d is in bucket %d", d, bucketOf(d))
		}
	}
	if bucketOf(1<<62) != buckets-1 {
		t.Errorf("a long time is in bucket %d", bucketOf(1<<62))
	}
}

// newObserver makes an observer of the commands on data, with counters of one loop.
func newObserver() (o *Observer, get *command.Command, loop *LoopStats) {
	o = new(Observer)
	t := command.NewTable(command.All()...)
	o.Init(t)
	o.Stats.Timed.Store(true)
	return o, t.Lookup([]byte("get")), o.Stats.NewLoop()
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	o, get, loop := newObserver()
	for i := range 1000 {
		loop.Record(get, time.Duration(i+1)*time.Microsecond, false)
	}
	s := o.Stats.Command(get)
	for p, want := range map[float64]time.Duration{0: 1, 50: 500, 99: 990, 99.9: 999, 100: 1000} {
		want *= time.Microsecond
		if got := s.Percentile(p); got < want || float64(got) > 1.13*float64(want) {
			t.Errorf("p%v is %v, want about %v", p, got, want)
		}
	}
	if n := s.UpTo(19); n != 524 { // 524288 ns
		t.Errorf("%d took less than 2^19 ns, want 524", n)
	}
}

// What runs for every command costs no allocation.
func TestRecordAllocatesNothing(t *testing.T) {
	_, get, loop := newObserver()
	loop.Record(get, 1, false) // makes the histogram
	if n := testing.AllocsPerRun(100, func() { loop.Record(get, 1500, false) }); n != 0 {
		t.Errorf("record allocates %v times", n)
	}
}

func TestTrackingOff(t *testing.T) {
	t.Parallel()
	o, get, loop := newObserver()
	o.Stats.Timed.Store(false)
	loop.Record(get, 1500, true)
	if s := o.Stats.Command(get); s.Timed != 0 || s.Calls != 1 || s.Failed != 1 || s.Nanos != 1500 {
		t.Errorf("got %d timed, %d calls, %d failed, %d ns", s.Timed, s.Calls, s.Failed, s.Nanos)
	}
}

// Connections without a loop share counters, so that they do not leak.
func TestSharedLoops(t *testing.T) {
	t.Parallel()
	o, _, _ := newObserver()
	before := len(o.Stats.snapshot())
	for range 100 {
		o.Stats.SharedLoop()
	}
	if n := len(o.Stats.snapshot()) - before; n != sharedLoops {
		t.Errorf("100 connections made %d sets of counters, want %d", n, sharedLoops)
	}
}

func TestErrorStats(t *testing.T) {
	t.Parallel()
	var e Errors
	w := wire.Writer{Proto: 2}
	w.BulkString("-NOT an error\r\n-NEITHER this")
	w.Error("CODE text with - and -CODES in it")
	e.CountReply(w.Buf)
	e.CountReply([]byte("-WRONGTYPE first reply\r\n"))
	e.CountReply([]byte("-NOSPACE\r\n"))
	e.CountReply([]byte("+OK\r\n"))
	e.Count(command.ErrSyntax)
	e.Count(errors.New("anything"))
	total, codes := e.Counts()
	want := map[string]int64{"CODE": 1, "WRONGTYPE": 1, "ERR": 3}
	if total != 5 || len(codes) != len(want) {
		t.Errorf("got %d errors, %v", total, codes)
	}
	for c, n := range want {
		if codes[c] != n {
			t.Errorf("%s: %d, want %d", c, codes[c], n)
		}
	}
	for i := range 2 * maxErrorCodes {
		e.Add(fmt.Sprintf("E%d text", i))
	}
	if total, codes := e.Counts(); len(codes) != maxErrorCodes || total != 5+2*maxErrorCodes {
		t.Errorf("got %d codes, %d in all", len(codes), total)
	}
	e.reset()
	if total, codes := e.Counts(); total != 0 || len(codes) != 0 {
		t.Errorf("after the reset: %d, %v", total, codes)
	}
}

func BenchmarkRecord(b *testing.B) {
	_, get, loop := newObserver()
	for i := 0; b.Loop(); i++ {
		loop.Record(get, time.Duration(i&4095), false)
	}
}
