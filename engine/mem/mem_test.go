package mem

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/internal/race"
)

func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(*testing.T) engine.Engine { return New() })
}

// seeded returns random numbers whose seed is printed when the test fails; set
// MEM_SEED to run it again.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("MEM_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("MEM_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// rounds is how often a stress repeats what it does.
func rounds(n int) int {
	if testing.Short() || race.Enabled {
		return n / 4
	}
	return n
}

func commit(t testing.TB, e *Engine, fill func(*engine.Batch)) {
	t.Helper()
	var b engine.Batch
	fill(&b)
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Commit(&b); err != nil {
		t.Fatal(err)
	}
}

// check looks at everything while nobody else does: the table and the trees hold
// the same rows, the sums are right, and without a snapshot nothing old is kept.
func check(t testing.TB, e *Engine) {
	t.Helper()
	var rows, live, size int64
	inTable := make(map[*row]bool)
	for i := range e.shards {
		used := 0
		for _, s := range e.shards[i].rows.slots {
			if s.row == nil {
				continue
			}
			r := s.row
			used++
			rows++
			inTable[r] = true
			size += r.size()
			if !r.dead() {
				live++
			}
			if e.shardOf(s.hash) != &e.shards[i] || s.hash != engine.Hash(r.key) || e.shards[i].rows.find(s.hash, r.key) != r {
				t.Errorf("row % x is not found where it is", r.key)
			}
			for v := r.prev; v != nil; v = v.prev {
				if v.seq >= r.seq {
					t.Errorf("row % x: an older version has number %d, the newest %d", r.key, v.seq, r.seq)
				}
			}
			if len(e.snaps) == 0 && (r.prev != nil || r.dead()) {
				t.Errorf("row % x is kept for no snapshot: dead %v, older versions %v", r.key, r.dead(), r.prev != nil)
			}
		}
		if used != e.shards[i].rows.used {
			t.Errorf("shard %d: %d rows are counted, %d there", i, e.shards[i].rows.used, used)
		}
	}
	var inTrees int64
	var last []byte
	for i := range e.parts {
		p := e.parts[i].Load()
		if p == nil {
			continue
		}
		p.tree.Scan(func(r *row) bool {
			if !inTable[r] {
				t.Errorf("row % x is in a tree and not in the table", r.key)
			}
			if inTrees > 0 && bytes.Compare(last, r.key) >= 0 {
				t.Errorf("row % x comes behind % x", r.key, last)
			}
			if partOf(r.key) != i {
				t.Errorf("row % x is in part %x", r.key, i)
			}
			last = r.key
			inTrees++
			return true
		})
	}
	if inTrees != rows || live != e.rows.Load() || size != e.bytes.Load() {
		t.Errorf("%d rows in the table, %d in the trees; %d live, counted %d; %d bytes, counted %d",
			rows, inTrees, live, e.rows.Load(), size, e.bytes.Load())
	}
	if len(e.snaps) == 0 && (len(e.trail) != 0 || e.newest.Load() != 0) {
		t.Errorf("no snapshot is open; the trail has %d rows, the newest is %d", len(e.trail), e.newest.Load())
	}
}

// A commit and the closing of the last snapshot meet. Whoever comes second must
// tidy up.
func TestNothingOldIsKept(t *testing.T) {
	t.Parallel()
	e := New()
	rng := seeded(t)
	for round := range rounds(10_000) {
		commit(t, e, func(b *engine.Batch) {
			for k := range byte(8) {
				b.Put([]byte{k}, []byte{k})
			}
		})
		snap, _ := e.Snapshot()
		delay := rng.IntN(2000)
		var wait sync.WaitGroup
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range delay {
			}
			snap.Close()
		}()
		commit(t, e, func(b *engine.Batch) {
			for k := range byte(8) {
				if round%2 == 0 {
					b.Put([]byte{k}, []byte{k + 1})
				} else {
					b.Delete([]byte{k})
				}
			}
		})
		wait.Wait()
		if e.seq.Load() != uint64(2*round+2) {
			t.Fatal("a commit was lost")
		}
		if len(e.trail) > 0 {
			t.Fatalf("round %d: %d rows are left in the trail", round, len(e.trail))
		}
	}
	check(t, e)
}

// Prefetch is a hint: it changes nothing, and stands commits at the same time.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	e := New()
	var keys [][]byte
	for i := range 300 {
		keys = append(keys, fmt.Append(nil, "key", i))
	}
	keys = append(keys, keys[0], keys[0], nil, []byte{})
	v, _ := e.Begin(engine.ViewOptions{})
	v.Prefetch(nil)
	v.Prefetch(keys)
	v.Close()
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			rng := rand.New(rand.NewPCG(uint64(w), 0))
			for range 300 {
				from := rng.IntN(len(keys))
				if w < 2 {
					v, _ := e.Begin(engine.ViewOptions{})
					v.Prefetch(keys[from:])
					v.Prefetch(keys[:from])
					v.Close()
					continue
				}
				commit(t, e, func(b *engine.Batch) {
					for _, k := range keys[from:] {
						if rng.IntN(3) == 0 {
							b.Delete(k)
						} else {
							b.Put(k, k)
						}
					}
				})
			}
		}()
	}
	wait.Wait()
	v, _ = e.Begin(engine.ViewOptions{})
	v.Prefetch(keys)
	v.Prefetch(keys[:1])
	mv := v.(*view)
	v.Close()
	for _, r := range mv.found[:cap(mv.found)] {
		if r != nil {
			t.Error("a closed view keeps rows alive")
			break
		}
	}
	check(t, e)
}

func TestTable(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	var tab table
	model := make(map[string]*row)
	hash := func(n int) uint64 { return uint64(n%7)*16 + uint64(n%3) } // many share a place, and many a hash
	for range 10_000 {
		key := fmt.Append(nil, rng.IntN(500))
		n, _ := strconv.Atoi(string(key))
		h := hash(n)
		switch r := model[string(key)]; {
		case tab.find(h, key) != r:
			t.Fatalf("%s: found %v, want %v", key, tab.find(h, key), r)
		case r == nil:
			r = &row{key: key}
			tab.insert(h, r)
			model[string(key)] = r
		default:
			tab.remove(h, r)
			delete(model, string(key))
		}
	}
	if tab.used != len(model) {
		t.Errorf("%d rows are counted, %d there", tab.used, len(model))
	}
	for key, r := range model {
		n, _ := strconv.Atoi(key)
		if tab.find(hash(n), []byte(key)) != r {
			t.Errorf("%s is not found", key)
		}
	}
	tab.remove(3, &row{key: []byte("stranger")})
	if tab.used != len(model) {
		t.Error("a row that was not there is counted out")
	}
}

// Snapshots that overlap for ever keep only what they need.
func TestOverlappingSnapshotsKeepLittle(t *testing.T) {
	t.Parallel()
	e := New()
	last := e.snapshot()
	for i := range 1000 {
		commit(t, e, func(b *engine.Batch) {
			b.Put([]byte("changes"), []byte{byte(i)})
			b.Put([]byte{'n', byte(i), byte(i >> 8)}, nil)
			b.Delete([]byte{'n', byte(i - 1), byte((i - 1) >> 8)})
		})
		next := e.snapshot()
		if err := last.Close(); err != nil {
			t.Fatal(err)
		}
		last = next
		if len(e.trail) > 4 {
			t.Fatalf("round %d: %d rows in the trail", i, len(e.trail))
		}
	}
	if v, _, _ := last.Get([]byte("changes"), nil); len(v) != 1 || v[0] != byte(999%256) {
		t.Errorf("the snapshot sees % x", v)
	}
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	check(t, e)
}
