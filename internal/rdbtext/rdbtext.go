// Package rdbtext turns RDB files into text, for tests that compare the data of two of them:
// equal data has equal text, whatever the order of the keys and their encodings.
package rdbtext

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"redoubt/rdb"
)

// Keys returns the text of each key of a file, by "database name", and of each library of
// functions, by "library name". Equal data has equal text, whatever the order and the
// encoding.
func Keys(in io.Reader) (map[string]string, error) {
	f, err := rdb.NewFile(in, rdb.Options{})
	if err != nil {
		return nil, err
	}
	keys := make(map[string]string)
	for {
		i, err := f.Next()
		switch {
		case err == io.EOF:
			return keys, nil
		case err != nil:
			return nil, err
		case i.What == rdb.Library:
			line, _, _ := strings.Cut(string(i.Text), "\n")
			keys["library "+line] = string(i.Text)
		case i.What == rdb.Key:
			name := fmt.Sprintf("%d %s", i.DB, i.Key)
			text, err := value(i.Value)
			if err != nil {
				return nil, f.Failed(err)
			}
			keys[name] = fmt.Sprintf("expires %d\n%s", i.Expire, text)
		}
	}
}

// Same fails the test unless both have the same keys.
func Same(t testing.TB, got, want map[string]string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if a, b := got[key], want[key]; a != b {
			n := 0 // they are the same up to here
			for n < min(len(a), len(b)) && a[n] == b[n] {
				n++
			}
			from := max(0, n-100)
			t.Errorf("%.100q differs at byte %d, where it is %.300q\nwant %.300q", key, n, a[from:], b[from:])
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("there is %.100q, which should not be", key)
		}
	}
}

func value(v *rdb.Value) (string, error) {
	var lines []string
	add := func(format string, args ...any) error {
		lines = append(lines, fmt.Sprintf(format, args...))
		return nil
	}
	var whole bytes.Buffer
	var err error
	switch v.Kind {
	case rdb.String:
		err = v.String(func(_ int64, b []byte) error { whole.Write(b); return nil })
		lines = []string{whole.String()}
	case rdb.List:
		err = v.List(func(b []byte) error { return add("%q", b) })
	case rdb.Set:
		err = v.Set(func(b []byte) error { return add("%q", b) })
	case rdb.ZSet:
		err = v.ZSet(func(b []byte, f float64) error { return add("%q %v", b, f+0) })
	case rdb.Hash:
		err = v.Hash(func(f, b []byte, at int64) error { return add("%q %q %d", f, b, at) })
	case rdb.Stream:
		err = v.Stream(stream{add})
	case rdb.Module:
		name, version := v.ModuleName()
		lines, err = []string{fmt.Sprint(name, version)}, v.Skip()
	}
	if v.Kind == rdb.Set || v.Kind == rdb.ZSet || v.Kind == rdb.Hash {
		slices.Sort(lines)
	}
	return fmt.Sprintf("kind %d\n%s", v.Kind, strings.Join(lines, "\n")), err
}

type stream struct {
	add func(format string, args ...any) error
}

func (s stream) Entry(id rdb.ID, fields [][]byte) error { return s.add("%v %q", id, fields) }
func (s stream) Info(i rdb.StreamInfo) error            { return s.add("%+v", i) }
func (s stream) Group(name []byte, last rdb.ID, read int64) error {
	return s.add("group %q %v %d", name, last, read)
}
func (s stream) Consumer(name []byte, seen, active int64) error {
	return s.add("consumer %q %d %d", name, seen, active)
}
func (s stream) Pending(id rdb.ID, delivered int64, count uint64) error {
	return s.add("pending %v %d %d", id, delivered, count)
}
