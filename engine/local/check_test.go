package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/journal"
)

// picture is the files below a directory, by path; a directory ends with a slash.
type picture map[string][]byte

func pictureOf(t testing.TB, fs vfs.FS, dir string) picture {
	t.Helper()
	p := picture{}
	var walk func(at string)
	walk = func(at string) {
		names, err := fs.List(fs.PathJoin(dir, at))
		must(t, err)
		for _, name := range names {
			path := fs.PathJoin(at, name)
			full := fs.PathJoin(dir, path)
			info, err := fs.Stat(full)
			must(t, err)
			if info.IsDir() {
				p[path+"/"] = nil
				walk(path)
				continue
			}
			b := make([]byte, info.Size())
			f, err := fs.Open(full)
			must(t, err)
			if len(b) > 0 {
				_, err = f.ReadAt(b, 0)
				must(t, err)
			}
			must(t, f.Close())
			p[path] = b
		}
	}
	walk("")
	return p
}

// file system with the picture in the directory "store".
func (p picture) paint(t testing.TB) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	for path, b := range p {
		full := fs.PathJoin("store", path)
		if strings.HasSuffix(path, "/") {
			must(t, fs.MkdirAll(full, 0o755))
			continue
		}
		must(t, fs.MkdirAll(fs.PathDir(full), 0o755))
		f, err := fs.Create(full, vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = f.Write(bytes.Clone(b)) // it may be spoilt
		must(t, err)
		must(t, f.Close())
	}
	return fs
}

// only returns the path of the one file that has the prefix and the suffix.
func (p picture) only(t testing.TB, prefix, suffix string) string {
	t.Helper()
	var found []string
	for path := range p {
		if strings.HasPrefix(path, prefix) && strings.HasSuffix(path, suffix) {
			found = append(found, path)
		}
	}
	if len(found) != 1 {
		t.Fatalf("files like %s*%s: %q", prefix, suffix, found)
	}
	return found[0]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func commit(t testing.TB, e *Engine, f func(b *engine.Batch)) {
	t.Helper()
	v, err := e.Begin(engine.ViewOptions{})
	must(t, err)
	defer v.Close()
	var b engine.Batch
	f(&b)
	_, err = v.Commit(&b)
	must(t, err)
}

// rowKey spreads rows over some parts.
func rowKey(i int) []byte { return []byte{byte(i % 5), byte(i), 1, byte(i >> 8), byte(i)} }

// fill commits rows, a few to a commit, and counts them.
func fill(t testing.TB, e *Engine, from, to int) {
	t.Helper()
	for i := from; i < to; i += 4 {
		commit(t, e, func(b *engine.Batch) {
			for n := i; n < min(i+4, to); n++ {
				b.Put(rowKey(n), bytes.Repeat([]byte{byte(n), byte(n * 7)}, 20+n%300))
				b.Add([]byte("count"), 1)
			}
			if i%40 == 0 && i > 0 {
				b.Delete(rowKey(i - 10))
				b.Add([]byte("count"), -1)
			}
		})
	}
}

// sampleStore is a store with tables from two rounds and records behind them, as
// a process that was killed leaves it, and the rows and counters that it has.
func sampleStore(t testing.TB) (picture, map[string]string) {
	t.Helper()
	fs := vfs.NewMem()
	e := opened(t, func(o *Options) { o.FS, o.SegmentBytes, o.Fsync = fs, 16<<10, journal.No })
	fill(t, e, 0, 200)
	must(t, e.Round())
	commit(t, e, func(b *engine.Batch) { b.DeleteRange([]byte{1}, []byte{1, 100}); b.Add([]byte("other"), -3) })
	fill(t, e, 200, 400)
	must(t, e.Round())
	fill(t, e, 400, 600)
	must(t, e.journal.Sync(uint64(e.Committed())))
	fill(t, e, 600, 640)
	p := pictureOf(t, fs, "store")
	want := rowsOf(t, e)
	want["counter count"] = fmt.Sprint(e.present.Load().counters.Get([]byte("count")))
	want["counter other"] = fmt.Sprint(e.present.Load().counters.Get([]byte("other")))
	must(t, e.Close())
	return p, want
}

func rowsOf(t testing.TB, e *Engine) map[string]string {
	t.Helper()
	s, err := e.Snapshot()
	must(t, err)
	defer s.Close()
	return readAll(t, s)
}

func readAll(t testing.TB, r engine.Reader) map[string]string {
	t.Helper()
	m := map[string]string{}
	it := r.Iter(nil, nil, false)
	for it.Next() {
		m[string(it.Key())] = string(it.Value())
	}
	must(t, it.Close())
	return m
}

// examined is what a check of a store says.
type examined struct {
	reports, notes []string
	readable       bool
	rows           map[string]string // with counters; nil if something is wrong
}

func examine(t testing.TB, fs vfs.FS) (x examined) {
	t.Helper()
	i, err := Inspect(InspectOptions{Dir: "store", FS: fs})
	must(t, err)
	defer func() { must(t, i.Close()) }()
	x.readable = i.Check(Checks{
		Report:   func(kind, place, what string) { x.reports = append(x.reports, kind+": "+place+": "+what) },
		Note:     func(text string) { x.notes = append(x.notes, text) },
		Progress: func(string, int64, int64) {},
	})
	if !x.readable || len(x.reports) > 0 {
		return x
	}
	s, err := i.State(nil)
	if err != nil {
		x.reports = append(x.reports, "state: "+err.Error())
		return x
	}
	defer s.Close()
	it := s.Iter(nil, nil, false)
	x.rows = map[string]string{}
	for it.Next() {
		x.rows[string(it.Key())] = string(it.Value())
	}
	if err := it.Close(); err != nil {
		x.reports, x.rows = append(x.reports, "rows: "+err.Error()), nil
		return x
	}
	for name, n := range s.Counters {
		x.rows["counter "+name] = fmt.Sprint(n)
	}
	return x
}

func (x examined) text() string {
	return strings.Join(slices.Concat(x.reports, x.notes), "\n")
}

// Looking at a store changes nothing, and shows what a server would.
func TestInspectChangesNothing(t *testing.T) {
	t.Parallel()
	p, want := sampleStore(t)
	fs := p.paint(t)
	before := pictureOf(t, fs, "store")
	x := examine(t, fs)
	if len(x.reports) > 0 {
		t.Errorf("a healthy store: %s", x.text())
	}
	if !maps.Equal(x.rows, want) {
		t.Errorf("%d rows, want %d", len(x.rows), len(want))
	}
	if after := pictureOf(t, fs, "store"); !maps.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("files before: %q\nafter: %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	e := opened(t, func(o *Options) { o.FS = fs })
	defer e.Close()
	if _, err := Inspect(InspectOptions{Dir: "store", FS: fs}); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("a store in use: %v", err)
	}
}

// A checkpoint is looked at like a store, and gets no lock file from that.
func TestInspectCheckpoint(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	e := opened(t, func(o *Options) { o.FS, o.Dir = fs, "server/local" })
	fill(t, e, 0, 300)
	must(t, e.Checkpoint("store"))
	want := rowsOf(t, e)
	want["counter count"] = fmt.Sprint(e.present.Load().counters.Get([]byte("count")))
	fill(t, e, 300, 320)
	before := pictureOf(t, fs, "store")
	x := examine(t, fs)
	if len(x.reports) > 0 || !maps.Equal(x.rows, want) {
		t.Errorf("%d rows, want %d; %s", len(x.rows), len(want), x.text())
	}
	if after := pictureOf(t, fs, "store"); !maps.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("it was changed: %q", slices.Sorted(maps.Keys(after)))
	}
	must(t, e.Close())
}

func TestInspectRefuses(t *testing.T) {
	t.Parallel()
	p, _ := sampleStore(t)
	for name, c := range map[string]struct {
		change func(picture)
		want   error
	}{
		"nothing at all":         {func(p picture) { clear(p) }, os.ErrNotExist},
		"an interrupted copy":    {func(p picture) { p["REDOUBT.tmp"] = p["REDOUBT"]; delete(p, "REDOUBT") }, engine.ErrFormat},
		"somebody else's":        {func(p picture) { p["REDOUBT"] = []byte("hello") }, engine.ErrFormat},
		"a store of another age": {func(p picture) { p["REDOUBT"] = []byte("redoubt store\nformat 99\nengine local\n") }, engine.ErrFormat},
	} {
		q := maps.Clone(p)
		c.change(q)
		if _, err := Inspect(InspectOptions{Dir: "store", FS: q.paint(t)}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	q := maps.Clone(p)
	q["REDOUBT.tmp"] = q["REDOUBT"]
	delete(q, "REDOUBT")
	i, err := Inspect(InspectOptions{Dir: "store", FS: q.paint(t), Unfinished: true})
	must(t, err)
	must(t, i.Close())
}

// A crash while a store is made leaves one that is empty, and well.
func TestCheckOfAStoreThatWasNeverFinished(t *testing.T) {
	t.Parallel()
	for _, p := range []picture{
		{"REDOUBT": []byte("redoubt store\nformat 1\nengine local\n")},
		{"REDOUBT": []byte("redoubt store\nformat 1\nengine local\n"), "journal/": nil, "store/": nil},
	} {
		if x := examine(t, p.paint(t)); len(x.reports) > 0 || len(x.rows) > 0 || !x.readable {
			t.Errorf("%q: %s", slices.Sorted(maps.Keys(p)), x.text())
		}
	}
}

func tables(p picture) (list []string) {
	for path := range p {
		if strings.HasSuffix(path, ".sst") {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

func segments(p picture) (list []string) {
	for path := range p {
		if strings.HasSuffix(path, ".jnl") {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// Every flipped bit of a table or of the journal is reported with its place, or
// is in bytes that nobody reads; rows are never others than they were.
func TestCheckFindsFlippedBits(t *testing.T) {
	t.Parallel()
	p, want := sampleStore(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	paths := append(tables(p), segments(p)...)
	paths = append(paths, p.only(t, "store/MANIFEST", ""))
	silent := 0
	for n := range 150 {
		path := paths[n%len(paths)]
		if len(p[path]) == 0 {
			continue
		}
		at, bit := rng.IntN(len(p[path])), rng.IntN(8)
		q := maps.Clone(p)
		q[path] = bytes.Clone(p[path])
		q[path][at] ^= 1 << bit
		x := examine(t, q.paint(t))
		base := path[strings.LastIndex(path, "/")+1:]
		switch said := strings.Contains(x.text(), base); {
		case !said && len(x.reports) == 0:
			// A record cut short here leaves fewer rows, and says so. What was
			// not said must not show.
			if silent++; !maps.Equal(x.rows, want) {
				t.Errorf("bit %d of byte %d of %s: nothing was reported, and rows differ", bit, at, path)
			}
		case !said && strings.HasSuffix(path, ".sst"):
			t.Errorf("bit %d of byte %d of %s: reported without its place: %s", bit, at, path, x.text())
		}
	}
	t.Logf("%d were in bytes that nobody reads", silent)
	if silent > 10 {
		t.Errorf("%d of 150 flipped bits were not noticed", silent)
	}
}

func TestCheckFindsWhatIsWrongWithFiles(t *testing.T) {
	t.Parallel()
	sample, _ := sampleStore(t)
	for _, c := range []struct {
		name  string
		wreck func(p picture)
		want  string // part of a report
		note  string // part of a note
	}{
		{"a table is missing", func(p picture) { delete(p, tables(p)[0]) }, "table: " + tables(sample)[0] + ": ", ""},
		{"a table is short", func(p picture) { p[tables(p)[0]] = p[tables(p)[0]][:500] }, "table: " + tables(sample)[0] + ": it has 500 bytes, and should have", ""},
		{"a table is another", func(p picture) { p[tables(p)[0]] = bytes.Repeat([]byte("x"), len(p[tables(p)[0]])) }, "table: " + tables(sample)[0] + ": ", ""},
		{"a table too many", func(p picture) { p["store/999999.sst"] = p[tables(p)[0]] }, "", "1 tables are left over"},
		{"the manifest is missing", func(p picture) { delete(p, p.only(t, "store/MANIFEST", "")) }, "store: store: ", ""},
		{"the manifest is cut", func(p picture) { m := p.only(t, "store/MANIFEST", ""); p[m] = p[m][:20] }, "store: store: ", ""},
		{"the first segment is missing", func(p picture) { delete(p, segments(p)[0]) }, "journal: record 102: the journal begins with record", ""},
		{"the journal is missing", func(p picture) {
			for _, s := range segments(p) {
				delete(p, s)
			}
			delete(p, "journal/")
		}, "journal: journal: the directory is missing", ""},
		{"the tail is torn", func(p picture) {
			s := lastUsed(p)
			p[s] = bytes.TrimRight(p[s], "\x00")[:len(bytes.TrimRight(p[s], "\x00"))-5]
		}, "", "the next start cuts it off"},
		{"a segment behind is damaged", func(p picture) {
			p["journal/00000000.jnl"] = nil // not one: its number is not
			s := segments(p)[1]
			p[s] = bytes.Clone(p[s])
			p[s][60] ^= 1
		}, "journal: journal/", ""},
	} {
		p := maps.Clone(sample)
		c.wreck(p)
		x := examine(t, p.paint(t))
		reports, notes := strings.Join(x.reports, "\n"), strings.Join(x.notes, "\n")
		if !strings.Contains(reports, c.want) || (c.want == "") != (reports == "") || !strings.Contains(notes, c.note) {
			t.Errorf("%s:\n%s\n%s\nwant %q, %q", c.name, reports, notes, c.want, c.note)
		}
	}
}

// lastUsed is the newest segment with records.
func lastUsed(p picture) string {
	list := segments(p)
	for i := len(list) - 1; ; i-- {
		if len(bytes.TrimRight(p[list[i]], "\x00")) > 40 {
			return list[i]
		}
	}
}

// What is wrong with a segment that the tables have made superfluous is worth a
// note and no more: a start does not read it.
func TestCheckForgivesOldSegments(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	e := opened(t, func(o *Options) { o.FS, o.SegmentBytes, o.Fsync = fs, 8<<10, journal.No })
	fill(t, e, 0, 200)
	old := pictureOf(t, fs, "store")
	must(t, e.Round())
	fill(t, e, 200, 210)
	must(t, e.Close())
	p := pictureOf(t, fs, "store")
	if len(segments(old)) < 3 || p[segments(old)[0]] != nil {
		t.Fatalf("segments before %q, after %q", segments(old), segments(p))
	}
	back := segments(old)[0] // as if its removal had not reached the disk
	p[back] = bytes.Clone(old[back])
	p[back][100] ^= 1
	x := examine(t, p.paint(t))
	if len(x.reports) > 0 || !strings.Contains(x.text(), "it is not needed") {
		t.Error(x.text())
	}
}

// A record may be whole and yet make no sense.
func TestCheckFindsSenselessRecords(t *testing.T) {
	t.Parallel()
	var b engine.Batch
	b.Put(checkpointKey, []byte("12345678"))
	for name, c := range map[string]struct {
		payload []byte
		want    string
	}{
		"no entry":         {[]byte{9}, "journal: journal/00000001.jnl, offset 40, record 1: store is corrupt: a journal record has an entry of kind 9"},
		"half of an entry": {[]byte{tagPut, 5}, "journal: journal/00000001.jnl, offset 40, record 1: store is corrupt: a journal record ends in the middle of an entry"},
		"the engine's row": {appendRecord(nil, &b), "journal: journal/00000001.jnl, offset 40, record 1: store is corrupt: it changes the engine's own row ffffffff01"},
	} {
		fs := picture{"REDOUBT": []byte("redoubt store\nformat 1\nengine local\n"), "journal/": nil}.paint(t)
		j, err := journal.Open(journal.Options{FS: JournalFiles(fs), Dir: "store/journal"}, 0, func(uint64, []byte) error { return nil }, nil)
		must(t, err)
		_, err = j.Append(0, append(make([]byte, journal.HeadRoom), c.payload...))
		must(t, err)
		must(t, j.Close())
		if x := examine(t, fs); len(x.reports) != 1 || x.reports[0] != c.want {
			t.Errorf("%s: %q", name, x.reports)
		}
	}
}

func TestCheckFindsWhatIsWrongWithItsOwnRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(db *lsm.DB) error
		want   string
	}{
		"an unknown row": {func(db *lsm.DB) error { return db.Set([]byte{255, 255, 255, 255, 3}, make([]byte, 8), nil) },
			"store: the engine's row ffffffff03: there is no such row"},
		"a short counter": {func(db *lsm.DB) error { return db.Set(append(bytes.Clone(counterPrefix), "count"...), []byte{1}, nil) },
			"store: the engine's row ffffffff02636f756e74: it has 1 bytes, not 8: 01"},
		"no checkpoint": {func(db *lsm.DB) error { return db.Delete(checkpointKey, nil) },
			"store: the engine's row ffffffff01: it is missing, and there are rows"},
		"a checkpoint that is ahead": {func(db *lsm.DB) error {
			return db.Set(checkpointKey, binary.BigEndian.AppendUint64(nil, 1000), nil)
		}, "journal: journal/00000001.jnl, offset 222872, record 161: the log ends here; corrupt: the tables have everything up to record 1000"},
	} {
		fs := vfs.NewMem()
		e := opened(t, func(o *Options) { o.FS, o.Fsync = fs, journal.No })
		fill(t, e, 0, 640)
		must(t, e.Round())
		must(t, e.Close())
		db, err := lsm.Open("store/store", &lsm.Options{FS: fs, FormatMajorVersion: pebbleFormat, Logger: storeLogger{e.log, nil}})
		must(t, err)
		must(t, c.change(db))
		must(t, db.Flush())
		must(t, db.Close())
		if x := examine(t, fs); len(x.reports) == 0 || !strings.HasPrefix(x.reports[0], c.want) {
			t.Errorf("%s: %q", name, x.reports)
		}
	}
}

// The files that Files names, as far as it names them, are the store.
func TestFilesAreACopy(t *testing.T) {
	t.Parallel()
	p, want := sampleStore(t)
	p[lastUsed(p)] = append(p[lastUsed(p)], make([]byte, 300<<10)...) // room that was reserved
	p["journal/00000099.jnl"] = make([]byte, 4096)
	i, err := Inspect(InspectOptions{Dir: "store", FS: p.paint(t)})
	must(t, err)
	list, err := i.Files()
	must(t, err)
	must(t, i.Close())
	if last := list[len(list)-1].Path; last != formatFile {
		t.Errorf("the last file is %s", last)
	}
	q := picture{}
	for _, f := range list {
		q[f.Path] = p[f.Path][:f.Size]
	}
	if saved := len(p[lastUsed(p)]) - len(q[lastUsed(p)]); saved < 300<<10-8 || q["journal/00000099.jnl"] != nil {
		t.Errorf("the room that was reserved is copied, but for %d bytes", saved)
	}
	fs := q.paint(t)
	if x := examine(t, fs); len(x.reports) > 0 || !maps.Equal(x.rows, want) {
		t.Errorf("%d rows, want %d; %s", len(x.rows), len(want), x.text())
	}
	e := opened(t, func(o *Options) { o.FS = fs })
	got := rowsOf(t, e)
	got["counter count"], got["counter other"] = fmt.Sprint(e.present.Load().counters.Get([]byte("count"))), fmt.Sprint(e.present.Load().counters.Get([]byte("other")))
	if !maps.Equal(got, want) {
		t.Errorf("opened: %d rows, want %d", len(got), len(want))
	}
	must(t, e.Close())
}

// After a salvage the store can be opened, and has what was said to be kept.
func TestInspectSalvage(t *testing.T) {
	t.Parallel()
	p, _ := sampleStore(t)
	segs := segments(p)
	bad := segs[len(segs)/2]
	p[bad] = bytes.Clone(p[bad])
	p[bad][100] ^= 1
	fs := p.paint(t)
	i, err := Inspect(InspectOptions{Dir: "store", FS: fs})
	must(t, err)
	j, err := i.Journal(nil)
	must(t, err)
	if len(j.Wrong) != 1 || j.Lost == 0 || j.Kept < j.Checkpoint || j.Kept >= j.LostLast {
		t.Fatalf("%+v", j)
	}
	s, err := i.State(nil)
	must(t, err)
	want := readAll(t, s)
	must(t, s.Close())
	kept := j.Kept
	done, err := i.Salvage()
	must(t, err)
	if done.Kept != kept || len(done.Aside) == 0 {
		t.Errorf("salvaged: %+v, want up to %d", done, kept)
	}
	if j, err = i.Journal(nil); err != nil || len(j.Wrong) > 0 || j.Kept != kept {
		t.Errorf("after it: %v, %+v", err, j)
	}
	must(t, i.Close())
	e := opened(t, func(o *Options) { o.FS = fs })
	if got := rowsOf(t, e); !maps.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	must(t, e.Close())
}
