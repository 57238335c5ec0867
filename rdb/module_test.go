package rdb

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

func TestModule(t *testing.T) {
	t.Parallel()
	var e Encoder
	e.BeginModule("redoubtch", 1)
	e.Uint(7)
	e.Uint(math.MaxUint64)
	e.Bytes([]byte("text"))
	e.EndModule()
	payload := bytes.Clone(e.End())
	read := func(payload []byte, name string, version uint64) (*ModuleReader, error) {
		v, err := Open(payload, Options{SkipChecksum: true})
		if err != nil {
			t.Fatal(err)
		}
		return v.Module(name, version)
	}
	r, err := read(payload, "redoubtch", 1)
	if err != nil {
		t.Fatal(err)
	}
	if a, b, s := r.Uint(), r.Uint(), string(r.Bytes()); a != 7 || b != math.MaxUint64 || s != "text" || r.End() != nil {
		t.Errorf("read %d, %d, %q, %v", a, b, s, r.Err())
	}
	for _, other := range []struct {
		name    string
		version uint64
	}{{"redoubtch", 2}, {"redoubtxx", 1}} {
		if _, err := read(payload, other.name, other.version); !errors.Is(err, ErrFormat) {
			t.Errorf("read as %v: %v", other, err)
		}
	}
	if r, err = read(payload, "redoubtch", 1); err != nil {
		t.Fatal(err)
	}
	if b := r.Bytes(); b != nil || !errors.Is(r.Err(), ErrFormat) || r.Uint() != 0 || !errors.Is(r.End(), ErrFormat) {
		t.Errorf("a number read as a string: %q, %v", b, r.Err())
	}
	for cut := 2; cut < len(payload)-footer; cut++ { // what is missing is told
		short := append(bytes.Clone(payload[:cut]), payload[len(payload)-footer:]...)
		r, err := read(short, "redoubtch", 1)
		if err == nil {
			r.Uint()
			r.Uint()
			r.Bytes()
			err = r.End()
		}
		if !errors.Is(err, ErrFormat) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}
