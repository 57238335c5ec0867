package rdb

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded reads the payloads that servers of some version dumped.
func recorded(t testing.TB, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list := make(map[string][]byte)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), " ")
		if !ok || name == "#" {
			continue
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatalf("%s: %s: %v", path, name, err)
		}
		list[name] = b
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func recordedFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/redis-*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("recorded payloads: %v %v", files, err)
	}
	return files
}

func versionOf(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "redis-"), ".txt")
}

// What servers wrote is read as what it is, and what we write of it is the same.
func TestRecorded(t *testing.T) {
	t.Parallel()
	codes := make(map[byte]int)
	for _, path := range recordedFiles(t) {
		list := recorded(t, path)
		for _, s := range samples() {
			if s.since > versionOf(path) {
				continue
			}
			payload, ok := list[s.name]
			if !ok {
				t.Errorf("%s has no %s", path, s.name)
				continue
			}
			codes[payload[0]]++
			got, err := describe(payload, Options{})
			if want := s.wanted(); got != want || err != nil {
				t.Errorf("%s %s: %v\n got %.1000s\nwant %.1000s", path, s.name, err, got, want)
				continue
			}
			for _, compress := range []bool{false, true} {
				ours, err := encode(payload, compress)
				if err != nil {
					t.Fatal(err)
				}
				if again, err := describe(ours, Options{}); err != nil || again != got {
					t.Errorf("%s %s, compress %v: %v\n got %.1000s\nwant %.1000s", path, s.name, compress, err, again, got)
				}
				if compress && len(payload) > 10000 && len(ours) > len(payload)*3/2 {
					t.Errorf("%s: %d bytes, Redis has %d", s.name, len(ours), len(payload))
				}
			}
		}
	}
	for _, code := range []byte{typeString, typeSet, typeHash, typeZSet2, typeSetIntset, typeHashListpack, typeZSetListpack,
		typeListQuicklist2, typeStream2, typeSetListpack, typeStream3, typeHashTimed, typeHashListpackEX} {
		if codes[code] == 0 {
			t.Errorf("no sample has type %d", code)
		}
	}
}

// A payload that was damaged anywhere is refused.
func TestDamage(t *testing.T) {
	t.Parallel()
	list := recorded(t, "testdata/redis-7.2.6.txt")
	for _, name := range []string{"string-5", "list-listpack", "stream-groups"} {
		payload := list[name]
		for i := range payload {
			bad := append([]byte(nil), payload...)
			bad[i] ^= 0x10
			if _, err := describe(bad, Options{}); !errors.Is(err, ErrPayload) {
				t.Fatalf("%s: byte %d changed: %v", name, i, err)
			}
			if _, err := describe(payload[:i], Options{}); !errors.Is(err, ErrPayload) {
				t.Fatalf("%s: cut at %d: %v", name, i, err)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version uint16
		err     error
	}{{1, nil}, {6, nil}, {10, nil}, {12, nil}, {13, ErrPayload}, {80, ErrPayload}, {0xffff, ErrPayload}} {
		e := Encoder{}
		e.String([]byte("x"))
		e.version = c.version
		payload := e.End()
		if _, err := Open(payload, Options{}); !errors.Is(err, c.err) {
			t.Errorf("version %d: %v, want %v", c.version, err, c.err)
		}
		if _, err := Open(payload, Options{SkipChecksum: true}); !errors.Is(err, c.err) {
			t.Errorf("version %d without checksum: %v, want %v", c.version, err, c.err)
		}
	}
	for kind, want := range map[string]uint16{"string": 6, "list": 6, "hash": 6, "zset": 8, "stream": 10, "active": 11, "timed": 12} {
		e := Encoder{}
		switch kind {
		case "string":
			e.String(nil)
		case "list":
			e.BeginList()
		case "hash":
			e.BeginHash()
		case "zset":
			e.BeginZSet()
		case "stream", "active":
			e.BeginStream(kind == "active")
			e.EndEntries(StreamInfo{})
		case "timed":
			e.BeginTimedHash(1)
		}
		if e.version != want {
			t.Errorf("%s is written as version %d, want %d", kind, e.version, want)
		}
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	// The check value of this CRC.
	if got := Checksum(0, []byte("123456789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("%#x", got)
	}
	if got := Checksum(Checksum(0, []byte("1234")), []byte("56789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("in two parts: %#x", got)
	}
}

// The visitor's error is returned as it is, from wherever it comes.
func TestVisitorsError(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for name, payload := range recorded(t, "testdata/redis-7.4.1.txt") {
		v, err := Open(payload, Options{})
		if err != nil {
			t.Fatal(err)
		}
		switch v.Kind {
		case String:
			err = v.String(func(int64, []byte) error { return stop })
			if len(payload) == 2+footer { // empty
				err = stop
			}
		case List:
			err = v.List(func([]byte) error { return stop })
		case Set:
			err = v.Set(func([]byte) error { return stop })
		case ZSet:
			err = v.ZSet(func([]byte, float64) error { return stop })
		case Hash:
			err = v.Hash(func(_, _ []byte, _ int64) error { return stop })
		case Stream:
			continue
		}
		if !errors.Is(err, stop) {
			t.Errorf("%s: %v", name, err)
		}
	}
	payload := recorded(t, "testdata/redis-7.4.1.txt")["stream-groups"]
	var d describer
	v, _ := Open(payload, Options{})
	if err := d.visit(v); err != nil {
		t.Fatal(err)
	}
	for after := range strings.Count(d.stream.String(), "\n") {
		v, _ := Open(payload, Options{})
		if err := v.Stream(&stopping{left: after, err: stop}); !errors.Is(err, stop) {
			t.Errorf("after %d visits: %v", after, err)
		}
	}
	if err := v.Set(nil); err == nil {
		t.Error("a stream was read as a set")
	}
}

// stopping is a visitor that fails after some visits.
type stopping struct {
	left int
	err  error
}

func (s *stopping) visit() error {
	if s.left--; s.left < 0 {
		return s.err
	}
	return nil
}

func (s *stopping) Entry(ID, [][]byte) error            { return s.visit() }
func (s *stopping) Info(StreamInfo) error               { return s.visit() }
func (s *stopping) Group([]byte, ID, int64) error       { return s.visit() }
func (s *stopping) Consumer([]byte, int64, int64) error { return s.visit() }
func (s *stopping) Pending(ID, int64, uint64) error     { return s.visit() }

// A string is passed on in pieces, and a string that says it is longer than allowed
// is refused before memory is taken for it.
func TestLongStrings(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 30000)
	e := Encoder{Compress: true}
	e.String([]byte(text))
	payload := e.End()
	if len(payload) > len(text)/20 {
		t.Fatalf("%d bytes", len(payload))
	}
	v, err := Open(payload, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	longest := 0
	err = v.String(func(size int64, b []byte) error {
		longest = max(longest, len(b))
		if size != int64(len(text)) {
			return fmt.Errorf("size %d", size)
		}
		got.Write(b)
		return nil
	})
	if err != nil || got.String() != text {
		t.Errorf("%v, %d bytes", err, got.Len())
	}
	if longest > 2*lzfPiece {
		t.Errorf("a piece of %d bytes", longest)
	}
	for _, most := range []int64{1, int64(len(text) - 1)} {
		if _, err := describe(payload, Options{MaxString: most}); !errors.Is(err, ErrFormat) {
			t.Errorf("with at most %d bytes: %v", most, err)
		}
	}
}
