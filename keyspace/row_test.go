package keyspace

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"redoubt/engine"
)

func FuzzDecodeMeta(f *testing.F) {
	f.Add(append(appendMetaHead(nil, Meta{Type: String, Encoding: Raw}), "value"...))
	f.Add(append(appendMetaHead(nil, Meta{Type: String, Encoding: Chunked, Expire: testNow}), AppendRef(nil, Ref{1, 2, 3})...))
	f.Add([]byte{0x13, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2})
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, row []byte) {
		m, err := decodeMeta(row)
		if err != nil {
			if !errors.Is(err, engine.ErrCorrupt) || m.Exists() {
				t.Fatalf("% x: %v, %+v", row, err, m)
			}
			return
		}
		if !m.Exists() || m.Expire < 0 {
			t.Fatalf("% x: %+v", row, m)
		}
		if again := append(appendMetaHead(nil, m), m.Body...); !bytes.Equal(again, row) {
			t.Fatalf("% x became % x", row, again)
		}
		if m.External() {
			if again := AppendRef(nil, m.Ref()); !bytes.Equal(again, m.Body[:refSize]) {
				t.Fatalf("ref % x became % x", m.Body[:refSize], again)
			}
		}
	})
}

func FuzzMetaRoundTrip(f *testing.F) {
	f.Add(byte(1), byte(2), int64(testNow), []byte("body"))
	f.Add(byte(6), byte(15), int64(0), []byte{})
	f.Fuzz(func(t *testing.T, kind, encoding byte, expire int64, body []byte) {
		in := Meta{Type: Type(1 + kind%6), Encoding: Encoding(encoding % 16), Expire: expire & math.MaxInt64, Body: body}
		need := in.refLen()
		if in.Timed() {
			need += FieldTimesSize
		}
		if len(body) < need {
			return
		}
		out, err := decodeMeta(append(appendMetaHead(nil, in), in.Body...))
		if err != nil || out.Type != in.Type || out.Encoding != in.Encoding || out.Expire != in.Expire || !bytes.Equal(out.Body, in.Body) {
			t.Fatalf("%+v became %+v, %v", in, out, err)
		}
	})
}

func FuzzRefRoundTrip(f *testing.F) {
	f.Add(uint64(1), uint16(2), int64(3))
	f.Fuzz(func(t *testing.T, id uint64, home uint16, size int64) {
		in := Ref{id, home, size}
		if out := (Meta{Body: AppendRef(nil, in)}).Ref(); out != in {
			t.Fatalf("%+v became %+v", in, out)
		}
	})
}

func FuzzDecodeExpireKey(f *testing.F) {
	f.Add(appendExpireKey(nil, 12182, testNow, 1, []byte("foo")))
	f.Add([]byte{0, 0, kindExpire})
	f.Fuzz(func(t *testing.T, row []byte) {
		r, err := decodeExpireKey(row)
		if err != nil {
			if !errors.Is(err, engine.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again := appendExpireKey(nil, r.slot, r.at, r.ks, r.key)
		if !bytes.Equal(again[2:], row[2:]) { // the group is not kept but follows from the slot
			t.Fatalf("% x became % x", row, again)
		}
	})
}

// Expire rows of one group sort by time, whatever their keys are.
func FuzzExpireKeysSortByTime(f *testing.F) {
	f.Add(int64(1), int64(2), uint16(0), uint16(63), uint32(5), uint32(4), []byte("b"), []byte("a"))
	f.Add(int64(255), int64(256), uint16(1), uint16(0), uint32(0), uint32(1<<31), []byte{}, []byte{255})
	f.Fuzz(func(t *testing.T, at1, at2 int64, slot1, slot2 uint16, ks1, ks2 uint32, key1, key2 []byte) {
		at1, at2 = at1&math.MaxInt64, at2&math.MaxInt64
		group := slot1 % Slots &^ (expireGroup - 1)
		slot1, slot2 = group|slot1%expireGroup, group|slot2%expireGroup
		a, b := appendExpireKey(nil, slot1, at1, ks1, key1), appendExpireKey(nil, slot2, at2, ks2, key2)
		if got := bytes.Compare(a, b); at1 != at2 && (got < 0) != (at1 < at2) {
			t.Fatalf("times %d and %d: % x against % x is %d", at1, at2, a, b, got)
		}
		r, err := decodeExpireKey(a)
		if err != nil || r.at != at1 || r.slot != slot1 || r.ks != ks1 || !bytes.Equal(r.key, key1) {
			t.Fatalf("% x is %+v, %v", a, r, err)
		}
	})
}

// A slot's rows lie between the slot's number and the next one's, meta rows of
// a keyspace lie together and sort by key, and system rows come last.
func FuzzRowsOfASlotLieTogether(f *testing.F) {
	f.Add(uint16(5), uint32(7), []byte("key"), []byte("other"), uint64(9))
	f.Add(uint16(Slots-1), uint32(math.MaxUint32), []byte{}, []byte{255, 255}, uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, slot uint16, ks uint32, key1, key2 []byte, id uint64) {
		slot %= Slots
		a, b := appendMetaKey(nil, slot, ks, key1), appendMetaKey(nil, slot, ks, key2)
		if bytes.Compare(a, b) != bytes.Compare(key1, key2) {
			t.Fatalf("% x and % x sort otherwise than their keys", a, b)
		}
		head := a[:metaKeyHead]
		hi := successor(head)
		if !inside(a, head, hi) || !inside(b, head, hi) || inside(appendMetaKey(nil, slot, ks+1, nil), head, hi) && ks+1 != 0 {
			t.Fatal("a keyspace's range does not hold its keys alone")
		}
		first := []byte{byte(slot >> 8), byte(slot)}
		next := []byte{byte((slot + 1) >> 8), byte(slot + 1)}
		for _, row := range [][]byte{
			a, appendPart(nil, slot, kindSub, id), appendPart(nil, slot, kindRank, id),
		} {
			if !inside(row, first, next) || !inside(row, nil, sysKey(0)) {
				t.Fatalf("row % x is not in slot %d", row, slot)
			}
		}
		garbage := appendGarbageKey(nil, slot, id)
		if lo, hi := garbageRange(int(slot) / expireGroup); !inside(garbage, lo, hi) || !isGarbage(garbage) {
			t.Fatalf("garbage row % x is not in its group", garbage)
		}
		if r := decodeGarbageKey(garbage); r != (Ref{ID: id, Home: slot}) {
			t.Fatalf("garbage row of %v", r)
		}
		part := appendPart(nil, slot, kindSub, id)
		if end := successor(part); !inside(append(part, key1...), part, end) || id != math.MaxUint64 && inside(appendPart(nil, slot, kindSub, id+1), part, end) {
			t.Fatal("a value's range does not hold its rows alone")
		}
	})
}

func inside(row, lo, hi []byte) bool {
	return bytes.Compare(lo, row) <= 0 && bytes.Compare(row, hi) < 0
}

func FuzzSuccessor(f *testing.F) {
	f.Add([]byte("ab"), []byte("c"))
	f.Add([]byte{255, 255}, []byte{})
	f.Fuzz(func(t *testing.T, prefix, rest []byte) {
		row := append(append([]byte{}, prefix...), rest...)
		s := successor(prefix)
		if s == nil {
			if len(bytes.TrimLeft(prefix, "\xff")) > 0 {
				t.Fatalf("% x has no successor", prefix)
			}
			return
		}
		if !inside(row, prefix, s) {
			t.Fatalf("% x is not before % x", row, s)
		}
		if bytes.HasPrefix(s, prefix) {
			t.Fatalf("% x begins with % x", s, prefix)
		}
	})
}

func TestTypeNames(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Type]string{None: "none", String: "string", List: "list", Set: "set", ZSet: "zset", Hash: "hash", Stream: "stream", 9: "type-9"} {
		equal(t, "name", kind.String(), want)
	}
}
