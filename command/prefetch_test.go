package command

import (
	"fmt"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
)

// far is an engine that counts what it is asked, as if each were a trip.
type far struct {
	engine.Engine
	gets, fetches, fetched, iters int
}

func (f *far) Capabilities() engine.Capabilities { return engine.Capabilities{Remote: true} }

func (f *far) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := f.Engine.Begin(o)
	return &farView{v, f, make(map[string]bool)}, err
}

type farView struct {
	engine.View
	f    *far
	near map[string]bool
}

func (v *farView) Get(key, dst []byte) ([]byte, bool, error) {
	if !v.near[string(key)] {
		v.f.gets++
	}
	return v.View.Get(key, dst)
}

func (v *farView) Prefetch(keys [][]byte) int {
	v.f.fetches++
	v.f.fetched += len(keys)
	for _, k := range keys {
		v.near[string(k)] = true
	}
	return v.View.Prefetch(keys)
}

func (v *farView) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	v.f.iters++
	return v.View.Iter(lo, hi, reverse)
}

func (v *farView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

func newFar(t testing.TB) (*bench, *far) {
	t.Helper()
	b, f := newBench(t), &far{Engine: mem.New()}
	b.eng = f
	space, err := keyspace.Open(f, 16)
	if err != nil {
		t.Fatal(err)
	}
	b.space = space
	return b, f
}

// words makes the arguments of a command: those of the pattern come again and again,
// with the numbers from one up to another in the place of {x}.
func words(command, pattern string, from, to int) []string {
	args := strings.Fields(command)
	for i := from; i < to; i++ {
		args = append(args, strings.Fields(strings.ReplaceAll(pattern, "{x}", fmt.Sprint(i)))...)
	}
	return args
}

// A command that names many elements of a collection fetches their rows together.
func TestElementsAreFetchedTogether(t *testing.T) {
	t.Parallel()
	hash := [][]string{words("hset h", "f{x} v{x}", 0, 300)}
	set := [][]string{words("sadd s", "m{x}", 0, 300)}
	zset := [][]string{words("zadd z", "{x} m{x}", 0, 120)} // without rank rows
	stream := [][]string{{"xgroup", "create", "x", "g", "0", "mkstream"}}
	for i := range 200 {
		stream = append(stream, []string{"xadd", "x", fmt.Sprint("1-", i+1), "f", "v"})
	}
	stream = append(stream, strings.Fields("xreadgroup group g c streams x >"))
	two := append(set, words("sadd t", "m{x}", 100, 700))
	mixed := append(zset, words("sadd t", "m{x}", 100, 700), words("zadd y", "1 m{x}", 50, 200))
	for _, c := range []struct {
		make [][]string
		args []string
		// gets is how many rows it may read by themselves: meta rows, a group, a consumer.
		gets, rows int
	}{
		{hash, words("hmget h", "f{x}", 100, 200), 1, 100},
		{hash, words("hset h", "f{x} w", 250, 350), 1, 100},
		{hash, words("hdel h", "f{x}", 100, 200), 1, 100},
		{hash, words("hpexpire h 5000 fields 100", "f{x}", 100, 200), 1, 100},
		{hash, words("hpersist h fields 100", "f{x}", 100, 200), 1, 100},
		{hash, words("httl h fields 100", "f{x}", 100, 200), 1, 100},
		{hash, words("hgetdel h fields 100", "f{x}", 100, 200), 1, 100},
		{hash, words("hgetex h px 1000 fields 100", "f{x}", 100, 200), 1, 100},
		{set, words("sadd s", "m{x}", 250, 350), 1, 100},
		{set, words("srem s", "m{x}", 250, 350), 1, 100},
		{set, words("smismember s", "m{x}", 250, 350), 1, 100},
		{two, []string{"sinter", "s", "t"}, 2, 300},
		{two, []string{"sdiff", "s", "t"}, 2, 300},
		{zset, words("zadd z", "{x} m{x}", 50, 150), 1, 100},
		{zset, words("zrem z", "m{x}", 10, 110), 1, 100},
		{zset, words("zmscore z", "m{x}", 50, 150), 1, 100},
		{zset, words("geopos z", "m{x}", 50, 150), 1, 100},
		{zset, words("geoadd z", "1 2 m{x}", 50, 150), 1, 100},
		{mixed, []string{"zinter", "3", "z", "y", "t"}, 6, 240},
		{mixed, []string{"zdiff", "3", "z", "y", "t"}, 6, 240},
		{stream, words("xack x g", "1-{x}", 50, 150), 3, 100},
		{stream, words("xclaim x g d 0", "1-{x}", 50, 150), 4, 200},
		{stream, words("xdel x", "1-{x}", 50, 150), 1, 100},
	} {
		plain := newBench(t)
		b, f := newFar(t)
		for _, args := range c.make {
			b.run(args...)
			plain.run(args...)
		}
		f.gets, f.fetches, f.fetched, f.iters = 0, 0, 0, 0
		got, _ := b.run(c.args...)
		if want, _ := plain.run(c.args...); string(got) != string(want) {
			t.Errorf("%v: the reply is %q, want %q", c.args[:2], got, want)
		}
		if most := 1 + c.rows/200; f.fetches < 1 || f.fetches > most || f.fetched != c.rows || f.gets > c.gets {
			t.Errorf("%v: %d rows were fetched in %d calls, and %d read by themselves; want %d in one, and %d", c.args[:2], f.fetched, f.fetches, f.gets, c.rows, c.gets)
		}
	}
}

// What is one element, or a small collection, costs nothing more.
func TestSingleElementsAreNotFetchedAhead(t *testing.T) {
	t.Parallel()
	b, f := newFar(t)
	b.run(words("hset h", "f{x} v{x}", 0, 300)...)
	b.limits.HashEntries, b.limits.HashValue = 128, 64
	b.run(words("hset small", "f{x} v{x}", 0, 100)...)
	for _, line := range []string{"hget h f1", "hmget h f1", "hset h f1 v", "hdel h f1", "hget small f1", "hmget small f1 f2 f3", "hmget none f1 f2"} {
		f.fetches = 0
		b.run(strings.Fields(line)...)
		if f.fetches != 0 {
			t.Errorf("%s fetched rows ahead", line)
		}
	}
	// What the execution has written itself is not fetched.
	f.fetched = 0
	tx := b.begin()
	tx.Expect([]byte("row"))
	tx.PutRow([]byte("own"), nil)
	tx.Expect([]byte("own"))
	tx.Expect([]byte("other"))
	tx.FetchExpected()
	if f.fetched != 2 {
		t.Errorf("%d rows were fetched", f.fetched)
	}
	// Very many go in portions, each when it is about to be read, and nothing is left out.
	tx = b.begin()
	f.fetched, f.fetches, f.gets = 0, 0, 0
	for i := range 5000 {
		tx.Expect(fmt.Appendf(nil, "%0100d", i))
	}
	tx.FetchExpected()
	if f.fetches != 1 || f.fetched > 700 {
		t.Errorf("%d rows were fetched in %d calls", f.fetched, f.fetches)
	}
	for i := range 5000 {
		tx.GetRow(fmt.Appendf(nil, "%0100d", i))
	}
	if f.fetched != 5000 || f.fetches < 8 || f.fetches > 12 || f.gets != 0 {
		t.Errorf("%d rows were fetched in %d calls, %d by themselves", f.fetched, f.fetches, f.gets)
	}
	tx.GetRow([]byte("another"))
	// A read without latches is about to be run again: nothing is fetched for it.
	if tx.Latched = false; tx.WorthPrefetching(100) {
		t.Error("a read without latches fetches ahead")
	}
	b.batch.Reset()
	tx.Rows.View.Close()
}
