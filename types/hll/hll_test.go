package hll

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"redoubt/internal/race"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b))[:32] }

// testdata/redis-7.2.6.txt is what a real Redis says. Its lines are
//
//	add LIMIT N COUNT LENGTH SHA SHA2    PFADD of e:1 to e:N with a value of
//	                                     hll-sparse-max-bytes; the string before
//	                                     and after PFCOUNT
//	merge X Y UNION COUNT LENGTH SHA     PFMERGE of e:1 to e:X and f:1 to f:Y
//	                                     into a new key, PFCOUNT of the two
//	                                     keys and of the new one
//	into X Y LENGTH SHA                  PFMERGE of the second into the first
func TestRecorded(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/redis-7.2.6.txt")
	if err != nil {
		t.Fatal(err)
	}
	var h []byte
	added, last := 0, int64(-1)
	for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		what, args, _ := strings.Cut(line, " ")
		switch what {
		case "add":
			var limit int64
			var n, length int
			var count uint64
			var before, after string
			fmt.Sscan(args, &limit, &n, &count, &length, &before, &after)
			if limit != last {
				h, added, last = New(), 0, limit
			}
			for ; added < n; added++ {
				h = add(t, h, fmt.Sprintf("e:%d", added+1), limit)
			}
			if got := sum(h); got != before || len(h) != length {
				t.Fatalf("%s: %d bytes, %s", line, len(h), got)
			}
			got, err := Count(h)
			SetCached(h, got)
			if err != nil || got != count || sum(h) != after {
				t.Fatalf("%s: counted %d, %s, %v", line, got, sum(h), err)
			}
		case "merge", "into":
			var x, y, length int
			var union, count uint64
			var want string
			fmt.Sscan(args, &x, &y, &union, &count, &length, &want)
			to := New()
			if what == "into" {
				fmt.Sscan(args, &x, &y, &length, &want)
				to = many(t, "e", x)
			}
			var all Registers
			a, b := many(t, "e", x), many(t, "f", y)
			if err := errors.Join(all.Merge(a), all.Merge(b)); err != nil {
				t.Fatal(err)
			}
			if Dense(a) || Dense(b) {
				to, _ = ToDense(to)
			}
			to, err := Raise(to, &all, 3000)
			Invalidate(to)
			if err != nil || sum(to) != want || len(to) != length {
				t.Errorf("%s: %d bytes, %s, %v", line, len(to), sum(to), err)
			}
			if n, _ := Count(to); what == "merge" && (all.Count() != union || n != count) {
				t.Errorf("%s: counted %d and %d", line, all.Count(), n)
			}
		default:
			t.Errorf("what is %q?", line)
		}
	}
}

// add adds an element as PFADD does.
func add(t *testing.T, h []byte, element string, limit int64) []byte {
	t.Helper()
	h, changed, err := Add(h, []byte(element), limit)
	if err != nil {
		t.Fatal(err)
	}
	if changed {
		Invalidate(h)
	}
	return h
}

func many(t *testing.T, name string, n int) []byte {
	t.Helper()
	h := New()
	for i := range n {
		h = add(t, h, fmt.Sprintf("%s:%d", name, i+1), 3000)
	}
	return h
}

// The standard error of large counts is at most 1.04/sqrt(registers), 0.81 %. In
// units of it the squared errors of several series add up to a chi-squared
// variable. A sum that chance gives less than once in ten million fails the test,
// so that the three counts together fail it by chance less than once in three
// million runs.
func TestError(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	series := 40
	if race.Enabled {
		series = 4
	}
	standard := 1.04 / math.Sqrt(registers)
	for _, n := range []int{1000, 20_000, 60_000} {
		squares := 0.0
		for range series {
			h := New()
			base := rng.Uint64()
			for i := range n {
				h, _, _ = Add(h, fmt.Appendf(nil, "%d", base+uint64(i)), 3000)
			}
			got, err := Count(h)
			if err != nil {
				t.Fatal(err)
			}
			off := (float64(got) - float64(n)) / float64(n) / standard
			squares += off * off
		}
		if chance := exceeds(squares, series); chance < 1e-7 {
			t.Errorf("%d elements: the deviation is %.2f %%, which happens by chance once in %.2g runs", n, 100*standard*math.Sqrt(squares/float64(series)), 1/chance)
		}
	}
}

// exceeds returns the probability that a chi-squared variable with an even number
// of degrees of freedom exceeds x.
func exceeds(x float64, degrees int) float64 {
	term, sum := 1.0, 0.0
	for i := range degrees / 2 {
		if i > 0 {
			term *= x / 2 / float64(i)
		}
		sum += term
	}
	return math.Exp(-x/2) * sum
}

// Small counts are exact but for elements that share a register: the count is that
// of linear counting, m ln(m/(m-k)) for k registers of m that are not 0.
func TestSmallCounts(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	shared := 0
	for range 200 {
		h, base, used := New(), rng.Uint64(), make(map[int]bool)
		for i := range 64 {
			element := fmt.Appendf(nil, "%d", base+uint64(i))
			h, _, _ = Add(h, element, 3000)
			index, _ := place(element)
			used[index] = true
			want := uint64(math.Round(-registers * math.Log1p(-float64(len(used))/registers)))
			if got, err := Count(h); err != nil || got != want {
				t.Fatalf("%d elements in %d registers: %d, %v, want %d", i+1, len(used), got, err, want)
			}
			if len(used) == i+1 && want != uint64(i+1) {
				t.Fatalf("%d elements that share no register are counted as %d", i+1, want)
			}
		}
		shared += 64 - len(used)
	}
	t.Logf("%d elements shared a register", shared)
}

// Sparse and dense ones with the same elements have the same registers.
func TestEncodingsAgree(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		small := New()
		large, _ := ToDense(New())
		var regs Registers
		for range rng.IntN(3000) {
			index, rank := rng.IntN(registers), byte(1+rng.IntN(maxRank))
			if rng.IntN(50) > 0 {
				index, rank = rng.IntN(200), byte(1+rng.IntN(3)) // so that runs are joined
			}
			var changed bool
			var err error
			if Dense(small) {
				changed = raise(small, index, rank)
			} else if small, changed, err = sparseRaise(small, index, rank, 15_000); err != nil {
				t.Fatal(err)
			}
			if raise(large, index, rank) != changed || changed != (regs[index] < rank) {
				t.Fatalf("register %d to %d: changed %v", index, rank, changed)
			}
			regs[index] = max(regs[index], rank)
		}
		var a, b Registers
		if err := errors.Join(a.Merge(small), b.Merge(large)); err != nil {
			t.Fatal(err)
		}
		x, _ := Count(small)
		y, _ := Count(large)
		if a != regs || b != regs || x != y || x != regs.Count() {
			t.Fatalf("the registers differ, or the estimates: %d, %d, %d", x, y, regs.Count())
		}
	}
}

// All registers of a dense one are where they should be.
func TestRegisters(t *testing.T) {
	t.Parallel()
	d, _ := ToDense(New())
	for i := range registers {
		setRegister(d, i, byte(i%64))
	}
	for i := range registers {
		if register(d, i) != byte(i%64) {
			t.Fatalf("register %d is %d", i, register(d, i))
		}
	}
	var r Registers
	if err := r.Merge(d); err != nil {
		t.Fatal(err)
	}
	for i, v := range r {
		if v != byte(i%64) {
			t.Fatalf("register %d is merged as %d", i, v)
		}
	}
}

func TestCheckAndCorrupt(t *testing.T) {
	t.Parallel()
	good := many(t, "x", 5)
	for _, bad := range [][]byte{
		nil, []byte("HYLL"), []byte("HYLX" + string(good[4:])), append([]byte("HYLL\x02"), good[5:]...),
		append([]byte("HYLL\x00"), good[5:]...), []byte("123"),
	} {
		if Check(bad) != ErrNotHLL {
			t.Errorf("%q is taken for one", bad)
		}
	}
	for _, bad := range [][]byte{
		good[:headSize], good[:len(good)-1], append(bytes.Clone(good), 0), append(bytes.Clone(good), 0x80),
		append(bytes.Clone(good[:headSize]), 0x7f), append(bytes.Clone(good[:headSize]), 0x7f, 0xff, 0x7f, 0xff),
	} {
		var r Registers
		if _, err := Count(bad); err != ErrCorrupt || r.Merge(bad) != ErrCorrupt {
			t.Errorf("%q is counted", bad)
		}
		if _, err := ToDense(bad); err != ErrCorrupt {
			t.Errorf("%q is made dense", bad)
		}
	}
	impossible, _ := ToDense(New())
	for i := range registers {
		setRegister(impossible, i, 63)
	}
	if n, err := Count(impossible); n != 1<<63 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	h := New()
	for _, at := range []int{0, 1, 5, 16383} {
		h, _, _ = sparseRaise(h, at, 2, 3000)
	}
	if got, want := string(Describe(h)), "v:2,2 z:3 v:2,1 Z:16377 v:2,1"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// A string that begins like a HyperLogLog may hold anything.
func FuzzSparse(f *testing.F) {
	f.Add([]byte{0x7f, 0xff}, []byte("a"), int64(3000))
	f.Add([]byte{0x80, 0x7f}, []byte("b"), int64(3000))
	f.Add([]byte{0x3f, 0x83, 0x83, 0x7f, 0x00}, []byte("c"), int64(0))
	f.Fuzz(func(t *testing.T, runs, element []byte, limit int64) {
		h := append(New()[:headSize:headSize], runs...)
		if Check(h) != nil {
			t.Fatal("the head is good")
		}
		_, bad := Count(h)
		var r Registers
		if err := r.Merge(h); (err == nil) != (bad == nil) {
			t.Fatalf("counted: %v, merged: %v", bad, err)
		}
		Describe(h)
		h, _, err := Add(h, element, limit)
		if bad != nil {
			return
		}
		if err != nil {
			if runs[len(runs)-1]>>6 == 1 { // its second byte is missing
				return
			}
			t.Fatalf("%v for %x", err, runs)
		}
		index, rank := place(element)
		r[index] = max(r[index], rank)
		var after Registers
		if err := after.Merge(h); err != nil || after != r {
			t.Fatalf("other registers after an element: %v", err)
		}
	})
}

// The value of a key, inline and in chunks.
func TestValue(t *testing.T) {
	t.Parallel()
	w := typestest.New(t)
	key := []byte("k")
	w.Do(func(tx *keyspace.Tx) {
		v, err := Find(tx, key)
		if err != nil || v.Exists() {
			t.Fatal(err)
		}
		v.Bytes = New()
		v.Store()
	})
	w.Do(func(tx *keyspace.Tx) {
		v, err := Read(tx, key)
		if err != nil || !v.Raw() || !bytes.Equal(v.Bytes, New()) {
			t.Fatalf("%q, %v", v.Bytes, err)
		}
		if changed, err := v.Add([]byte("x"), 3000); !changed || err != nil {
			t.Errorf("%v, %v", changed, err)
		}
		if again, _ := Read(tx, key); !bytes.Equal(again.Bytes, New()) {
			t.Error("the bytes are not the value's own")
		}
		// One that is larger than any that we make.
		v.Bytes = append(v.Bytes, make([]byte, 100_000)...)
		v.Store()
	})
	w.Do(func(tx *keyspace.Tx) {
		if v, err := Find(tx, key); err != nil || len(v.Bytes) < 100_000 {
			t.Errorf("%v", err)
		}
		m := tx.Find(key)
		tx.Remove(key, m)
		tx.Store(key, keyspace.Meta{}, keyspace.Meta{Type: keyspace.Set, Encoding: keyspace.Integers})
		if _, err := Find(tx, key); err != types.ErrWrongType {
			t.Error(err)
		}
	})
}
