package bitmap

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
	"redoubt/types/str"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests")

func random(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// newTx returns a transaction over an empty store, whose writes stay in it.
func newTx(t testing.TB) *keyspace.Tx {
	t.Helper()
	eng := mem.New()
	space, err := keyspace.Open(eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	view, err := eng.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(view.Close)
	tx := &keyspace.Tx{
		Space: space, Rows: engine.Txn{View: view, Batch: new(engine.Batch)}, FX: new(keyspace.Effects),
		Now: 1_700_000_000_000, NowMicros: 1_700_000_000_000_000, Writable: true, Latched: true, Worker: true,
	}
	tx.Start()
	return tx
}

// randomBits is a string of up to about 200 KB with runs of equal bytes, so
// that all-zero and all-one chunks and holes occur.
func randomBits(rnd *rand.Rand) []byte {
	b := make([]byte, rnd.IntN(1<<rnd.IntN(19)))
	for at := 0; at < len(b); {
		n := min(1+rnd.IntN(1<<rnd.IntN(17)), len(b)-at)
		switch run := b[at : at+n]; rnd.IntN(3) {
		case 0:
			for i := range run {
				run[i] = 0xff
			}
		case 1:
			for i := range min(n, 100) {
				run[i] = byte(rnd.Uint32())
			}
		}
		at += n
	}
	return b
}

func bitAt(b []byte, i int64) int64 { return int64(b[i>>3]>>(7-i&7)) & 1 }

func store(tx *keyspace.Tx, key string, b []byte) str.Value {
	k := []byte(key)
	str.Set(tx, k, tx.Find(k), b, 0)
	v, _ := str.Read(tx, k)
	return v
}

func TestCountAndPos(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	tx := newTx(t)
	for range 200 {
		b := randomBits(rnd)
		v := store(tx, "k", b)
		n := int64(len(b)) * 8
		from := rnd.Int64N(n + 1)
		to := from + rnd.Int64N(n-from+1)
		if rnd.IntN(3) == 0 {
			from, to = 0, n
		}
		count, pos := int64(0), [2]int64{-1, -1}
		for i := from; i < to; i++ {
			x := bitAt(b, i)
			count += x
			if pos[x] < 0 {
				pos[x] = i
			}
		}
		if got := Count(tx, v, from, to); got != count {
			t.Fatalf("Count of %d bytes in [%d, %d) = %d, want %d", len(b), from, to, got, count)
		}
		for x, want := range pos {
			if got := Pos(tx, v, x == 1, from, to); got != want {
				t.Fatalf("Pos of %d among %d bytes in [%d, %d) = %d, want %d", x, len(b), from, to, got, want)
			}
		}
	}
	if tx.Err() != nil {
		t.Fatal(tx.Err())
	}
}

func TestSetAndGet(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	tx := newTx(t)
	key := []byte("k")
	model := map[int64]bool{}
	for range 3000 {
		at := rnd.Int64N(1 << (5 + rnd.IntN(20)))
		bit := rnd.IntN(2) == 0
		old, err := Set(tx, key, at, bit)
		if err != nil || old != model[at] {
			t.Fatalf("Set(%d) returns %v, %v; want %v", at, old, err, model[at])
		}
		model[at] = bit
		probe := rnd.Int64N(1 << 26)
		v, err := str.Read(tx, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int64{at, at ^ 1, probe} {
			if got := Get(tx, v, i) == 1; got != model[i] {
				t.Fatalf("bit %d is %v, want %v", i, got, model[i])
			}
		}
	}
}

func TestCombine(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	for range 150 {
		tx := newTx(t)
		op := Op(rnd.IntN(int(One) + 1))
		n := 1 + rnd.IntN(4)
		if op == Not {
			n = 1
		}
		var data [][]byte
		var sources []str.Value
		size := 0
		for i := range n {
			b := randomBits(rnd)
			data, size = append(data, b), max(size, len(b))
			sources = append(sources, store(tx, string(rune('a'+i)), b))
		}
		want := make([]byte, size)
		for i := range want {
			want[i] = combineBytes(op, data, i)
		}
		dest := []byte{'a' + byte(rnd.IntN(5))} // a source, perhaps
		if got := Combine(tx, op, dest, sources); got != int64(size) || tx.Err() != nil {
			t.Fatalf("Combine(%d) = %d, want %d; %v", op, got, size, tx.Err())
		}
		v, err := str.Read(tx, dest)
		if err != nil || v.Exists() != (size > 0) {
			t.Fatalf("the result of length %d exists: %v, %v", size, v.Exists(), err)
		}
		if got := v.AppendRange(tx, nil, 0, v.Len()); !bytes.Equal(got, want) {
			t.Fatalf("operation %d on %d sources, %d bytes: wrong result", op, n, size)
		}
	}
}

// combineBytes is the definition of the operations, a byte at a time.
func combineBytes(op Op, data [][]byte, i int) byte {
	at := func(k int) byte {
		if i < len(data[k]) {
			return data[k][i]
		}
		return 0
	}
	all, any, odd, others := byte(0xff), byte(0), byte(0), byte(0)
	var seen [8]int
	for k := range data {
		all, any, odd = all&at(k), any|at(k), odd^at(k)
		if k > 0 {
			others |= at(k)
		}
		for bit := range 8 {
			seen[bit] += int(at(k) >> bit & 1)
		}
	}
	one := byte(0)
	for bit := range 8 {
		if seen[bit] == 1 {
			one |= 1 << bit
		}
	}
	return [...]byte{all, any, odd, ^at(0), at(0) &^ others, others &^ at(0), at(0) & others, one}[op]
}

// TestCombineSparse: what nobody stored costs nothing.
func TestCombineSparse(t *testing.T) {
	t.Parallel()
	tx := newTx(t)
	var sources []str.Value
	for i, at := range []int64{1<<32 - 1, 1 << 20, 1 << 31} {
		key := []byte{byte('a' + i)}
		if _, err := Set(tx, key, at, true); err != nil {
			t.Fatal(err)
		}
		v, _ := str.Read(tx, key)
		sources = append(sources, v)
	}
	rows := tx.Rows.Batch.Len()
	if n := Combine(tx, Or, []byte("d"), sources); n != 1<<29 {
		t.Fatalf("length %d", n)
	}
	if got := tx.Rows.Batch.Len() - rows; got > 5 {
		t.Errorf("the result took %d rows", got)
	}
	v, _ := str.Read(tx, []byte("d"))
	if n := Count(tx, v, 0, v.Len()*8); n != 3 {
		t.Errorf("%d bits, want 3", n)
	}
	if pos := Pos(tx, v, true, 1<<20+1, v.Len()*8); pos != 1<<31 {
		t.Errorf("bit %d, want %d", pos, int64(1)<<31)
	}
}

// TestField reads and writes fields at all widths against single bits.
func TestField(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	tx := newTx(t)
	key := []byte("k")
	const size = 70_000
	e, err := str.Edit(tx, key, size)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	model := make([]byte, size)
	for range 20000 {
		f := Field{Signed: rnd.IntN(2) == 0, Bits: 1 + uint(rnd.IntN(64))}
		if f.Bits == 64 {
			f.Signed = true
		}
		f.Offset = rnd.Int64N(400)
		if rnd.IntN(2) == 0 { // around the edge of a chunk
			f.Offset += 8192*8 - 200
		}
		want := uint64(0)
		for i := range int64(f.Bits) {
			want = want<<1 | uint64(bitAt(model, f.Offset+i))
		}
		if f.Signed && f.Bits < 64 && want>>(f.Bits-1) == 1 {
			want |= ^uint64(0) << f.Bits
		}
		if got := f.Get(e); got != int64(want) {
			t.Fatalf("%+v is %d, want %d", f, got, int64(want))
		}
		v := rnd.Uint64() >> rnd.IntN(64)
		old, _, ok := f.Set(e, int64(v), Wrap)
		if !ok || old != int64(want) {
			t.Fatalf("Set of %+v returns %d, want %d", f, old, int64(want))
		}
		for i := range int64(f.Bits) {
			at := f.Offset + i
			mask := byte(0x80) >> (at & 7)
			model[at>>3] &^= mask
			if v>>(int64(f.Bits)-1-i)&1 == 1 {
				model[at>>3] |= mask
			}
		}
	}
}
