package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

func TestIDsAreNeverReused(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	eng := mem.New()
	used := make(map[uint64]bool)
	now := int64(testNow)
	for range 200 { // each time a restart, with whatever clock
		s := openStore(t, eng)
		s.now = now
		for range rng.IntN(20) {
			s.begin()
			for range 1 + rng.IntN(5) {
				var id uint64
				mark := s.exec(0, func(tx *Tx) { id = tx.NewRef([]byte("k"), 0).ID })
				switch {
				case rng.IntN(3) == 0:
					s.tx.Rollback(mark) // then the id is not in use
				case used[id]:
					t.Fatalf("id %x is used twice", id)
				default:
					used[id] = true
				}
			}
			s.commit()
			s.now += rng.Int64N(3000)
		}
		now += rng.Int64N(40_000) - 20_000
	}
	rows := 0
	s := openStore(t, eng)
	s.eachRow(func(k, _ []byte) {
		if k[0] == system && k[1] == sysWatermark {
			rows++
		}
	})
	if rows > 1 {
		t.Errorf("%d watermarks are kept, one is needed", rows)
	}
}

// Two batches store a watermark side by side, and the one with the lower mark
// is committed last. All ids must still lie below the mark that is loaded.
func TestWatermarksOfConcurrentBatches(t *testing.T) {
	t.Parallel()
	eng := mem.New()
	a, b := openStore(t, eng), &testStore{t: t, eng: eng}
	b.space = a.space
	var last uint64
	a.now, b.now = testNow, testNow+60_000 // a took a minute
	a.begin()
	a.exec(0, func(tx *Tx) { tx.NewRef([]byte("k"), 0) })
	b.begin()
	b.exec(0, func(tx *Tx) { last = tx.NewRef([]byte("k"), 0).ID })
	b.commit()
	a.commit()
	b.now += 3000
	b.begin()
	b.exec(0, func(tx *Tx) { last = tx.NewRef([]byte("k"), 0).ID })
	b.commit()
	again := openStore(t, eng)
	again.now = testNow - 1_000_000
	again.begin()
	again.exec(0, func(tx *Tx) {
		if id := tx.NewRef([]byte("k"), 0).ID; id <= last {
			t.Errorf("id %x after %x", id, last)
		}
	})
	again.commit()
}

func TestOneWatermarkServesABatch(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) {
		for range 100 {
			tx.NewRef([]byte("k"), 0)
		}
	})
	marks := 0
	s.eachRow(func(k, _ []byte) {
		if k[0] == system && k[1] == sysWatermark {
			marks++
		}
	})
	equal(t, "watermarks", marks, 1)
}

func TestIDsAreUniqueAcrossGoroutines(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := make(map[uint64]bool)
	for range 8 {
		wg.Go(func() {
			var b engine.Batch
			var fx Effects
			for range 2000 {
				id := s.space.nextID(testNow*1000, &b, &fx)
				mu.Lock()
				if seen[id] {
					t.Errorf("id %x twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestOpenChecksTheFormat(t *testing.T) {
	t.Parallel()
	for version, want := range map[uint32]error{FormatVersion: nil, FormatVersion + 1: engine.ErrFormat, 0: engine.ErrFormat} {
		eng := mem.New()
		s := openStore(t, eng)
		s.do(0, func(tx *Tx) { tx.PutRow(sysKey(sysFormat), binary.BigEndian.AppendUint32(nil, version)) })
		_, err := Open(eng, testDatabases)
		if !errors.Is(err, want) || (want != nil && !strings.Contains(err.Error(), fmt.Sprint("version ", version))) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func TestOpenReportsCorruptSystemRows(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{sysKey(sysNextKS), sysKey(sysFormat), sysKey16(sysDatabase, 0), {system, sysWatermark, 1}} {
		eng := mem.New()
		s := openStore(t, eng)
		s.do(0, func(tx *Tx) { tx.PutRow(key, []byte{1, 2, 3}) })
		if _, err := Open(eng, testDatabases); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("row % x: %v", key, err)
		}
	}
}

func TestOpenWithMoreDatabases(t *testing.T) {
	t.Parallel()
	eng := mem.New()
	s := openStore(t, eng)
	s.set(3, "k", "v", 0)
	more, err := Open(eng, 100)
	if err != nil {
		t.Fatal(err)
	}
	s.space = more
	equal(t, "old key", s.get(3, "k"), "v")
	s.set(99, "k", "last", 0)
	equal(t, "numbers", s.get(99, "k")+s.get(98, "k"), "last(none)")
	fewer, err := Open(eng, 2)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "databases", fewer.Databases(), 2)
	seen := make(map[uint32]bool)
	for db := range more.dbs {
		ks := more.dbs[db].Load()
		if ks == 0 || seen[ks] {
			t.Errorf("database %d has number %d", db, ks)
		}
		seen[ks] = true
	}
}

func TestSlotOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint16{ // from CLUSTER KEYSLOT
		"": 0, "a": 15495, "123456789": 12739, "foo": 12182, "{foo}bar": 12182, "x{foo}": 12182,
		"foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "foo{bar}{zap}": 5061, "{}": 15257, "{": 4092, "a{b": 13340, "}{": 12793,
	} {
		if got := SlotOf([]byte(key)); got != want {
			t.Errorf("slot of %q: got %d, want %d", key, got, want)
		}
	}
}
