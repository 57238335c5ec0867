package local

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

// members are the keys of the rows of a large collection, in an order that is not
// theirs.
func members(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		name := fmt.Appendf(nil, "field:%d", i)
		k := append([]byte{0x12, 0x34, 2}, "12345678"...)
		keys[i] = append(binary.BigEndian.AppendUint32(k, uint32(xxhash.Sum64(name)>>32)), name...)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rng.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// Rows that were cold are in memory after a prefetch, those that are not in the store
// as such, and each with its own value.
func TestPrefetchOfManyRows(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	defer e.Close()
	keys := members(3000)
	stored := keys[:2000] // of the others there is none
	var notes []note
	for i, k := range stored {
		notes = append(notes, put(string(k), fmt.Sprint(i)))
	}
	mustPut(t, e, notes...)
	mustRound(t, e)
	evictAll(e)
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if cold := v.Prefetch(append(keys, keys[:10]...)); cold != 0 {
		t.Errorf("%d rows are cold", cold)
	}
	before := e.coldReads.Load()
	for i, k := range keys {
		value, found, err := v.Get(k, nil)
		if err != nil || found != (i < len(stored)) || found && string(value) != fmt.Sprint(i) {
			t.Fatalf("row %d is %q, %v, %v", i, value, found, err)
		}
	}
	if n := e.coldReads.Load() - before; n > 0 {
		t.Errorf("%d rows were read from the store again", n)
	}
}

// Whoever writes rows while others fetch them is not undone.
func TestPrefetchBesideWriters(t *testing.T) {
	t.Parallel()
	e := opened(t, nil)
	defer e.Close()
	keys := members(400)
	stop := make(chan struct{})
	var helpers sync.WaitGroup
	for range 2 {
		helpers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if v, err := e.Begin(engine.ViewOptions{}); err == nil {
					v.Prefetch(keys)
					v.Close()
				}
				e.set().Evict(1 << 40)
			}
		})
	}
	for round := range 40 {
		var notes []note
		for _, k := range keys {
			notes = append(notes, put(string(k), fmt.Sprint(round)))
		}
		mustPut(t, e, notes...)
		mustRound(t, e)
		v, err := e.Begin(engine.ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if value, _, err := v.Get(k, nil); err != nil || string(value) != fmt.Sprint(round) {
				t.Fatalf("in round %d: %q, %v", round, value, err)
			}
		}
		v.Close()
	}
	close(stop)
	helpers.Wait()
}

// slowFS is a disk on which each read of a table takes its time.
type slowFS struct {
	vfs.FS
	delay *atomic.Int64
	reads *atomic.Int64
}

type slowFile struct {
	vfs.File
	fs slowFS
}

func (s slowFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return slowFile{f, s}, nil
}

func (f slowFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.reads.Add(1)
	time.Sleep(time.Duration(f.fs.delay.Load()))
	return f.File.ReadAt(p, off)
}

// BenchmarkPrefetch compares reading cold rows one by one, in the order of a command
// that names them, with fetching them before, in portions. Each read of the disk takes
// a tenth of a millisecond.
func BenchmarkPrefetch(b *testing.B) {
	fs := slowFS{vfs.Default, new(atomic.Int64), new(atomic.Int64)}
	e := opened(b, func(o *Options) {
		o.FS, o.Dir, o.Memory, o.Unit = fs, b.TempDir(), 64<<20, func(k []byte) int { return min(len(k), 11) }
	})
	defer e.Close()
	keys := members(100_000)
	rng, value := rand.New(rand.NewPCG(3, 4)), make([]byte, 160)
	for chunk := range slices.Chunk(keys, 100) {
		var notes []note
		for i, k := range chunk {
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			notes = append(notes, put(string(k), string(value)), put(fmt.Sprintf("\x20%ckey:%s", byte(i), k), string(value)))
		}
		mustPut(b, e, notes...)
	}
	mustRound(b, e)
	const portion = 4096
	for _, n := range []int{100, 1000, 20_000} {
		for turn, ahead := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/ahead=%v", n, ahead), func(b *testing.B) {
				var buf []byte
				reads := int64(0)
				for i := range b.N {
					b.StopTimer()
					evictAll(e)
					fs.delay.Store(int64(100 * time.Microsecond))
					from, before := (2*i+turn)*n%(len(keys)-n+1), fs.reads.Load()
					v, err := e.Begin(engine.ViewOptions{})
					if err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					for part := range slices.Chunk(keys[from:from+n], portion) {
						if ahead {
							v.Prefetch(part)
						}
						for _, k := range part {
							if buf, _, err = v.Get(k, buf[:0]); err != nil {
								b.Fatal(err)
							}
						}
					}
					b.StopTimer()
					v.Close()
					reads += fs.reads.Load() - before
					fs.delay.Store(0)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/row")
				b.ReportMetric(float64(reads)/float64(b.N*n), "reads/row")
			})
		}
	}
}
