package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/engine/mem"
	"redoubt/journal"
)

// The metamorphic test: one list of deeds, done to stores with all kinds of
// options, must have one history, that of the simplest engine.

// deed is something done to a store.
type deed struct {
	kind    string
	wait    bool
	notes   []note
	lo, hi  string
	reverse bool
	id      int // of a snapshot, an iterator
	n       int
}

// deeds makes a list of them.
func deeds(rng *rand.Rand, n int) []deed {
	l := load{rng: rng, big: 10}
	list := make([]deed, n)
	for i := range list {
		d := &list[i]
		*d = deed{wait: rng.IntN(2) == 0, reverse: rng.IntN(2) == 0, id: rng.IntN(3), n: 1 + rng.IntN(300)}
		switch rng.IntN(4) {
		case 0:
		case 1:
			d.lo, d.hi = "\x00", "\xff\xff"
		default:
			d.lo, d.hi = l.span()
		}
		kinds := "commit commit commit commit commit commit commit commit get get get many walk walk count " +
			"open open shut look look begin begin step step step end round evict evict fill"
		if d.kind = strings.Fields(kinds)[rng.IntN(28)]; rng.IntN(60) == 0 {
			d.kind = []string{"reopen", "kill", "cut", "copy"}[rng.IntN(4)]
		}
		d.notes = l.commit()
		if d.kind == "get" || d.kind == "look" {
			d.lo, d.n = l.key(), d.n%2
		}
	}
	return list
}

// player does deeds to an engine and writes the history.
type player struct {
	t      testing.TB
	e      engine.Engine
	snaps  [3]engine.Snapshot
	iters  [3]engine.Iterator
	frozen [3]engine.Snapshot             // of iters: those of a view may show later commits
	again  func(how string) engine.Engine // closes the engine in some way and opens it
	upkeep func(kind string) error
	copyTo func() (engine.Engine, error)
	copies int
}

func (p *player) view(wait bool) engine.View {
	v, err := p.e.Begin(engine.ViewOptions{NoWait: !wait})
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// read calls f with a view; if that may not wait and a row is cold, once more.
func (p *player) read(wait bool, f func(engine.Reader) (string, error)) string {
	v := p.view(wait)
	s, err := f(v)
	v.Close()
	if errors.Is(err, engine.ErrCold) && !wait {
		return p.read(true, f)
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return s
}

func get(r engine.Reader, key string) (string, error) {
	value, found, err := r.Get([]byte(key), []byte("x"))
	return fmt.Sprintf("%v %s", found, value), err
}

func edge(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func steps(it engine.Iterator, n int) string {
	var b strings.Builder
	for ; n > 0 && it.Next(); n-- {
		fmt.Fprintf(&b, "%q=%s ", it.Key(), it.Value())
	}
	return b.String()
}

func walk(r engine.Reader, d deed) (string, error) {
	it := r.Iter(edge(d.lo), edge(d.hi), d.reverse)
	s := steps(it, d.n)
	return s, it.Close()
}

// release closes what is open.
func (p *player) release() {
	for i := range p.snaps {
		p.shut(i)
		p.end(i)
	}
}

func (p *player) shut(id int) {
	if s := p.snaps[id]; s != nil {
		if err := s.Close(); err != nil {
			p.t.Error(err)
		}
		p.snaps[id] = nil
	}
}

func (p *player) end(id int) string {
	it := p.iters[id]
	if it == nil {
		return "none"
	}
	err := errors.Join(it.Close(), p.frozen[id].Close())
	p.iters[id] = nil
	return fmt.Sprint(err)
}

// do does a deed and says what came of it.
func (p *player) do(d deed) string {
	switch d.kind {
	case "commit":
		v := p.view(d.wait)
		defer v.Close()
		ticket, err := v.Commit(toBatch(d.notes))
		return fmt.Sprint(ticket > 0, err)
	case "get":
		return p.read(d.wait, func(r engine.Reader) (string, error) { return get(r, d.lo) })
	case "many":
		return p.read(d.wait, func(r engine.Reader) (string, error) {
			var keys [][]byte
			for _, n := range d.notes {
				keys = append(keys, []byte(n.key))
			}
			if d.reverse {
				r.(engine.View).Prefetch(keys)
			}
			s := ""
			err := r.GetMany(keys, func(i int, value []byte, found bool) error {
				s += fmt.Sprintf("%v %s ", found, value)
				return nil
			})
			return s, err
		})
	case "walk":
		return p.read(d.wait, func(r engine.Reader) (string, error) { return walk(r, d) })
	case "count":
		s := ""
		for _, n := range d.notes {
			c, err := p.e.Counter([]byte(n.key))
			s += fmt.Sprint(c, err, " ")
		}
		return s
	case "open":
		p.shut(d.id)
		s, err := p.e.Snapshot()
		if err != nil {
			return err.Error()
		}
		p.snaps[d.id] = s
	case "shut":
		p.shut(d.id)
	case "look":
		s := p.snaps[d.id]
		if s == nil {
			return "none"
		}
		if d.n == 0 {
			got, err := get(s, d.lo)
			return fmt.Sprint(got, err)
		}
		d.n, d.lo = 1000, ""
		got, err := walk(s, d)
		return fmt.Sprint(got, err)
	case "begin":
		p.end(d.id)
		s, err := p.e.Snapshot()
		if err != nil {
			return err.Error()
		}
		p.frozen[d.id], p.iters[d.id] = s, s.Iter(edge(d.lo), edge(d.hi), d.reverse)
		return steps(p.iters[d.id], d.n%3)
	case "step":
		if it := p.iters[d.id]; it != nil {
			return steps(it, d.n)
		}
	case "end":
		return p.end(d.id)
	case "reopen", "kill", "cut":
		p.release()
		p.e = p.again(d.kind)
	case "copy":
		return p.copy()
	default:
		if err := p.upkeep(d.kind); err != nil {
			return err.Error()
		}
	}
	return ""
}

// copy opens a checkpoint and shows all of it.
func (p *player) copy() string {
	c, err := p.copyTo()
	if err != nil {
		return err.Error()
	}
	q := &player{t: p.t, e: c}
	s := q.read(true, func(r engine.Reader) (string, error) { return walk(r, deed{n: 10_000}) })
	if c != p.e {
		if err := c.Close(); err != nil {
			return err.Error()
		}
	}
	return s
}

// simple is a player of the simplest engine.
func simple(t testing.TB) *player {
	p := &player{t: t, e: mem.New(), upkeep: func(string) error { return nil }}
	p.again = func(string) engine.Engine { return p.e }
	p.copyTo = func() (engine.Engine, error) { return p.e, nil }
	return p
}

// arranged is a player of a store with options by chance, and says with which.
func arranged(t testing.TB, rng *rand.Rand) (*player, string) {
	units := []func([]byte) int{
		func([]byte) int { return 2 },
		func([]byte) int { return 4 },
		func([]byte) int { return 9 },
		func(k []byte) int { // as Redoubt's: of two lengths
			if len(k) > 2 && k[2] == 'b' {
				return 5
			}
			return 3
		},
	}
	unit, busy, keeps := rng.IntN(len(units)), rng.IntN(3) == 0, rng.IntN(2) == 0
	fs := newStage(vfs.NewCrashableMem())
	o := Options{
		Dir: shipDir, Logger: quiet, Unit: units[unit],
		Memory:       []int64{1, 256 << 10, 1 << 20, 64 << 20}[rng.IntN(4)],
		SegmentBytes: []int64{1 << 10, 16 << 10, 1 << 20}[rng.IntN(3)],
		JournalBytes: []int64{2 << 10, 32 << 10, 1 << 30}[rng.IntN(3)],
		Fsync:        journal.Policy(1 + rng.IntN(3)),
		tableBytes:   []uint64{1 << 10, 16 << 10, tableBytes}[rng.IntN(3)],
	}
	if keeps {
		o.Pinned = keepSome
	}
	name := fmt.Sprintf("memory %d, segments %d, journal %d, fsync %d, tables %d, unit %d, kept %v, restless %v", o.Memory, o.SegmentBytes, o.JournalBytes, o.Fsync, o.tableBytes, unit, keeps, busy)
	open := func(dir string) *Engine {
		o.FS, o.Dir = fs, dir
		return restless(t, opened(t, func(to *Options) { *to = o }), busy)
	}
	e := open(shipDir)
	p := &player{t: t, e: e}
	p.again = func(how string) engine.Engine {
		left := fs.mem
		switch ticket := e.Committed(); how {
		case "cut":
			if err := e.SetFsync(journal.Always); err != nil { // which syncs
				t.Error(err)
			}
			await(t, "durability", func() bool { return e.Durable() >= ticket })
			left = fs.crash(rng.IntN(2)*50, rng)
		case "kill":
			left = fs.crash(100, rng)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		fs = newStage(left)
		e = open(shipDir)
		return e
	}
	p.upkeep = func(kind string) error {
		switch kind {
		case "round":
			return e.Round()
		case "evict":
			for range 3 { // rows count up to three uses
				e.set().Evict(1 << 40)
			}
		case "fill":
			for next := 1; next != 0; {
				next = e.fillNext(next)
			}
		}
		return nil
	}
	p.copyTo = func() (engine.Engine, error) {
		p.copies++
		dir := path.Join(copyDir, fmt.Sprint(p.copies))
		if err := e.Checkpoint(dir); err != nil {
			return nil, err
		}
		return open(dir), nil
	}
	return p, name
}

// One history, whatever the options. REDOUBT_HISTORIES says how many lists.
func TestMetamorphic(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	for i := range scale(t, "REDOUBT_HISTORIES", 2) {
		rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
		list := deeds(rng, scale(t, "REDOUBT_DEEDS", 400))
		want := make([]string, len(list))
		p := simple(t)
		for j, d := range list {
			want[j] = p.do(d)
		}
		p.release()
		for range 4 {
			p, name := arranged(t, rng)
			within(t, name, func() {
				for j, d := range list {
					if got := p.do(d); got != want[j] {
						t.Errorf("list %d, deed %d, %s, with %s: %s", i, j, d.kind, name, difference(got, want[j]))
						break
					}
				}
				p.release()
				if err := p.e.Close(); err != nil {
					t.Error(err)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}

// difference shows where two histories part.
func difference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-60)
	return fmt.Sprintf("after %d bytes\n got ...%.160s\nwant ...%.160s", i, got[min(from, len(got)):], want[min(from, len(want)):])
}
