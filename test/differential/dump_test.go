package differential

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/rdb"
)

// dumped reads a payload into lines, sorted where the order means nothing.
func dumped(payload string) ([]string, error) {
	v, err := rdb.Open([]byte(payload), rdb.Options{})
	if err != nil {
		return nil, err
	}
	var d dumpLines
	switch v.Kind {
	case rdb.String:
		err = v.String(func(_ int64, b []byte) error { return d.add("%q", b) })
	case rdb.List:
		err = v.List(func(b []byte) error { return d.add("%q", b) })
	case rdb.Set:
		err = v.Set(func(b []byte) error { return d.add("%q", b) })
	case rdb.ZSet:
		err = v.ZSet(func(b []byte, f float64) error { return d.add("%q %v", b, f) })
	case rdb.Hash:
		err = v.Hash(func(f, b []byte, at int64) error { return d.add("%q %q %d", f, b, at) })
	case rdb.Stream:
		err = v.Stream(&d)
	}
	if v.Kind == rdb.Set || v.Kind == rdb.ZSet || v.Kind == rdb.Hash {
		slices.Sort(d)
	}
	return append(d, fmt.Sprint("kind ", v.Kind)), err
}

type dumpLines []string

func (d *dumpLines) add(format string, args ...any) error {
	*d = append(*d, fmt.Sprintf(format, args...))
	return nil
}

func (d *dumpLines) Entry(id rdb.ID, fields [][]byte) error { return d.add("%v %q", id, fields) }
func (d *dumpLines) Info(i rdb.StreamInfo) error            { return d.add("%v", i) }
func (d *dumpLines) Group(name []byte, last rdb.ID, read int64) error {
	return d.add("group %q %v %d", name, last, read)
}
func (d *dumpLines) Consumer(name []byte, seen, active int64) error {
	return d.add("consumer %q %d %d", name, seen, active)
}
func (d *dumpLines) Pending(id rdb.ID, at int64, n uint64) error {
	return d.add("pending %v %d %d", id, at, n)
}

// conn is a connection whose failures are kept.
type conn struct {
	*respclient.Client
	err error
}

func (c *conn) do(args ...string) respclient.Value {
	v, err := c.Do(args...)
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("%.100q: %w", args, err)
	}
	return v
}

// old says whether the server is a Redis 7.0.
func (c *conn) old() bool { return strings.Contains(c.do("INFO", "server").Str, "redis_version:7.0.") }

// eachKey visits the keys of every database, which is then selected.
func (c *conn) eachKey(visit func(db, key string) error) error {
	for db := range 16 {
		c.do("SELECT", strconv.Itoa(db))
		for _, k := range c.do("KEYS", "*").Elems {
			if err := errors.Join(visit(strconv.Itoa(db), k.Str), c.err); err != nil {
				return fmt.Errorf("database %d, key %q: %w", db, k.Str, err)
			}
		}
	}
	return c.err
}

const restored = "a key that no generator knows"

// roundTrip dumps each key of a server, restores it there and compares.
func roundTrip(addr string) error {
	client, err := respclient.Dial(addr)
	if err != nil {
		return err
	}
	c := &conn{Client: client}
	defer c.Close()
	return c.eachKey(func(_, key string) error {
		payload := c.do("DUMP", key)
		if payload.IsNull {
			return nil // it has expired
		}
		if v := c.do("RESTORE", restored, "0", payload.Str, "REPLACE"); v.Str != "OK" {
			return fmt.Errorf("RESTORE: %s", v)
		}
		want, err := dumped(payload.Str)
		if err != nil {
			return err
		}
		got, err := dumped(c.do("DUMP", restored).Str)
		c.do("DEL", restored)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it became\n%.1000q, was\n%.1000q", got, want)
		}
		return err
	})
}

// Whatever commands made of a key, a dump of it restores it.
func TestDump(t *testing.T) {
	t.Parallel()
	ours := redoubtTarget(t, testserver.Options{}, false, 20)
	dumpSequences(t, 30, false, func(seq []op) error {
		if _, err := ours.run(seq, 2); err != nil {
			return err
		}
		return roundTrip(ours.addr)
	})
}

// dumpSequences runs random sequences.
func dumpSequences(t *testing.T, count int, live bool, run func(seq []op) error) {
	t.Helper()
	if *sequences > 0 {
		count = *sequences
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i := range count {
		s := first + uint64(i)
		g := &generator{Rand: rand.New(rand.NewPCG(s, 1)), live: live, newer: !live}
		if err := run(g.sequence(*length)); err != nil {
			t.Fatalf("go test ./test/differential -run '^%s$' -seed %d -sequences 1 -length %d\n%v", t.Name(), s, *length, err)
		}
	}
	t.Logf("%d sequences from seed %d", count, first)
}

// The same commands make the same keys here and in a real Redis, and each travels to
// the other side and back: Redis itself says that nothing has changed.
func TestDumpTravels(t *testing.T) {
	testserver.Oracle(t)
	theirs := redisTarget(t)
	ours := redoubtTarget(t, testserver.Options{}, true, 20)
	dumpSequences(t, 60, true, func(seq []op) error {
		for _, target := range []*serverTarget{theirs, ours} {
			if _, err := target.run(seq, 2); err != nil {
				return err
			}
		}
		return travel(ours.addr, theirs.addr)
	})
}

func travel(ours, theirs string) error {
	one, err := respclient.Dial(theirs)
	if err != nil {
		return err
	}
	two, err := respclient.Dial(ours)
	if err != nil {
		return err
	}
	redis, here := &conn{Client: one}, &conn{Client: two}
	defer redis.Close()
	defer here.Close()
	return redis.eachKey(func(db, key string) error {
		here.do("SELECT", db)
		mine, its := here.do("DUMP", key), redis.do("DUMP", key)
		if mine.IsNull || its.IsNull {
			return here.err // it has expired
		}
		if v := here.do("RESTORE", restored, "0", its.Str, "REPLACE"); v.Str != "OK" {
			return fmt.Errorf("RESTORE here: %s", v)
		}
		back := here.do("DUMP", restored)
		here.do("DEL", restored)
		redis.do("PERSIST", key) // which is part of the digest
		for what, payload := range map[string]string{"ours": mine.Str, "its own, from here": back.Str} {
			// Consumers of streams have a time more since 7.2, which 7.0 cannot read.
			if v := redis.do("RESTORE", restored, "0", payload, "REPLACE"); v.Str != "OK" {
				if redis.old() && v.IsError() && redis.do("TYPE", key).Str == "stream" {
					return nil
				}
				return fmt.Errorf("RESTORE of %s: %s", what, v)
			}
			v := redis.do("DEBUG", "DIGEST-VALUE", key, restored)
			if len(v.Elems) != 2 || v.Elems[0].Str != v.Elems[1].Str {
				return fmt.Errorf("%s: %s", what, v)
			}
		}
		redis.do("DEL", restored)
		return here.err
	})
}
