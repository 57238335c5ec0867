package journal

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redoubt/internal/race"
)

// TestFaultSweep lets each operation on the file system fail in turn, in each
// of several ways, once or for good. Whatever comes of it: records that were
// taken are there afterwards, records that were refused are not.
func TestFaultSweep(t *testing.T) {
	t.Parallel()
	top := newRand(t)
	var points atomic.Int64
	t.Run("faults", func(t *testing.T) {
		for _, f := range []struct {
			name  string
			err   error
			stays bool
		}{
			{"EIO", syscall.EIO, false}, {"EIO for good", syscall.EIO, true},
			{"ENOSPC", syscall.ENOSPC, false}, {"EDQUOT", syscall.EDQUOT, false}, {"ENOSPC for good", syscall.ENOSPC, true},
			{"short, EIO", short{-1, syscall.EIO}, false}, {"short, ENOSPC", short{-1, syscall.ENOSPC}, false}, {"short, ENOSPC for good", short{-1, syscall.ENOSPC}, true},
		} {
			seed := top.Uint64()
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				stride := 1
				if race.Enabled || testing.Short() {
					stride = 9
				}
				for n := 1 + int(seed%uint64(stride)); faultOnce(t, seed, n, f.err, f.stays); n += stride {
					points.Add(1)
				}
			})
		}
	})
	t.Logf("%d points", points.Load())
}

// faultOnce runs the script of a seed with a fault at the nth operation, and
// reports whether it came that far.
func faultOnce(t *testing.T, seed uint64, n int, fault error, stays bool) bool {
	_, fs := newFS(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	l := newLife(t, fs, rng)
	var count atomic.Int64
	fs.set(func(o op) error {
		at := int(count.Add(1))
		if at < n || at > n && !stays {
			return nil
		}
		var s short
		if errors.As(fault, &s) {
			if o.kind != "write" {
				return nil
			}
			return short{(seed32(seed, at) + n) % 60, s.err}
		}
		return fault
	})
	err := l.open(0)
	if err != nil {
		if errors.Is(err, ErrCorrupt) || count.Load() < int64(n) {
			t.Fatalf("opening with a fault at %d: %v", n, err)
		}
		l.fs.set(nil)
		ok(t, l.open(0))
	}
	may := 0 // records more than those taken that may be there
	for range 60 {
		taken := len(l.history)
		last, durable := l.j.Last(), l.j.Durable()
		failed := l.j.Err()
		err := l.step(rng)
		if l.j == nil {
			t.Fatal("no journal")
		}
		if failed != nil && (l.j.Durable() > durable || l.j.Last() > last) {
			t.Fatalf("after %v durable went from %d to %d", failed, durable, l.j.Durable())
		}
		if err == nil {
			continue
		}
		switch {
		case l.j.closed: // Close, or the Open after it
		case errors.Is(err, ErrFull):
			if l.j.Err() != nil && !errors.Is(l.j.Err(), ErrFailed) {
				t.Fatalf("full, and then %v", l.j.Err())
			}
		case errors.Is(err, ErrFailed):
			if !errors.Is(l.j.Err(), ErrFailed) || !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
				t.Fatalf("%v, but Err is %v", err, l.j.Err())
			}
		case !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT):
			t.Fatalf("fault at %d: %v", n, err)
		}
		if len(l.history) > taken && int(l.j.Last()) == taken {
			if strings.Contains(err.Error(), "may appear") {
				may = 1
			} else {
				l.history = l.history[:taken] // refused
			}
		}
		if l.j.closed {
			break
		}
		if l.j.Err() != nil {
			if _, err := l.j.Append(0, record("x")); !errors.Is(err, ErrFailed) {
				t.Fatalf("append to a failed journal: %v", err)
			}
			break
		}
	}
	_ = l.j.Close()
	reached := count.Load() >= int64(n)
	l.fs.set(nil)
	ok(t, l.open(uint64(len(l.history)-may)))
	mustAppend(t, l.j, "works again")
	mustClose(t, l.j)
	if left := fs.opened.Load(); left != 0 {
		t.Fatalf("fault at %d: %d files are still open", n, left)
	}
	return reached
}

func seed32(seed uint64, i int) int { return int((seed*2654435761 + uint64(i)*40503) >> 40) }

// After a failed fsync nothing is durable any more, even if the next would work.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	for _, p := range policies {
		_, fs := newFS(t)
		told := make(chan struct{}, 10)
		tick := make(chan time.Time)
		j, _ := mustOpen(t, Options{FS: fs, Policy: p, Tick: tick, SegmentBytes: 1000, OnDurable: func() { told <- struct{}{} }}, 0)
		mustAppend(t, j, "safe")
		ok(t, j.Sync(1))
		eventually(t, "a spare", func() bool {
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.spare != nil && (p != Always || j.active.filled && j.spare.filled)
		})
		for len(told) > 0 {
			<-told
		}
		var fail atomic.Bool
		fail.Store(true)
		fs.set(func(o op) error {
			if o.kind == "sync" && fail.Swap(false) {
				return syscall.EIO
			}
			return nil
		})
		mustAppend(t, j, "lost")
		if err := j.Sync(2); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), dir) {
			t.Fatalf("the error is %v", err)
		}
		<-told
		durable := j.Durable()
		if p == Always && durable != 1 || j.Synced() != 1 {
			t.Fatalf("durable %d, synced %d", durable, j.Synced())
		}
		if _, err := j.Append(0, record("no")); !errors.Is(err, ErrFailed) {
			t.Fatalf("append: %v", err)
		}
		if err := j.Sync(2); !errors.Is(err, ErrFailed) {
			t.Fatalf("a second Sync: %v", err)
		}
		ok(t, j.Sync(1))
		if j.SetPolicy(EverySec) != nil || j.Durable() != durable || j.Rotate() == nil {
			t.Fatalf("after the failure durable is %d", j.Durable())
		}
		if _, err := j.LinkTo("/data/copy", 0); !errors.Is(err, ErrFailed) {
			t.Fatalf("LinkTo: %v", err)
		}
		if err := j.Close(); !errors.Is(err, ErrFailed) || j.Synced() != 1 {
			t.Fatalf("Close: %v, synced %d", err, j.Synced())
		}
	}
}

// A full disk is a state that passes.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs, SegmentBytes: 300}, 0)
	var want []string
	add := func(n int) {
		t.Helper()
		for range n {
			want = append(want, payloadOf(1, uint64(len(want)), 90))
			mustAppend(t, j, want[len(want)-1])
		}
	}
	add(5)
	full := func(o op) error {
		switch o.kind {
		case "write":
			return short{len(want) % 50, syscall.ENOSPC}
		case "create", "allocate":
			return syscall.ENOSPC
		}
		return nil
	}
	for range 10 {
		fs.set(full)
		for range 4 {
			if _, err := j.Append(0, record(payloadOf(2, 2, 90))); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), ".jnl") {
				t.Fatalf("on a full disk: %v", err)
			}
			ok(t, j.Err())
		}
		fs.set(nil)
		add(3)
	}
	ok(t, j.Sync(j.Last()))
	mustClose(t, j)
	j, got := mustOpen(t, Options{FS: fs}, 0)
	wantRecords(t, got, 1, want...)
	mustClose(t, j)
}

// A file that cannot be read is not a corrupt one.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs, SegmentBytes: 300}, 0)
	for range 10 {
		mustAppend(t, j, payloadOf(1, 1, 90))
	}
	mustClose(t, j)
	for n := 1; ; n++ {
		count := 0
		fs.set(func(o op) error {
			if o.kind == "read" || o.kind == "open" {
				if count++; count == n {
					return syscall.EIO
				}
			}
			return nil
		})
		j, _, err := open(Options{FS: fs}, 0)
		if err == nil {
			mustClose(t, j)
			if n < 5 {
				t.Fatalf("only %d reads", n)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), ".jnl") && !strings.Contains(err.Error(), "journal.end") {
			t.Fatalf("read %d: %v", n, err)
		}
	}
}
