package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/race"
	"redoubt/internal/rdbtext"
	"redoubt/internal/sharedmem"
	"redoubt/keyspace"
	"redoubt/rdb"
)

// What servers of each version wrote is in the store, and comes out as it was.
func TestRecordedFilesGoThrough(t *testing.T) {
	t.Parallel()
	for name, file := range recorded(t) {
		want := text(t, file)
		for kind, eng := range engines(t) {
			r, err := load(t, eng, file, options())
			if err != nil || r.Keys < 70 || r.Expired+r.Skipped+r.Empty > 0 || r.Unchecked {
				t.Fatalf("%s, %s: %+v, %v", name, kind, r, err)
			}
			sound(t, eng)
			rdbtext.Same(t, data(t, eng), want)
			if dead(t, eng) {
				t.Errorf("%s, %s: something is to be cleared", name, kind)
			}
		}
	}
}

// Until Finish a store is what it was; then it has what was imported, and nothing else.
func TestFinishReplacesAll(t *testing.T) {
	t.Parallel()
	file := recorded(t)["file-7.4.1.rdb"]
	for kind, eng := range engines(t) {
		before := old(t, eng)
		for _, finish := range []bool{false, true} {
			i, err := Begin(t.Context(), eng, options())
			must(t, err)
			_, _, err = i.RDB(bytes.NewReader(file), false)
			must(t, err)
			if kind != "shared" { // nobody can look at it meanwhile
				rdbtext.Same(t, data(t, eng), before)
			} else if _, err := keyspace.Open(eng, 16); !errors.Is(err, keyspace.ErrUnfinished) || !strings.Contains(err.Error(), "redoubt import") {
				t.Errorf("a front end of a store that is imported to: %v", err)
			}
			want := before
			if finish {
				must(t, i.Finish())
				want = text(t, file)
			} else {
				must(t, i.Abandon())
			}
			rdbtext.Same(t, data(t, eng), want)
			sound(t, eng)
			if dead(t, eng) {
				t.Errorf("%s, finished %v: something is to be cleared", kind, finish)
			}
		}
	}
}

// An import that ends at any commit leaves the store as it was, and the next one is not in
// its way; also when the process dies, and nobody clears.
func TestImportThatEndsEarly(t *testing.T) {
	t.Parallel()
	file := recorded(t)["file-7.4.1.rdb"]
	for round := range 40 {
		seed := uint64(time.Now().UnixNano()) + uint64(round)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 0))
			var before map[string]string
			gone := errors.New("the process is gone")
			left := 1 + rng.IntN(60)
			hook := func() error {
				if left--; left < 0 {
					return gone
				}
				return nil
			}
			var eng, h engine.Engine
			if round%2 == 1 {
				shared := sharedmem.New().Open()
				eng, h = shared, shared
				before = old(t, eng)
				shared.Intercept(func(*engine.Batch) sharedmem.Fault { return sharedmem.Fault{Err: hook()} })
			} else {
				eng = mem.New()
				h = &hooked{eng, func() error { return hook() }}
				before = old(t, eng)
			}
			i, err := Begin(t.Context(), h, options())
			if err == nil {
				i.rows = 1 + rng.IntN(3)
				_, _, err = i.RDB(bytes.NewReader(file), false)
			}
			if err == nil {
				err = i.Finish()
			}
			if err != nil && !errors.Is(err, gone) {
				t.Fatal(err)
			}
			crash := rng.IntN(2) == 0
			hook = func() error { return nil }
			want := before
			switch finished := err == nil; {
			case finished:
				want = text(t, file)
			case !crash && i != nil: // the store is back, and the process lives
				must(t, i.Abandon())
			}
			if i != nil && errors.Is(err, gone) && i.tx.Numbers == nil { // in Finish: either
				if now := rawData(t, eng); len(now) > 0 && now["0 old1"] == "" {
					want = text(t, file)
				}
			}
			rdbtext.Same(t, rawData(t, eng), want)
			// The next one clears what is left.
			i, err = Begin(t.Context(), eng, options())
			must(t, err)
			must(t, i.Abandon())
			rdbtext.Same(t, data(t, eng), want)
			sound(t, eng)
			if dead(t, eng) {
				t.Error("something is to be cleared")
			}
			_, err = load(t, eng, file, options())
			must(t, err)
			rdbtext.Same(t, data(t, eng), text(t, file))
			sound(t, eng)
		})
	}
}

// rawData is data of a store that may be marked as one that is imported to.
func rawData(t testing.TB, eng engine.Engine) map[string]string {
	t.Helper()
	view, err := eng.Begin(engine.ViewOptions{})
	must(t, err)
	var b engine.Batch
	b.Delete(keyspace.CopyRow())
	mark, found, err := view.Get(keyspace.CopyRow(), nil)
	must(t, err)
	_, err = view.Commit(&b)
	must(t, err)
	view.Close()
	d := data(t, eng)
	if found {
		view, err := eng.Begin(engine.ViewOptions{})
		must(t, err)
		b.Reset()
		b.Put(keyspace.CopyRow(), mark)
		_, err = view.Commit(&b)
		must(t, err)
		view.Close()
	}
	return d
}

// hooked asks before each commit.
type hooked struct {
	engine.Engine
	hook func() error
}

type hookedView struct {
	engine.View
	hook func() error
}

func (v hookedView) Commit(b *engine.Batch) (engine.Ticket, error) {
	if err := v.hook(); err != nil {
		return 0, err
	}
	return v.View.Commit(b)
}

func (h *hooked) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := h.Engine.Begin(o)
	return hookedView{v, h.hook}, err
}

// A damaged file is refused, wherever it is damaged, and the store stays as it was.
func TestDamageIsRefused(t *testing.T) {
	t.Parallel()
	file := recorded(t)["file-7.2.6.rdb"]
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	eng := mem.New()
	before := old(t, eng)
	for range 150 {
		bad := bytes.Clone(file)
		if rng.IntN(3) == 0 {
			bad = bad[:rng.IntN(len(bad))]
		} else {
			bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
		}
		if _, err := load(t, eng, bad, options()); !errors.Is(err, rdb.ErrFormat) && !errors.Is(err, rdb.ErrVersion) &&
			!errors.Is(err, ErrUnknown) && !errors.Is(err, ErrDatabases) && !strings.Contains(fmt.Sprint(err), "library") {
			t.Fatalf("%v", err)
		}
	}
	rdbtext.Same(t, data(t, eng), before)
	sound(t, eng)
}

// What is there twice in a file is damage that a checksum does not show.
func TestTwiceTheSame(t *testing.T) {
	t.Parallel()
	b := func(s string) []byte { return []byte(s) }
	for name, c := range map[string]struct {
		write func(w *rdb.Writer)
		want  string
	}{
		"a key": {func(w *rdb.Writer) {
			w.Key(b("k"), 0).String(b("1"))
			must(t, w.EndKey())
			w.Key(b("k"), 0).String(b("2"))
		}, `in key "k" of database 0: bad data format: the key comes twice`},
		"a member": {func(w *rdb.Writer) {
			e := w.Key(b("k"), 0)
			e.BeginSet()
			e.Element(b("m"))
			e.Element(b("m"))
		}, "an element comes twice"},
		"a member with a score": {func(w *rdb.Writer) {
			e := w.Key(b("k"), 0)
			e.BeginZSet()
			e.Member(b("m"), 1)
			e.Member(b("m"), 2)
		}, "an element comes twice"},
		"a field": {func(w *rdb.Writer) {
			e := w.Key(b("k"), 0)
			e.BeginHash()
			e.Field(b("f"), b("1"), 0)
			e.Field(b("f"), b("2"), 0)
		}, "an element comes twice"},
		"a group": {func(w *rdb.Writer) {
			e := w.Key(b("k"), 0)
			e.BeginStream(false)
			e.EndEntries(rdb.StreamInfo{})
			for range 2 {
				e.BeginGroup(b("g"), rdb.ID{}, 0)
				e.EndPending()
			}
		}, "bad data format"},
		"a consumer": {func(w *rdb.Writer) {
			e := w.Key(b("k"), 0)
			e.BeginStream(false)
			e.EndEntries(rdb.StreamInfo{})
			e.BeginGroup(b("g"), rdb.ID{}, 0)
			e.EndPending()
			e.BeginConsumer(b("c"), 1, 1)
			e.BeginConsumer(b("c"), 1, 1)
		}, "bad data format"},
		"a library": {func(w *rdb.Writer) {
			w.Library(b("#!lua name=a\nredis.register_function('f', function() end)"))
			w.Library(b("#!lua name=a\nredis.register_function('g', function() end)"))
			w.Key(b("k"), 0).String(b("1"))
		}, "the library of functions a comes twice"},
		"a function": {func(w *rdb.Writer) {
			w.Library(b("#!lua name=a\nredis.register_function('f', function() end)"))
			w.Library(b("#!lua name=b\nredis.register_function('f', function() end)"))
			w.Key(b("k"), 0).String(b("1"))
		}, "Function f already exists"},
	} {
		eng := mem.New()
		file := written(t, func(w *rdb.Writer) { c.write(w); must(t, w.EndKey()) })
		if _, err := load(t, eng, file, options()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s twice: %v", name, err)
		}
		sound(t, eng)
	}
}

// Modules are named with their keys, and left out if that is asked for.
func TestModules(t *testing.T) {
	t.Parallel()
	file := written(t, func(w *rdb.Writer) {
		w.Database(2, 2, 0)
		e := w.Key([]byte("doc"), 0)
		e.BeginModule("ReJSON-RL", 3)
		e.Bytes([]byte("{}"))
		e.EndModule()
		must(t, w.EndKey())
		w.Key([]byte("k"), 0).String([]byte("v"))
		must(t, w.EndKey())
	})
	eng := mem.New()
	_, err := load(t, eng, file, options())
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), `key "doc" of database 2 is a value of the module "ReJSON-RL", version 3`) ||
		!strings.Contains(err.Error(), "at byte ") || !strings.Contains(err.Error(), "--skip-unknown") {
		t.Error(err)
	}
	var left []string
	o := options()
	o.SkipUnknown, o.Skipped = true, func(what string) { left = append(left, what) }
	r, err := load(t, eng, file, o)
	if err != nil || r.Keys != 1 || r.Skipped != 1 || len(left) != 1 || !strings.Contains(left[0], `key "doc" of database 2`) {
		t.Errorf("%+v %v %q", r, err, left)
	}
	rdbtext.Same(t, data(t, eng), map[string]string{"2 k": "expires 0\nkind 1\nv"})
}

// What has died is left out, but not where commands may follow that know better.
func TestExpiredKeys(t *testing.T) {
	t.Parallel()
	file := func(base bool) []byte {
		return written(t, func(w *rdb.Writer) {
			w.Aux("ctime", fmt.Sprint(now/1000-100))
			if base {
				w.Aux("aof-base", "1")
			}
			w.Key([]byte("lives"), now+1).String([]byte("v"))
			must(t, w.EndKey())
			w.Key([]byte("dead"), now-50_000).String([]byte("v"))
			must(t, w.EndKey())
			w.Key([]byte("long dead"), now-100_000).String([]byte("v"))
			must(t, w.EndKey())
			e := w.Key([]byte("fields"), 0)
			e.BeginTimedHash(now - 50_000)
			e.Field([]byte("dead"), []byte("v"), now-50_000)
			e.Field([]byte("lives"), []byte("v"), now+50_000)
			must(t, w.EndKey())
			e = w.Key([]byte("dead fields"), 0)
			e.BeginTimedHash(now - 50_000)
			e.Field([]byte("dead"), []byte("v"), now-50_000)
			must(t, w.EndKey())
		})
	}
	for _, base := range []bool{false, true} {
		eng := mem.New()
		r, err := load(t, eng, file(base), options())
		keys := len(text(t, export(t, eng, now-60_000)))
		if base && (r.Keys != 4 || r.Expired != 1 || keys != 4) || !base && (r.Keys != 2 || r.Expired != 3 || keys != 2) || err != nil || r.Base != base {
			t.Errorf("base %v: %+v %v, %d keys", base, r, err, keys)
		}
		sound(t, eng)
	}
}

func TestDatabases(t *testing.T) {
	t.Parallel()
	file := written(t, func(w *rdb.Writer) {
		w.Database(20, 1, 0)
		w.Key([]byte("k"), 0).String([]byte("v"))
		must(t, w.EndKey())
	})
	eng := mem.New()
	if _, err := load(t, eng, file, options()); !errors.Is(err, ErrDatabases) || !strings.Contains(err.Error(), "it has 16, and the file has keys in database 20") {
		t.Error(err)
	}
	o := options()
	o.Databases = 21
	_, err := load(t, eng, file, o)
	must(t, err)
	// A store that has more databases than are asked for keeps none of its data.
	_, err = load(t, eng, someStrings(t, 1), options())
	must(t, err)
	rdbtext.Same(t, data(t, eng), map[string]string{"0 new0": "expires 0\nkind 1\nvalue 0"})
	sound(t, eng)
}

// made is a stream that is made while it is read.
type made struct {
	w    *rdb.Writer
	buf  bytes.Buffer
	more func() bool
	peak *uint64
	n    int
}

func (m *made) Read(b []byte) (int, error) {
	for m.buf.Len() == 0 {
		if !m.more() {
			if m.buf.Len() == 0 {
				return 0, io.EOF
			}
			break
		}
	}
	if m.n++; m.n%32 == 0 {
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		*m.peak = max(*m.peak, s.HeapInuse)
	}
	return m.buf.Read(b)
}

// A collection that is larger than the memory is not held. Not parallel: it measures the heap.
func TestLargeValuesAreNotHeld(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector keeps memory of its own")
	}
	const n, long = 12_000, 1800
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for name, c := range map[string]struct {
		begin func(e *rdb.Encoder)
		each  func(e *rdb.Encoder, i int, element []byte)
		end   func(e *rdb.Encoder)
	}{
		"hash": {(*rdb.Encoder).BeginHash, func(e *rdb.Encoder, i int, b []byte) { e.Field(b[:30], b, 0) }, nil},
		"stream": {nil, func(e *rdb.Encoder, i int, b []byte) {
			e.Entry(rdb.ID{Ms: uint64(i + 1)}, [][]byte{[]byte("field"), b})
		}, func(e *rdb.Encoder) {
			e.EndEntries(rdb.StreamInfo{Length: n, Last: rdb.ID{Ms: n}, First: rdb.ID{Ms: 1}, Added: n})
		}},
	} {
		eng, end := openLocal(t, t.TempDir())
		element := func(i int) []byte { return append(fmt.Appendf(nil, "%07d ", i), noise[i:i+long]...) }
		peak, i := uint64(0), 0
		m := &made{peak: &peak}
		m.w = rdb.NewWriter(&m.buf, rdb.VersionRedis74)
		e := m.w.Key([]byte("large"), 0)
		if c.begin != nil {
			c.begin(e)
			e.Sized(n)
		} else {
			var nodes rdb.NodeCounter
			for i := range n {
				nodes.Add(rdb.ID{Ms: uint64(i + 1)}, [][]byte{[]byte("field"), element(i)})
			}
			e.BeginStream(false)
			e.Sized(nodes.Nodes())
		}
		m.more = func() bool {
			if i > n {
				return false
			}
			if i == n {
				if c.end != nil {
					c.end(e)
				}
				must(t, m.w.EndKey())
				must(t, m.w.End())
			} else {
				c.each(e, i, element(i))
				e.Spill()
			}
			i++
			return true
		}
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		imp, err := Begin(t.Context(), eng, options())
		must(t, err)
		_, size, err := imp.RDB(m, false)
		must(t, err)
		must(t, imp.Finish())
		grown := int64(peak) - int64(before.HeapInuse)
		t.Logf("%s of %d MB, %d MB in the file: the heap grew by %d MB", name, n*long>>20, size>>20, grown>>20)
		if grown > n*long/2 {
			t.Error("that is too much")
		}
		end()
	}
}

func TestImportIsInterrupted(t *testing.T) {
	t.Parallel()
	eng := mem.New()
	before := old(t, eng)
	ctx, cancel := context.WithCancel(t.Context())
	i, err := Begin(ctx, eng, options())
	must(t, err)
	i.rows = 10
	_, _, err = i.RDB(io.MultiReader(bytes.NewReader(someStrings(t, 1000)[:5000]), stop{cancel}), false)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, i.Abandon())
	rdbtext.Same(t, data(t, eng), before)
	sound(t, eng)
}

type stop struct{ cancel func() }

func (s stop) Read([]byte) (int, error) {
	s.cancel()
	return 0, context.Canceled
}
