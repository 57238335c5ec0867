package tikv

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/internal/testtikv"
)

// The format of long rows: they are in stores.
func TestLongFormat(t *testing.T) {
	t.Parallel()
	s := newSpace("p:")
	head := strings.Repeat("h", 2048)
	for _, c := range []struct{ row, key, value string }{
		{"", "p:", "value\x00\x00\x00\x00\x00\x00\x00\x07"},
		{head, "p:" + head, "value\x00\x00\x00\x00\x00\x00\x00\x07"},
		{head + "ab", "p:" + head + hashOf(head+"ab"), "valueab\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x07"},
	} {
		if got := s.key([]byte(c.row)); string(got) != c.key || cap(got) != len(got) {
			t.Errorf("a row of %d bytes is stored at %q", len(c.row), got)
		}
		stored := appendRow(nil, []byte(c.row), []byte("value"), 7)
		if string(stored) != c.value {
			t.Errorf("a row of %d bytes is stored as %q", len(c.row), stored)
		}
		if value, version, err := valueOf([]byte(c.row), stored); string(value) != "value" || version != 7 || err != nil {
			t.Errorf("a row of %d bytes is read as %q, %d, %v", len(c.row), value, version, err)
		}
	}
	row := []byte(head + "ab")
	whole := appendRow(nil, row, nil, 7)
	for name, stored := range map[string][]byte{
		"no version": whole[:7], "no length": whole[len(whole)-8:], "too long": append([]byte("\x00\x00\x00\x01"), whole[len(whole)-8:]...),
		"another": appendRow(nil, []byte(head+"ac"), nil, 7),
	} {
		if _, _, err := valueOf(row, stored); !errors.Is(err, engine.ErrCorrupt) || len(err.Error()) > 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The longest key is one that TiKV takes: it adds a byte to each eight, and up to nine.
	most := newSpace(strings.Repeat("p", maxPrefix))
	if n := len(most.key(make([]byte, 1<<20))); (n/8+1)*9 > 4<<10 {
		t.Errorf("keys have up to %d bytes", n)
	}
}

func hashOf(s string) string {
	h := sha256.Sum256([]byte(s))
	return string(h[:])
}

// Groups of long rows that are larger than a page and lie in several regions.
func TestLongGroups(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 4))
	head := strings.Repeat("g", maxPlain-1)
	e := newMock(t, "test:"+head+"g\x30", "test:"+head+"g\xa0", "test:"+head+"h\x80").open(t, Options{})
	defer e.Close()
	var keys []string
	var b engine.Batch
	for _, group := range []string{"f", "g", "h"} {
		b.Reset()
		for i := range 60 {
			key := fmt.Sprintf("%s%s%04d%s", head, group, rng.IntN(10_000), strings.Repeat("x", rng.IntN(3)*500))
			switch i {
			case 0:
				key = head + group // what the others begin with
			case 1, 2:
				key = head[:maxPlain-i] + group // a short one, elsewhere
			}
			keys = append(keys, key)
			b.Put([]byte(key), []byte(fmt.Sprint("value of ", len(key))))
		}
		must(t, e, &b)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	bound := func() []byte {
		switch rng.IntN(8) {
		case 0:
			return []byte(head)
		case 1:
			return []byte(head + "h")
		}
		return append([]byte(keys[rng.IntN(len(keys))]), []byte{0, 0xff}[:rng.IntN(2)]...)
	}
	check := func(r engine.Reader, lo, hi []byte, reverse bool) {
		t.Helper()
		var want []string
		for _, k := range keys {
			if k >= string(lo) && (hi == nil || k < string(hi)) {
				want = append(want, k)
			}
		}
		if reverse {
			slices.Reverse(want)
		}
		n, it := 0, r.Iter(lo, hi, reverse)
		for ; it.Next(); n++ {
			if n >= len(want) || want[n] != string(it.Key()) || string(it.Value()) != fmt.Sprint("value of ", len(want[n])) {
				t.Fatalf("row %d of %d, reverse %v: ...%q=%q", n, len(want), reverse, it.Key()[maxPlain-1:], it.Value())
			}
		}
		if err := it.Close(); err != nil || n != len(want) {
			t.Fatalf("%d rows, want %d; %v", n, len(want), err)
		}
		row, n, found, err := r.Edge(lo, hi, reverse, nil)
		if err != nil || found != (len(want) > 0) || found && string(row[:n]) != want[0] {
			t.Fatalf("Edge, reverse %v: %v %v, %d bytes", reverse, err, found, n)
		}
	}
	for i := range 24 {
		v, err := e.Begin(engine.ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := bound(), bound()
		if i < 2 {
			lo, hi = []byte{}, []byte("z")
		}
		check(v, lo, hi, i%2 == 0)
		v.Close()
	}
	// A range delete takes from all three, and nothing else.
	lo, hi := []byte(head+"f5"), []byte(head+"h5")
	b.Reset()
	b.DeleteRange(lo, hi)
	must(t, e, &b)
	keys = slices.DeleteFunc(keys, func(k string) bool { return k >= string(lo) && k < string(hi) })
	snap, err := e.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	check(snap, nil, nil, false)
	check(snap, nil, nil, true)
}

// Locks that a dead process has left on long rows, in the middle of a group.
func TestLongLocked(t *testing.T) {
	t.Parallel()
	testtikv.Shared(t)
	head := strings.Repeat("l", 5000)
	for _, async := range []bool{false, true} {
		e := mustOpen(t, options(t))
		defer e.Close()
		var b engine.Batch
		for i := range 40 {
			b.Put(fmt.Appendf(nil, "%s%02d", head, i), []byte("old"))
		}
		must(t, e, &b)
		txn := []string{}
		for i := 5; i < 40; i += 10 {
			txn = append(txn, fmt.Sprintf("%s%02d", head, i), "new")
		}
		die(t, e, async, time.Millisecond, txn...)
		for _, reverse := range []bool{false, true} {
			if err := with(e, func(v engine.SharedView) error {
				it, n := v.Iter([]byte(head), []byte("m"), reverse), 0
				for ; it.Next(); n++ {
					i := n
					if reverse {
						i = 39 - n
					}
					want := "old"
					if async && i%10 == 5 {
						want = "new"
					}
					if !bytes.Equal(it.Key(), fmt.Appendf(nil, "%s%02d", head, i)) || string(it.Value()) != want {
						t.Errorf("row %d is %q=%q", i, it.Key()[5000:], it.Value())
					}
				}
				if n != 40 {
					t.Errorf("%d rows", n)
				}
				return it.Close()
			}); err != nil {
				t.Error(err)
			}
		}
	}
}
