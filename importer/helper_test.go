package importer

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/engine/mem"
	"redoubt/exporter"
	"redoubt/internal/rdbtext"
	"redoubt/internal/sharedmem"
	"redoubt/internal/typestest"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/rdb"
	"redoubt/script"
	"redoubt/types/check"
	"redoubt/types/str"
)

const now = typestest.SomeTime

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openLocal opens a local store with little memory; it is closed by the test's end, or by
// the function that is returned.
func openLocal(t testing.TB, dir string) (*local.Engine, func()) {
	t.Helper()
	eng, err := local.Open(local.Options{
		Dir: filepath.Join(dir, "local"), Memory: 16 << 20, SegmentBytes: 256 << 10,
		Fsync: journal.No, Unit: keyspace.Unit, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	open := true
	end := func() {
		if open {
			open = false
			must(t, eng.Close())
		}
	}
	t.Cleanup(end)
	return eng, end
}

// engines are new stores of each kind.
func engines(t testing.TB) map[string]engine.Engine {
	shared := sharedmem.New().Open()
	t.Cleanup(func() { must(t, shared.Close()) })
	eng, _ := openLocal(t, t.TempDir())
	return map[string]engine.Engine{"mem": mem.New(), "local": eng, "shared": shared}
}

// options are those of a test's import.
func options() Options {
	return Options{Now: now, Libraries: func(sources []string) error {
		e := script.New(script.Options{
			Version: "7.4.1", Memory: func() int64 { return 64 << 20 }, Logger: slog.New(slog.DiscardHandler),
			Threshold: func() time.Duration { return time.Second },
		})
		return e.CheckLibraries(sources)
	}}
}

// load imports an RDB file and finishes; after an error the import is abandoned.
func load(t testing.TB, eng engine.Engine, file []byte, o Options) (Result, error) {
	t.Helper()
	return run(t, eng, o, func(i *Import) error {
		_, _, err := i.RDB(bytes.NewReader(file), false)
		return err
	})
}

func run(t testing.TB, eng engine.Engine, o Options, read func(i *Import) error) (Result, error) {
	t.Helper()
	i, err := Begin(t.Context(), eng, o)
	must(t, err)
	if err := read(i); err != nil {
		must(t, i.Abandon())
		return i.Result, err
	}
	if err := i.Finish(); err != nil {
		must(t, i.Abandon())
		return i.Result, err
	}
	return i.Result, nil
}

// export is the data of a store as an RDB file.
func export(t testing.TB, eng engine.Engine, at int64) []byte {
	t.Helper()
	snap, err := eng.Snapshot()
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	e, err := exporter.Open(snap, eng.Capabilities(), exporter.Options{Now: at, RedisVersion: "7.4.1", Channels: exporter.Keep})
	must(t, err)
	var b bytes.Buffer
	must(t, e.Write(&b))
	return b.Bytes()
}

// data is the data of a store as text.
func data(t testing.TB, eng engine.Engine) map[string]string {
	t.Helper()
	return text(t, export(t, eng, now))
}

func text(t testing.TB, file []byte) map[string]string {
	t.Helper()
	keys, err := rdbtext.Keys(bytes.NewReader(file))
	must(t, err)
	return keys
}

// sound checks all rows of a store, and that there is no garbage in it.
func sound(t testing.TB, eng engine.Engine) {
	t.Helper()
	snap, err := eng.Snapshot()
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	counters := make(map[string]int64)
	for ks := range uint16(300) {
		for _, what := range []byte{2, 3} {
			name := []byte{0xff, what, 0, 0, byte(ks >> 8), byte(ks)}
			n, err := eng.Counter(name)
			must(t, err)
			if n != 0 {
				counters[string(name)] = n
			}
		}
	}
	keyspace.Check(snap, counters, check.Examine, func(kind, place, what string) { t.Errorf("%s: %s: %s", kind, place, what) }, nil)
	if eng.Capabilities().CheapRangeDelete {
		garbage := 0
		must(t, keyspace.EachGarbage(snap, func([]byte, [][2][]byte) error { garbage++; return nil }))
		if garbage > 0 {
			t.Errorf("%d values are garbage", garbage)
		}
	}
}

// dead says whether there are keyspaces to be cleared.
func dead(t testing.TB, eng engine.Engine) bool {
	t.Helper()
	snap, err := eng.Snapshot()
	must(t, err)
	defer func() { must(t, snap.Close()) }()
	some, err := new(keyspace.Space).Dead(snap)
	must(t, err)
	return some
}

// old puts data into a store, as a server would have it, and returns it as text.
func old(t testing.TB, eng engine.Engine) map[string]string {
	t.Helper()
	f := typestest.On(t, eng, 16)
	for db := range 3 {
		f.DoIn(db, func(tx *keyspace.Tx) {
			for i := range 20 {
				str.Set(tx, fmt.Append(nil, "old", i), keyspace.Meta{}, fmt.Append(nil, db), int64(i%2)*(now+1000))
			}
		})
	}
	f.Do(func(tx *keyspace.Tx) {
		tx.PutLibrary("old", "#!lua name=old\nredis.register_function('old', function() end)")
	})
	return data(t, eng)
}

// recorded are the files that servers wrote.
func recorded(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../rdb/testdata/file-*.rdb")
	must(t, err)
	files := make(map[string][]byte)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		must(t, err)
		files[filepath.Base(p)] = b
	}
	if len(files) < 4 {
		t.Fatalf("only %d files", len(files))
	}
	return files
}

// written is a file that a function writes.
func written(t testing.TB, write func(w *rdb.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	w := rdb.NewWriter(&b, rdb.VersionRedis74)
	write(w)
	must(t, w.End())
	return b.Bytes()
}

// someStrings is a file of strings.
func someStrings(t testing.TB, n int) []byte {
	return written(t, func(w *rdb.Writer) {
		for i := range n {
			w.Key(fmt.Append(nil, "new", i), 0).String(fmt.Append(nil, "value ", i))
			must(t, w.EndKey())
		}
	})
}
