package tikv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/internal/testtikv"
)

// Two processes add to rows while the store is killed, cut off and made mute: each
// acknowledged addition is there, each refused one is not, and of the unknown ones
// each is either.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(enginetest.Seed(t), 3))
	c := testtikv.Start(t, testtikv.Linked(), testtikv.RegionSize(64<<10))
	prefix := testtikv.Prefix(t)
	var engines []*Engine
	for range 2 {
		e := mustOpen(t, Options{PD: []string{c.PD()}, Prefix: prefix, Timeout: faultTimeout})
		t.Cleanup(func() { e.Close() })
		engines = append(engines, e)
	}
	var fill engine.Batch // several regions
	for i := range 400 {
		fill.Put(fmt.Appendf(nil, "fill%d%05d", i%4, i), make([]byte, 800))
	}
	must(t, engines[0], &fill)

	const keys = 4
	key := func(i int) []byte { return fmt.Appendf(nil, "fill%dsum", i) }
	var done, unknown [keys]atomic.Int64
	var conflicts, failures atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			e := engines[w%2]
			for i := w; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				a, b := i%keys, (i+1+w%2)%keys // two rows, so mostly of two regions
				err := with(e, func(v engine.SharedView) error {
					v.Prefetch([][]byte{key(a), key(b)})
					var batch engine.Batch
					for _, k := range []int{a, b} {
						old, _, err := v.Get(key(k), nil)
						if err != nil {
							return err
						}
						n := uint64(0)
						if len(old) == 8 {
							n = binary.BigEndian.Uint64(old)
						}
						batch.Put(key(k), binary.BigEndian.AppendUint64(nil, n+1))
					}
					_, err := v.Commit(&batch)
					return err
				})
				switch {
				case err == nil:
					done[a].Add(1)
					done[b].Add(1)
				case errors.Is(err, engine.ErrUnknownOutcome):
					unknown[a].Add(1)
					unknown[b].Add(1)
					failures.Add(1)
				case engine.Transient(err):
					failures.Add(1)
				case errors.Is(err, engine.ErrConflict):
					conflicts.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	progress := func() {
		t.Helper()
		all := func() int64 { return done[0].Load() + done[1].Load() + done[2].Load() + done[3].Load() }
		before := all()
		await("additions", func() bool { return all() >= before+40 })
	}
	progress()
	for round := range 6 {
		before, some := failures.Load(), rng.Int64N(8)
		harm, mend := c.KillStore, c.StartStore
		switch round % 3 {
		case 1:
			harm, mend = c.StoreLink().Mute, c.StoreLink().Mend
		case 2:
			harm, mend = c.StoreLink().Cut, c.StoreLink().Mend
		}
		harm()
		await("failures", func() bool { return failures.Load() >= before+some })
		mend()
		progress()
	}
	close(stop)
	wg.Wait()
	recovers(t, engines[0])
	for i := range keys {
		var got int64
		if err := with(engines[1], func(v engine.SharedView) error {
			value, _, err := v.Get(key(i), nil)
			if err == nil {
				got = int64(binary.BigEndian.Uint64(value))
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		low, high := done[i].Load(), done[i].Load()+unknown[i].Load()
		if got < low || got > high {
			t.Errorf("row %d is %d; %d were acknowledged, and %d unknown", i, got, low, unknown[i].Load())
		}
		t.Logf("row %d: %d, of %d acknowledged and %d unknown", i, got, low, unknown[i].Load())
	}
	t.Logf("%d conflicts, %d failures", conflicts.Load(), failures.Load())
}
