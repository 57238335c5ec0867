package check_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden file of the present format version")

type row struct{ key, value []byte }

// rowsOf are all rows of a store.
func rowsOf(t testing.TB, s *typestest.Store) (list []row) {
	t.Helper()
	snap, err := s.Eng.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	it := snap.Iter(nil, nil, false)
	for it.Next() {
		list = append(list, row{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestGoldenRows compares the rows that each step changes with the golden file of
// this format version. If it fails, a value that an older program wrote would be
// misread: see keyspace's test of the same name, and Versions in FORMAT.md.
func TestGoldenRows(t *testing.T) {
	t.Parallel()
	path := fmt.Sprintf("testdata/rows-v%d.txt", keyspace.FormatVersion)
	var b strings.Builder
	fmt.Fprintf(&b, "# The rows of collections in format version %d after each of some operations: + new or changed,\n"+
		"# - deleted. Key and value in hexadecimal. Written by TestGoldenRows.\n", keyspace.FormatVersion)
	s := typestest.New(t)
	before := map[string]string{}
	for _, r := range rowsOf(t, s) {
		before[hex.EncodeToString(r.key)] = hex.EncodeToString(r.value)
	}
	for _, st := range steps {
		s.Do(st.run)
		fmt.Fprintf(&b, "\n# %s\n", st.name)
		after := map[string]string{}
		for _, r := range rowsOf(t, s) {
			key, val := hex.EncodeToString(r.key), hex.EncodeToString(r.value)
			after[key] = val
			many := r.key[0] < 0x40 && (r.key[2] == byte(keyspace.SubRow) || r.key[2] == byte(keyspace.ScoreRow))
			if old, ok := before[key]; (!ok || old != val) && (st.only == 0 || !many) {
				fmt.Fprintf(&b, "+ %s %s\n", key, val)
			}
		}
		var gone []string
		for key := range before {
			if _, ok := after[key]; !ok {
				gone = append(gone, key)
			}
		}
		slices.Sort(gone)
		for _, key := range gone {
			fmt.Fprintf(&b, "- %s\n", key)
		}
		before = after
	}
	text := strings.ReplaceAll(b.String(), " \n", "\n")
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(text, "\n"), strings.Split(string(file), "\n")
	for i := range max(len(got), len(want)) {
		g, w := "(the end)", "(the end)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("%s:%d: the rows differ: a changed format needs a new version\n got %s\nwant %s", path, i+1, g, w)
		}
	}
}
