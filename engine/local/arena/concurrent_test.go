package arena

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// Many goroutines allocate, hand rows to each other, move and free them, while
// one trims and marks pages, and one reads wherever it likes.
func TestConcurrent(t *testing.T) {
	both(t, func(t *testing.T, a *Arena) {
		const workers = 8
		steps := 30_000
		if testing.Short() {
			steps = 5_000
		}
		seeds := random(t)
		var used, last atomic.Int64
		hand := make(chan live, 64)
		done := make(chan struct{})
		var wg, background sync.WaitGroup
		for range workers {
			rnd := rand.New(rand.NewPCG(seeds.Uint64(), 2))
			wg.Go(func() {
				var mine []live
				take := func(n int) live {
					r, err := a.Alloc(n)
					if err != nil {
						t.Error(err)
						return live{}
					}
					l := live{r, n, rnd.Uint64()}
					l.write(a.Bytes(r, n))
					used.Add(int64(Round(n)))
					last.Store(int64(r))
					return l
				}
				drop := func(l live) {
					if !l.intact(a.Bytes(l.ref, l.n)) {
						t.Errorf("%x of %d bytes was overwritten", l.ref, l.n)
					}
					a.Free(l.ref, l.n)
					used.Add(-int64(Round(l.n)))
				}
				for range steps {
					switch n := rnd.IntN(100); {
					case n < 45 && len(mine) < 2000:
						mine = append(mine, take(rnd.IntN(300)))
					case n < 48:
						drop(take(size(rnd) / 8))
					case n < 52:
						select {
						case l := <-hand:
							mine = append(mine, l)
						default:
						}
					case len(mine) > 0:
						i, end := rnd.IntN(len(mine)), len(mine)-1
						l := mine[i]
						if a.InSparse(l.ref) {
							mine[i] = take(l.n)
							drop(l)
							continue
						}
						mine[i], mine = mine[end], mine[:end]
						select {
						case hand <- l:
						default:
							drop(l)
						}
					}
				}
				for _, l := range mine[len(mine)/2:] {
					drop(l)
				}
			})
		}
		background.Go(func() {
			rnd := rand.New(rand.NewPCG(seeds.Uint64(), 3))
			for {
				select {
				case <-done:
					return
				default:
				}
				a.Sparse(rnd.IntN(1 << 20))
				a.Trim()
				a.Split(1 << 20)
				if a.Used() < 0 || a.Mapped() < 0 || a.Fragmented() < 0 {
					t.Error("negative counts")
				}
			}
		})
		background.Go(func() {
			sum := byte(0)
			for {
				select {
				case <-done:
					t.Logf("read %d", sum)
					return
				default:
				}
				r := Ref(last.Load())
				sum += a.Touch(r) + a.Touch(r/2) + a.Touch(r+1<<20)
			}
		})
		wg.Wait()
		close(done)
		background.Wait()
		for len(hand) > 0 {
			l := <-hand
			a.Free(l.ref, l.n)
			used.Add(-int64(Round(l.n)))
		}
		if a.Used() != used.Load() {
			t.Errorf("used %d, want %d", a.Used(), used.Load())
		}
	})
}
