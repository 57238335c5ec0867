package check_test

import (
	"fmt"
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/channel"
	"redoubt/types/hash"
	"redoubt/types/list"
	"redoubt/types/set"
	"redoubt/types/stream"
	"redoubt/types/zset"
)

// small are limits that a few elements exceed.
var small = &types.Limits{
	HashEntries: 2, HashValue: 8, SetIntegers: 2, SetEntries: 3, SetValue: 8, ZSetEntries: 2, ZSetValue: 8,
	ListSize: 3, StreamNodeEntries: 2, StreamNodeBytes: 4096,
}

const now = 1_700_000_000_000 // as typestest has it

// step is an operation that makes or changes a value.
type step struct {
	name string
	run  func(tx *keyspace.Tx)
	only keyspace.Kind // show only this kind of rows, since there are many
}

func onHash(key string, f func(h *hash.Hash)) func(tx *keyspace.Tx) {
	return func(tx *keyspace.Tx) {
		h, err := hash.Open(tx, []byte(key), small)
		if err != nil {
			tx.Fail(err)
			return
		}
		f(h)
		h.Save()
		h.Release()
	}
}

func fields(pairs ...string) func(h *hash.Hash) {
	return func(h *hash.Hash) {
		for i := 0; i < len(pairs); i += 2 {
			h.Set([]byte(pairs[i]), []byte(pairs[i+1]), 0)
		}
	}
}

func until(field string, at int64) func(h *hash.Hash) {
	return func(h *hash.Hash) {
		e, _ := h.Get([]byte(field))
		h.SetAt([]byte(field), e, at)
	}
}

func onChannel(key string, f func(c *channel.Channel)) func(tx *keyspace.Tx) {
	return func(tx *keyspace.Tx) {
		c, err := channel.Open(tx, []byte(key), nil)
		if err != nil {
			tx.Fail(err)
			return
		}
		f(c)
		c.Save()
		c.Release()
	}
}

func addToSet(key string, members ...string) func(tx *keyspace.Tx) {
	return func(tx *keyspace.Tx) {
		s, err := set.Open(tx, []byte(key), small)
		if err != nil {
			tx.Fail(err)
			return
		}
		for _, m := range members {
			s.Add([]byte(m))
		}
		s.Save()
	}
}

func addToZSet(key string, elements map[string]float64, order ...string) func(tx *keyspace.Tx) {
	return func(tx *keyspace.Tx) {
		z, err := zset.Open(tx, []byte(key), small)
		if err != nil {
			tx.Fail(err)
			return
		}
		for _, m := range order {
			z.Add([]byte(m), elements[m])
		}
		z.Save()
	}
}

func manyScores(key string, n int) func(tx *keyspace.Tx) {
	return func(tx *keyspace.Tx) {
		z := zset.Create(tx, []byte(key), small)
		for i := range n {
			z.Add(fmt.Appendf(nil, "m%d", i), float64(i%1000)-500)
		}
		z.Save()
	}
}

func onList(key string, f func(l *list.List)) func(tx *keyspace.Tx) {
	return func(tx *keyspace.Tx) {
		l, err := list.Open(tx, []byte(key), small)
		if err != nil {
			tx.Fail(err)
			return
		}
		f(l)
		l.Save()
	}
}

func push(left bool, elements ...string) func(l *list.List) {
	return func(l *list.List) {
		for _, e := range elements {
			l.Push(left, []byte(e))
		}
	}
}

func onStream(key string, f func(s *stream.Stream)) func(tx *keyspace.Tx) {
	return func(tx *keyspace.Tx) {
		s, err := stream.Open(tx, []byte(key), small)
		if err != nil {
			tx.Fail(err)
			return
		}
		f(s)
		s.Save()
	}
}

func entries(from, to uint64) func(s *stream.Stream) {
	return func(s *stream.Stream) {
		for seq := from; seq <= to; seq++ {
			if err := s.Add(stream.ID{Ms: 1, Seq: seq}, [][]byte{[]byte("f"), fmt.Append(nil, seq)}); err != nil {
				panic(err) // a test's own mistake
			}
		}
	}
}

func group(name string, f func(s *stream.Stream, g *stream.Group)) func(s *stream.Stream) {
	return func(s *stream.Stream) {
		g := s.Group([]byte(name))
		if g == nil {
			g = s.CreateGroup([]byte(name), stream.ID{}, 0)
		}
		f(s, g)
		g.Save()
	}
}

func read(consumer string, n int64) func(*stream.Stream, *stream.Group) {
	return func(_ *stream.Stream, g *stream.Group) {
		c := g.Consumer([]byte(consumer))
		if c == nil {
			c = g.AddConsumer([]byte(consumer))
		}
		c.See()
		g.Read(c, n, false, func(stream.ID, stream.Entry) {})
	}
}

// steps make every type in every form. They are what the golden file holds: they
// only grow, and one that was released stays as it is.
var steps = []step{
	{name: "a packed hash: HSET h f 1 g 2", run: onHash("h", fields("f", "1", "g", "2"))},
	{name: "a field of it gets a time: HPEXPIREAT h 1700000001000 FIELDS 1 f", run: onHash("h", until("f", now+1000))},
	{name: "and the other: HPEXPIREAT h 1700000002000 FIELDS 1 g", run: onHash("h", until("g", now+2000))},
	{name: "a hash of rows: HSET H f 1 g 2 h 3", run: onHash("H", fields("f", "1", "g", "2", "h", "3"))},
	{name: "a field of it gets a time", run: onHash("H", until("f", now+1000))},
	{name: "the other two do: all die", run: onHash("H", func(h *hash.Hash) { until("g", now+3000)(h); until("h", now+2000)(h) })},
	{name: "a set of integers: SADD i 1 -2", run: addToSet("i", "1", "-2")},
	{name: "a packed set: SADD s b a 1", run: addToSet("s", "b", "a", "1")},
	{name: "a set of rows: SADD S b a 1 c", run: addToSet("S", "b", "a", "1", "c")},
	{name: "a packed sorted set: ZADD z 1.5 b -1 a", run: addToZSet("z", map[string]float64{"b": 1.5, "a": -1}, "b", "a")},
	{name: "a sorted set of rows: ZADD Z 1.5 b -1 a 0 c", run: addToZSet("Z", map[string]float64{"b": 1.5, "a": -1, "c": 0}, "b", "a", "c")},
	{name: "one with rank rows: 600 members, of which only those are shown", run: manyScores("R", 600), only: keyspace.RankRow},
	{name: "a packed list: RPUSH l a 1", run: onList("l", push(false, "a", "1"))},
	{name: "a list of rows: RPUSH L a b c, LPUSH L 1000", run: onList("L", func(l *list.List) { push(false, "a", "b", "c")(l); push(true, "1000")(l) })},
	{name: "a stream without entries: XGROUP CREATE e g 0 MKSTREAM", run: onStream("e", func(s *stream.Stream) {
		group("g", func(*stream.Stream, *stream.Group) {})(s)
	})},
	{name: "a stream of three entries: XADD x 1-1 f 1 ...", run: onStream("x", entries(1, 3))},
	{name: "a group reads two of them: XREADGROUP GROUP g c COUNT 2 STREAMS x >", run: onStream("x", group("g", read("c", 2)))},
	{name: "another consumer reads the third, and acknowledges it", run: onStream("x", group("g", func(s *stream.Stream, g *stream.Group) {
		read("d", 1)(s, g)
		g.Ack(stream.ID{Ms: 1, Seq: 3})
	}))},
	{name: "an entry is deleted: XDEL x 1-2", run: onStream("x", func(s *stream.Stream) { s.Delete(stream.ID{Ms: 1, Seq: 2}) })},
	{name: "a channel with a subscriber and three messages: CHSUBSCRIBE c s, CHPUBLISH c m1 one, CHPUBLISH c m2 two EXPIRE 1000, CHPUBLISH c m3 three",
		run: onChannel("c", func(c *channel.Channel) {
			c.Subscribe([]byte("s"), c.Last(), 1)
			c.Publish([]byte("m1"), []byte("one"), 0, 1)
			c.Publish([]byte("m2"), []byte("two"), 1000, 1)
			c.Publish([]byte("m3"), []byte("three"), 0, 1)
		})},
	{name: "the subscriber acknowledges the first; CHCONFIG c MAXLEN 2", run: onChannel("c", func(c *channel.Channel) {
		s, _ := c.Subscriber([]byte("s"))
		c.Ack(&s, 1)
		c.Configure(channel.Settings{MaxLen: 2}, 1)
	})},
	{name: "a channel with settings only: CHCONFIG n EXPIRE 60000", run: onChannel("n", func(c *channel.Channel) {
		c.Configure(channel.Settings{Expire: 60000}, 1)
	})},
}

// populate makes a store with every type.
func populate(t testing.TB) *typestest.Store {
	t.Helper()
	s := typestest.New(t)
	for _, st := range steps {
		s.Do(st.run)
	}
	return s
}
