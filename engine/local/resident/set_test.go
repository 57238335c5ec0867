package resident

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/local/arena"
	"redoubt/internal/race"
)

// seeded returns random numbers whose seed is printed when the test fails; set
// RESIDENT_SEED to run it again.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("RESIDENT_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("RESIDENT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func newSet(t testing.TB, empty bool) *Set {
	s := New(func([]byte) int { return 3 }, empty)
	t.Cleanup(s.Close)
	return s
}

func apply(t testing.TB, s *Set, seq uint64, fill func(*engine.Batch)) {
	t.Helper()
	var b engine.Batch
	fill(&b)
	s.Enter()
	defer s.Leave()
	if err := s.Apply(&b, seq); err != nil {
		t.Fatal(err)
	}
}

// check looks at everything while nobody else does.
func check(t testing.TB, s *Set) {
	t.Helper()
	var rows, deadRows, dirtyRows, dirtyBytes, size int64
	for no := range s.parts {
		p := s.parts[no].Load()
		if p == nil {
			continue
		}
		n := 0
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			cursor = p.tab.walk(cursor, func(ref arena.Ref) {
				r := s.row(ref)
				n++
				size += int64(arena.Round(r.size())) + tableRow
				if s.find(p, engine.Hash(r.key()), r.key()) != ref {
					t.Errorf("row % x is not found where it is", r.key())
				}
				if r.is(dead) {
					deadRows++
				}
				if r.is(dirty) {
					dirtyRows++
					dirtyBytes += int64(arena.Round(r.size()))
					if p.lists[r.list()][r.place()] != ref {
						t.Errorf("row % x is not in its list", r.key())
					}
				}
			})
		}
		if n != p.tab.rows {
			t.Errorf("part %x: %d rows are counted, %d there", no, p.tab.rows, n)
		}
		rows += int64(n)
		if p.ordered {
			size += int64(n) * treeRow
			checkTree(t, s, p, n)
		} else if n >= alwaysOrdered {
			t.Errorf("part %x has %d rows and no order", no, n)
		}
	}
	size += nameBytes(s)
	if rows != s.rows.Load() || deadRows != s.dead.Load() || size != s.bytes.Load() {
		t.Errorf("%d rows, counted %d; %d dead, counted %d; %d bytes, counted %d", rows, s.rows.Load(), deadRows, s.dead.Load(), size, s.bytes.Load())
	}
	if dirtyRows != s.dirtyRows.Load() || dirtyBytes != s.dirtyBytes.Load() {
		t.Errorf("%d dirty rows, counted %d; %d bytes, counted %d", dirtyRows, s.dirtyRows.Load(), dirtyBytes, s.dirtyBytes.Load())
	}
	if err := s.arena.Check(); err != nil || s.arena.Misused() != 0 {
		t.Errorf("arena: %v, misused %d times", err, s.arena.Misused())
	}
}

func checkTree(t testing.TB, s *Set, p *part, n int) {
	t.Helper()
	var last []byte
	seen := 0
	p.tree.ascend(nil, func(ref arena.Ref) bool {
		key := s.row(ref).key()
		if seen++; seen > 1 && bytes.Compare(last, key) >= 0 {
			t.Errorf("row % x comes behind % x", key, last)
		}
		last = append(last[:0], key...)
		return true
	})
	back := 0
	for refs := p.tree.collect(p.tree.root, nil, true, false, 100, nil); len(refs) > 0; {
		back += len(refs)
		refs = p.tree.collect(p.tree.root, s.row(refs[len(refs)-1]).key(), true, false, 100, nil)
	}
	if seen != n || back != n || p.tree.n != n {
		t.Errorf("the tree of part %x shows %d rows, backwards %d, counts %d; there are %d", p.no, seen, back, p.tree.n, n)
	}
	var walk func(n *node, root bool)
	walk = func(n *node, root bool) {
		if len(n.refs) > fanout || len(n.kids) > fanout || !root && n.size() == 0 || n.kids != nil && len(n.seps) != len(n.kids)-1 {
			t.Errorf("a node with %d refs, %d kids, %d separators", len(n.refs), len(n.kids), len(n.seps))
		}
		for _, k := range n.kids {
			walk(k, false)
		}
		if n.hinted {
			was := slices.Clone(n.hints)
			if p.tree.makeHints(n); !n.hinted || !slices.Equal(was, n.hints) {
				t.Error("a node has other hints than its rows or separators")
			}
		}
		if len(n.lives) != len(n.kids) {
			t.Errorf("a node with %d kids counts those of %d", len(n.kids), len(n.lives))
		}
		for i, k := range n.kids {
			if n.lives[i] != k.live {
				t.Errorf("a node takes a kid to have %d rows that live, which has %d", n.lives[i], k.live)
			}
		}
		for i, ref := range n.refs {
			if int(n.alive>>i&1) != p.tree.alive(ref) {
				t.Error("a leaf takes a row to live that is dead, or to be dead that lives")
			}
		}
		if n.alive&^before(len(n.refs)) != 0 {
			t.Errorf("a leaf of %d rows has bits for more: %x", len(n.refs), n.alive)
		}
		counted := n.live
		if n.recount(); counted != n.live {
			t.Errorf("a node counts %d rows that live, and has %d", counted, n.live)
		}
	}
	if p.tree.root != nil {
		walk(p.tree.root, true)
	}
}

// One part with many rows: buckets split, trees have several levels, and shrink
// again. What is there is compared with a model all along.
func TestLargePart(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	n := 60_000
	if race.Enabled || testing.Short() {
		n = 6_000
	}
	s := newSet(t, true)
	model := map[string]string{}
	key := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte{7, 7, 2}, uint32(i)) }
	seq := uint64(0)
	for _, grow := range []bool{true, false, true} {
		for range n / 100 {
			seq++
			apply(t, s, seq, func(b *engine.Batch) {
				for range 100 {
					i := rng.IntN(n)
					if rng.IntN(4) == 0 {
						i = int(seq) % n * 100 % n // ascending now and then
					}
					k := key(i)
					if grow || rng.IntN(8) == 0 {
						v := bytes.Repeat([]byte{byte(i)}, rng.IntN(300))
						b.Put(k, v)
						model[string(k)] = string(v)
					} else {
						b.Delete(k)
						delete(model, string(k))
					}
				}
			})
		}
		// Without a store there is nobody to tell of the dead: as if it had.
		if s.Take(0x707) {
			s.Finish(0x707)
		}
		check(t, s)
		compare(t, s, model, key(rng.IntN(n)), key(rng.IntN(n)))
	}
}

// compare compares a range, both ways, and some look-ups with a model.
func compare(t *testing.T, s *Set, model map[string]string, lo, hi []byte) {
	t.Helper()
	if bytes.Compare(lo, hi) > 0 {
		lo, hi = hi, lo
	}
	if bytes.Equal(lo, hi) {
		return
	}
	var want []string
	for _, k := range slices.Sorted(maps.Keys(model)) {
		if k >= string(lo) && k < string(hi) {
			want = append(want, k)
		}
	}
	if n, ok := s.Count(lo, hi); !ok || n != len(want) {
		t.Fatalf("%d rows are counted (%v), want %d", n, ok, len(want))
	}
	for i := 0; i <= len(want); i += 1 + len(want)/50 {
		key, found, ok := s.Nth(lo, hi, i, nil)
		if !ok || found != (i < len(want)) || found && string(key) != want[i] {
			t.Fatalf("row %d of %d is % x (%v, %v)", i, len(want), key, found, ok)
		}
	}
	for _, reverse := range []bool{false, true} {
		r := new(Range)
		s.OpenRange(r, lo, hi, reverse, true, func() uint64 { return 0 })
		var got []string
		for r.Next() {
			k, v, _ := r.Row()
			if model[string(k)] != string(v) {
				t.Fatalf("row % x has another value", k)
			}
			got = append(got, string(k))
		}
		r.Close()
		if reverse {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the range shows %d rows, want %d (reverse %v)", len(got), len(want), reverse)
		}
	}
	for _, k := range want[:min(len(want), 200)] {
		if v, state, _ := s.Get([]byte(k), engine.Hash([]byte(k)), nil); state != Found || string(v) != model[k] {
			t.Fatalf("row % x: state %d", k, state)
		}
	}
}

// What is evicted makes its unit incomplete, and only that.
func TestEvictionBreaksUnits(t *testing.T) {
	t.Parallel()
	s := newSet(t, true)
	apply(t, s, 1, func(b *engine.Batch) {
		for i := range 100 {
			b.Put(fmt.Appendf(nil, "ab\x01key%d", i), []byte("v"))
		}
		b.Put([]byte("ab\x05due"), nil)
		b.Put([]byte("cd\x01other"), nil)
	})
	get := func(key string) State {
		_, state, _ := s.Get([]byte(key), engine.Hash([]byte(key)), nil)
		return state
	}
	if s.Evict(1<<30) != 0 {
		t.Fatal("dirty rows were evicted")
	}
	s.Take(0x6162)
	s.Finish(0x6162)
	get("ab\x05due") // it is in use
	s.Evict(1)
	if got := get("ab\x01key7"); got != Unknown {
		t.Errorf("an evicted row: state %d", got)
	}
	if got := get("ab\x01no such key"); got != Unknown {
		t.Errorf("a row of an incomplete unit that does not exist: state %d", got)
	}
	if get("ab\x05due") != Found || get("ab\x05none") != Absent || get("cd\x01other") != Found || get("cd\x01none") != Absent {
		t.Error("another unit has suffered")
	}
	check(t, s)
}

// A row that was read from the store before it was changed, written back and
// evicted must not come in.
func TestStaleLoad(t *testing.T) {
	t.Parallel()
	s := newSet(t, false)
	key := []byte("ab\x01k")
	hash := engine.Hash(key)
	_, state, token := s.Get(key, hash, nil)
	if state != Unknown {
		t.Fatalf("state %d", state)
	}
	apply(t, s, 1, func(b *engine.Batch) { b.Put(key, []byte("new")) })
	s.Take(0x6162)
	s.Finish(0x6162)
	for s.Evict(1) > 0 {
	}
	if err := s.Load(key, hash, []byte("old"), true, token); err != nil {
		t.Fatal(err)
	}
	if _, state, _ := s.Get(key, hash, nil); state != Unknown {
		t.Errorf("the stale row came in: state %d", state)
	}
}

// A hit allocates nothing.
func TestGetAllocates(t *testing.T) {
	s := newSet(t, true)
	key := []byte("ab\x01k")
	apply(t, s, 1, func(b *engine.Batch) { b.Put(key, make([]byte, 100)) })
	dst := make([]byte, 0, 128)
	if n := testing.AllocsPerRun(100, func() { s.Get(key, engine.Hash(key), dst[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Rows are copied for the store some at a time, however large they are. One that is
// changed meanwhile is left out, or told as it was.
func TestCopyOfLargeRows(t *testing.T) {
	s := newSet(t, true)
	const rows, size = 4000, 8 << 10
	key := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte{7, 7, 2}, uint32(i)) }
	value := bytes.Repeat([]byte("v"), size)
	apply(t, s, 1, func(b *engine.Batch) {
		for i := range rows {
			b.Put(key((i*7)%rows), value)
		}
	})
	s.Take(0x707)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	next := 0
	err := s.Copy(0x707, func(k, v []byte, deleted bool) error {
		if next == rows/2 {
			next++ // this one is changed below
		}
		if !bytes.Equal(k, key(next)) || !bytes.Equal(v, value) || deleted {
			return fmt.Errorf("row %d is % x with %d bytes, deleted %v", next, k, len(v), deleted)
		}
		if next == 0 {
			apply(t, s, 2, func(b *engine.Batch) { b.Put(key(rows/2), []byte("changed")) })
		}
		next++
		return nil
	})
	runtime.ReadMemStats(&after)
	if err != nil || next != rows {
		t.Fatalf("%d rows: %v", next, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > rows*size/4 {
		t.Errorf("%d MB were allocated to copy %d", n>>20, rows*size>>20)
	}
	s.Finish(0x707)
	check(t, s)
	if got, _, _ := s.Get(key(rows/2), engine.Hash(key(rows/2)), nil); string(got) != "changed" {
		t.Errorf("the changed row is %q", got)
	}
	if n, _ := s.Dirty(); n != 1 {
		t.Errorf("%d rows are dirty", n)
	}
}
