package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"
)

// FuzzDecode reads anything as a value. Nothing may panic or take much memory; what
// is accepted can be written and read again.
func FuzzDecode(f *testing.F) {
	for _, path := range recordedFiles(f) {
		for _, p := range recorded(f, path) {
			if len(p) < 10000 {
				f.Add(p[:len(p)-footer])
			}
		}
	}
	for _, o := range append(oldValues(), timedValues()...) {
		if len(o.payload) < 10000 {
			f.Add(o.payload[:len(o.payload)-footer])
		}
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		p := binary.LittleEndian.AppendUint16(bytes.Clone(value), 11)
		p = binary.LittleEndian.AppendUint64(p, Checksum(0, p))
		const most = 1 << 20
		text, err := describe(p, Options{MaxString: most})
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		again, err := encode(p, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := describe(again, Options{}); err != nil || got != text {
			t.Fatalf("%v\n got %.1000s\nwant %.1000s", err, got, text)
		}
	})
}

// FuzzLZF compresses and uncompresses.
func FuzzLZF(f *testing.F) {
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("abcabcabcabcabcabcabcabcabdabcabcabcabcabcabcabc"))
	f.Add(bytes.Repeat([]byte("0123456789"), 2000))
	f.Add([]byte(noise(500)))
	f.Fuzz(func(t *testing.T, src []byte) {
		var seen [1 << lzfHashBits]int32
		for i := range seen { // anything may be left from another string
			seen[i] = int32(i * 7)
		}
		packed, ok := pack([]byte("before"), src, &seen)
		if !ok {
			if string(packed) != "before" {
				t.Fatalf("%q was left", packed)
			}
			return
		}
		packed = packed[len("before"):]
		if len(packed) >= len(src) {
			t.Fatalf("%d bytes became %d", len(src), len(packed))
		}
		whole, err := unpackAll(nil, packed, int64(len(src)))
		if err != nil || !bytes.Equal(whole, src) {
			t.Fatalf("%v: %q", err, whole)
		}
		var pieces []byte
		err = unpack(packed, int64(len(src)), func(b []byte) error {
			pieces = append(pieces, b...)
			return nil
		})
		if err != nil || !bytes.Equal(pieces, src) {
			t.Fatalf("%v: %q", err, pieces)
		}
	})
}

// FuzzFile reads anything as a file. Nothing may panic, nor take memory for what is only
// announced; and it is read the same however the bytes come.
func FuzzFile(f *testing.F) {
	for _, path := range recordedRDB(f) {
		f.Add(load(f, path))
	}
	f.Add(sampleFile(f))
	f.Fuzz(func(t *testing.T, file []byte) {
		o := Options{MaxString: 1 << 20, SkipChecksum: true}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, keys, others, err := readFile(bytes.NewReader(file), o)
		runtime.ReadMemStats(&after)
		// What is compressed becomes longer, and its description again.
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20+uint64(len(file))*lzfRatio*64 {
			t.Errorf("%d bytes were allocated for a file of %d", n, len(file))
		}
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrEarlyFunction) {
			t.Fatal(err)
		}
		_, again, othersAgain, errAgain := readFile(iotest.OneByteReader(bytes.NewReader(file)), o)
		// The place of an error is about that, and depends on what was at hand.
		what := func(err error) string {
			var at *FileError
			if errors.As(err, &at) {
				err = at.Err
			}
			return fmt.Sprint(err)
		}
		if what(err) != what(errAgain) || len(keys) != len(again) || !slices.Equal(others, othersAgain) {
			t.Fatalf("%v with %d keys, byte by byte %v with %d", err, len(keys), errAgain, len(again))
		}
		for key, k := range keys {
			if again[key] != k {
				t.Fatalf("%q is %v, byte by byte %v", key, k, again[key])
			}
		}
	})
}
