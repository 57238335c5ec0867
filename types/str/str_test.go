package str

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"redoubt/internal/race"
	"redoubt/keyspace"
	"redoubt/types"
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

// TestModel runs random operations on both forms of a string and on a plain
// slice of bytes side by side.
func TestModel(t *testing.T) {
	for _, limits := range [][2]int64{{16, 8}, {20, 7}, {1, 1}, {0, 4}, {64, 16}} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			small(t, limits[0], limits[1])
			testModel(t, random(t), 400)
		})
	}
}

func testModel(t *testing.T, rnd *rand.Rand, steps int) {
	s := newStore(t)
	keys := [][]byte{[]byte("a"), []byte("b")}
	model := map[string][]byte{}
	data := func(n int) []byte {
		b := make([]byte, rnd.IntN(n))
		if rnd.IntN(4) > 0 { // else zeros
			for i := range b {
				b[i] = byte(rnd.IntN(3))
			}
		}
		return b
	}
	for range steps {
		s.begin()
		for range 1 + rnd.IntN(3) { // some executions share a batch
			key := keys[rnd.IntN(len(keys))]
			want, had := model[string(key)]
			switch op := rnd.IntN(8); op {
			case 0:
				b := data(100)
				Set(&s.tx, key, s.tx.Find(key), b, 0)
				model[string(key)] = b
			case 1, 2:
				b := data(30)
				n, err := Append(&s.tx, key, b, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				model[string(key)] = append(want[:len(want):len(want)], b...)
				if n != int64(len(model[string(key)])) {
					t.Fatalf("Append returns %d", n)
				}
			case 3, 4:
				b, off := data(30), int64(rnd.IntN(150))
				if _, err := SetRange(&s.tx, key, off, b, 1<<20); err != nil {
					t.Fatal(err)
				}
				if len(b) > 0 {
					next := make([]byte, max(len(want), int(off)+len(b)))
					copy(next, want)
					copy(next[off:], b)
					model[string(key)] = next
				}
			case 5:
				if had && rnd.IntN(3) == 0 {
					Delete(&s.tx, key, s.tx.Find(key))
					delete(model, string(key))
				}
			case 6: // a copy by Writer, with holes
				w := NewWriter(&s.tx, key)
				var next []byte
				for range rnd.IntN(6) {
					if n := rnd.IntN(40); rnd.IntN(2) == 0 {
						w.Skip(int64(n))
						next = append(next, make([]byte, n)...)
					} else {
						b := data(n + 1)
						w.Write(b)
						next = append(next, b...)
					}
				}
				w.Store(s.tx.Find(key), 0)
				model[string(key)] = next
			case 7:
				testEdit(t, s, rnd, key, model)
			}
			check(t, s, rnd, key, model)
		}
		s.end()
		want := 0
		for _, b := range model {
			if int64(len(b)) > inlineMax {
				for c := int64(0); c < int64(len(b)); c += chunkSize {
					if len(trim(b[c:min(int64(len(b)), c+chunkSize)])) > 0 {
						want++
					}
				}
			}
		}
		s.begin()
		stays := int64(len(model)) == s.tx.Size()
		for _, key := range keys {
			check(t, s, rnd, key, model)
		}
		s.end()
		if !stays {
			t.Fatalf("%d keys, counted otherwise", len(model))
		}
		if got := s.rows(); got < want {
			t.Fatalf("%d chunks are stored, want %d", got, want)
		}
	}
}

// testEdit makes several changes through one Editor.
func testEdit(t *testing.T, s *store, rnd *rand.Rand, key []byte, model map[string][]byte) {
	want := model[string(key)]
	e, err := Edit(&s.tx, key, int64(rnd.IntN(120)))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	next := make([]byte, e.Len())
	copy(next, want)
	for range rnd.IntN(10) {
		off := rnd.IntN(len(next) + 1)
		b := make([]byte, rnd.IntN(12))
		e.Read(int64(off), b)
		for i := range b {
			if off+i < len(next) && b[i] != next[off+i] || off+i >= len(next) && b[i] != 0 {
				t.Fatalf("Read(%d) = %v, want %v", off, b, next[off:])
			}
		}
		if off+len(b) <= len(next) {
			for i := range b {
				b[i] = byte(rnd.IntN(2))
			}
			e.Write(int64(off), b)
			copy(next[off:], b)
		}
	}
	e.Store()
	model[string(key)] = next
}

// check reads the string back in several ways.
func check(t *testing.T, s *store, rnd *rand.Rand, key []byte, model map[string][]byte) {
	t.Helper()
	want, had := model[string(key)]
	v, err := Read(&s.tx, key)
	if err != nil || v.Exists() != had || v.Len() != int64(len(want)) {
		t.Fatalf("%s: exists %v, length %d, error %v; want %v, %d", key, v.Exists(), v.Len(), err, had, len(want))
	}
	if got := v.AppendRange(&s.tx, nil, 0, v.Len()); !bytes.Equal(got, want) {
		t.Fatalf("%s is %v, want %v", key, got, want)
	}
	from := rnd.IntN(len(want) + 1)
	to := from + rnd.IntN(len(want)-from+1)
	if got := v.AppendRange(&s.tx, []byte("x"), int64(from), int64(to)); !bytes.Equal(got[1:], want[from:to]) {
		t.Fatalf("%s[%d:%d] is %v, want %v", key, from, to, got[1:], want[from:to])
	}
	b := make([]byte, rnd.IntN(20))
	v.ReadAt(&s.tx, int64(from), b)
	for i := range b {
		if from+i < len(want) && b[i] != want[from+i] || from+i >= len(want) && b[i] != 0 {
			t.Fatalf("ReadAt(%d) = %v", from, b)
		}
	}
}

func TestEncoding(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("x"), 45)
	for _, tc := range []struct {
		value string
		want  keyspace.Encoding
	}{
		{"0", keyspace.Int}, {"-1", keyspace.Int}, {"9223372036854775807", keyspace.Int},
		{"-9223372036854775808", keyspace.Int}, {"9223372036854775808", keyspace.Embedded},
		{"", keyspace.Embedded}, {"-0", keyspace.Embedded}, {"01", keyspace.Embedded}, {"+1", keyspace.Embedded},
		{string(long[:44]), keyspace.Embedded}, {string(long), keyspace.Raw},
		{string(bytes.Repeat(long, 2000)), keyspace.Chunked},
	} {
		if got := encoding([]byte(tc.value)); got != tc.want {
			t.Errorf("%.30q: encoding %d, want %d", tc.value, got, tc.want)
		}
	}
}

// TestSparse checks that a far bit costs one chunk, and that an expiry stays.
func TestSparse(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	key := []byte("k")
	s.do(func(tx *keyspace.Tx) { Set(tx, key, tx.Find(key), []byte("1"), 1_800_000_000_000) })
	s.do(func(tx *keyspace.Tx) {
		e, err := Edit(tx, key, 1<<29)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Release()
		e.Write(1<<29-1, []byte{1})
		e.Store()
	})
	if n := s.rows(); n != 2 {
		t.Errorf("%d chunks, want 2", n)
	}
	s.do(func(tx *keyspace.Tx) {
		v, err := Read(tx, key)
		if err != nil || v.Len() != 1<<29 || v.Expire != 1_800_000_000_000 || v.Encoding != keyspace.Chunked {
			t.Errorf("%+v, length %d, %v", v, v.Len(), err)
		}
		pieces := 0
		v.Walk(tx, 0, v.Len(), func(int64, []byte) bool { pieces++; return true })
		if pieces != 2 {
			t.Errorf("%d pieces, want 2", pieces)
		}
	})
}

func TestHeavy(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	key := []byte("k")
	s.do(func(tx *keyspace.Tx) { Set(tx, key, tx.Find(key), bytes.Repeat([]byte("x"), 2<<20), 0) })
	for name, f := range map[string]func(tx *keyspace.Tx){
		"Set":         func(tx *keyspace.Tx) { Set(tx, key, tx.Find(key), make([]byte, 2<<20), 0) },
		"AppendRange": func(tx *keyspace.Tx) { v, _ := Read(tx, key); v.AppendRange(tx, nil, 0, v.Len()) },
		"Append":      func(tx *keyspace.Tx) { _, _ = Append(tx, key, make([]byte, 2<<20), 1<<30) },
	} {
		s.begin()
		s.tx.Worker = false
		f(&s.tx)
		if !errors.Is(s.tx.Err(), keyspace.TakesLong) {
			t.Errorf("%s on an event loop: %v", name, s.tx.Err())
		}
		s.batch.Reset()
		s.tx.Rows.View.Close()
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	list, key := []byte("list"), []byte("k")
	s.do(func(tx *keyspace.Tx) {
		tx.Store(list, keyspace.Meta{}, keyspace.Meta{Type: keyspace.List, Body: []byte{1}})
		Set(tx, key, tx.Find(key), []byte("9223372036854775807"), 0)
	})
	s.do(func(tx *keyspace.Tx) {
		want := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		_, err := Read(tx, list)
		want("Read", err, types.ErrWrongType)
		_, err = Append(tx, list, key, 100)
		want("Append", err, types.ErrWrongType)
		_, err = SetRange(tx, list, 0, nil, 100)
		want("SetRange", err, types.ErrWrongType)
		_, err = IncrByFloat(tx, list, []byte("1"))
		want("IncrByFloat", err, types.ErrWrongType)
		_, err = IncrBy(tx, key, 1)
		want("IncrBy", err, types.ErrOverflow)
		_, err = Append(tx, key, key, 19)
		want("Append", err, types.ErrTooLong)
		_, err = SetRange(tx, key, 1<<62, key, 1<<29)
		want("SetRange", err, types.ErrTooLong)
		_, err = IncrByFloat(tx, key, []byte("inf"))
		want("IncrByFloat", err, types.ErrNaN)
		_, err = IncrByFloat(tx, key, []byte(" 1"))
		want("IncrByFloat", err, types.ErrNotFloat)
	})
}

// TestAllocations holds the hot paths to their promise.
func TestAllocations(t *testing.T) {
	s := newStore(t)
	key, counter, value := []byte("key"), []byte("n"), bytes.Repeat([]byte("v"), 128)
	s.do(func(tx *keyspace.Tx) { Set(tx, key, tx.Find(key), value, 0) })
	s.begin()
	s.tx.Listening = 0
	run := func(name string, want float64, f func()) {
		t.Helper()
		got := testing.AllocsPerRun(100, func() {
			s.tx.Start()
			f()
			s.batch.Reset()
		})
		if got > want {
			t.Errorf("%s makes %v allocations, want %v", name, got, want)
		}
	}
	run("get", 0, func() { _, _ = Read(&s.tx, key) })
	run("set", 0, func() { Set(&s.tx, key, s.tx.Find(key), value, 0) })
	if !race.Enabled { // else the pool of editors forgets
		run("append", 0, func() { _, _ = Append(&s.tx, key, value, 1<<20) })
	}
	run("incr", 0, func() { _, _ = IncrBy(&s.tx, counter, 1) })
	s.batch.Reset()
	s.end()
}
