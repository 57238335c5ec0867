package keyspace

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden file of the present format version")

// goldenSteps are the fixed operations whose rows the golden file holds. They
// only grow: a step that is in a released golden file stays as it is.
var goldenSteps = []struct {
	name string
	db   int
	run  func(*Tx)
}{
	{"an empty store", 0, func(*Tx) {}},
	{"a string: foo = bar", 0, func(tx *Tx) {
		tx.Store([]byte("foo"), Meta{}, Meta{Type: String, Encoding: Embedded, Body: []byte("bar")})
	}},
	{"an integer in database 1 that expires: {foo}n = 42", 1, func(tx *Tx) {
		tx.Store([]byte("{foo}n"), Meta{}, Meta{Type: String, Encoding: Int, Expire: testNow + 1000, Body: []byte("42")})
	}},
	{"a raw string with an empty name", 0, func(tx *Tx) {
		tx.Store(nil, Meta{}, Meta{Type: String, Encoding: Raw, Body: []byte{0, 255}})
	}},
	{"a chunked string of two rows: big", 0, func(tx *Tx) { putExternal(tx, "big", 2, 0) }},
	{"big is renamed to {foo}big and stays at home", 0, func(tx *Tx) {
		m := tx.Find([]byte("big"))
		tx.Detach([]byte("big"), m)
		tx.Store([]byte("{foo}big"), Meta{}, m)
	}},
	{"a chunked string is removed: gone", 2, func(tx *Tx) {
		putExternal(tx, "gone", 1, 0)
		tx.Remove([]byte("gone"), tx.Find([]byte("gone")))
	}},
	{"database 2 is flushed with the key old in it", 2, func(tx *Tx) {
		put(tx, "old", "", 0)
		tx.Flush(2)
	}},
	{"databases 1 and 3 are swapped", 0, func(tx *Tx) { tx.Swap(1, 3) }},
	{"a library is stored, and another one that is deleted again", 0, func(tx *Tx) {
		tx.PutLibrary("lib", "#!lua name=lib\nredis.register_function('f', function() end)")
		tx.PutLibrary("gone", "#!lua name=gone\n")
		tx.DeleteLibrary("gone")
	}},
}

// TestGoldenRows compares every row after each of the steps with the golden
// file of this format version. If it fails, a store that an older program wrote
// would be misread: raise FormatVersion, say in FORMAT.md what changed, and
// write a new golden file with -rewrite. The old one stays.
func TestGoldenRows(t *testing.T) {
	t.Parallel()
	path := fmt.Sprintf("testdata/rows-v%d.txt", FormatVersion)
	var b strings.Builder
	fmt.Fprintf(&b, "# The rows of format version %d after each of some operations: + new or changed, - deleted,\n"+
		"# = a counter. Key and value in hexadecimal. Written by TestGoldenRows.\n", FormatVersion)
	s := newTestStore(t)
	before, sums := map[string]string{}, map[string]int64{}
	for i, step := range goldenSteps {
		s.now = testNow + int64(i)
		s.do(step.db, step.run)
		fmt.Fprintf(&b, "\n# %s\n", step.name)
		after := map[string]string{}
		s.eachRow(func(k, v []byte) {
			key, val := hex.EncodeToString(k), hex.EncodeToString(v)
			after[key] = val
			if old, ok := before[key]; !ok || old != val {
				fmt.Fprintf(&b, "+ %s %s\n", key, val)
			}
		})
		for _, key := range sortedKeys(before) {
			if _, ok := after[key]; !ok {
				fmt.Fprintf(&b, "- %s\n", key)
			}
		}
		before = after
		for ks := range uint32(testDatabases + 2) {
			for _, what := range []byte{sysKeys, sysVolatile} {
				key := appendSysKey32(nil, what, ks)
				n, err := s.eng.Counter(key)
				if err != nil {
					t.Fatal(err)
				}
				if name := hex.EncodeToString(key); n != sums[name] {
					fmt.Fprintf(&b, "= %s %d\n", name, n)
					sums[name] = n
				}
			}
		}
	}
	text := strings.ReplaceAll(b.String(), " \n", "\n")
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Split(text, "\n"), strings.Split(string(want), "\n"); text != strings.Join(want, "\n") {
		for i := range got {
			if i >= len(want) || got[i] != want[i] {
				t.Fatalf("%s:%d: the rows differ: a changed format needs a new version\n got %s\nwant %s",
					path, i+1, got[i], append(want, "", "")[min(i, len(want))])
			}
		}
		t.Fatalf("%s has %d lines more", path, len(want)-len(got))
	}
}

// TestGoldenRowsAreRead loads the rows of the golden file into a store and
// reads the keys back.
func TestGoldenRowsAreRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(fmt.Sprintf("testdata/rows-v%d.txt", FormatVersion))
	if err != nil {
		t.Fatal(err)
	}
	eng := mem.New()
	var batch engine.Batch
	for _, line := range strings.Split(string(text), "\n") {
		f := append(strings.Fields(line), "", "", "")
		key, err := hex.DecodeString(f[1])
		if f[0] == "#" || f[0] == "" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		switch f[0] {
		case "+":
			val, err := hex.DecodeString(f[2])
			if err != nil {
				t.Fatal(err)
			}
			batch.Put(key, val)
		case "-":
			batch.Delete(key)
		}
	}
	view, err := eng.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := view.Commit(&batch); err != nil {
		t.Fatal(err)
	}
	view.Close()
	s := openStore(t, eng)
	equal(t, "foo", s.get(0, "foo"), "bar")
	equal(t, "the empty name", s.get(0, ""), "\x00\xff")
	equal(t, "{foo}n in its old place", s.get(1, "{foo}n"), "(none)")
	equal(t, "{foo}n", s.get(3, "{foo}n"), "42")
	equal(t, "old", s.get(2, "old"), "(none)")
	s.do(0, func(tx *Tx) {
		equal(t, "{foo}big", external(tx, tx.Find([]byte("{foo}big"))), []string{"big/0", "big/1"})
	})
	s.now = testNow + 1000
	equal(t, "expired", s.sweep(), 1)
	s.clear(10)
	n := s.rows()
	equal(t, "rows in the end", []int{n[kindMeta], n[kindSub], n[kindExpire], n[kindGarbage]}, []int{3, 2, 0, 0})
}

func sortedKeys(m map[string]string) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
