package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"

	"redoubt/internal/respclient"
)

// value is what a key holds: its string or, as far as a client knows it, its
// collection; and the time it expires at, 0 if never. A collection that was found
// in a store is its text.
type value struct {
	text string
	at   int64
	coll collection
}

// collection is a client's model of one. Its text names its type and all that is
// in it, so that equal ones have equal texts.
type collection interface {
	clone() collection
	String() string
}

func (v value) String() string {
	if v.coll != nil {
		return v.coll.String()
	}
	return v.text
}

func (v value) clone() value {
	if v.coll != nil {
		v.coll = v.coll.clone()
	}
	return v
}

// state is what one client's databases hold.
type state map[int]map[string]value

func (s state) clone() state {
	c := state{}
	for db, keys := range s {
		c[db] = make(map[string]value)
		for k, v := range keys {
			c[db][k] = v.clone()
		}
	}
	return c
}

// op is one command with its effect on the client's state. It returns the
// reply that it must get.
type op struct {
	args  []string
	apply func(state) string
}

// client writes to keys, and perhaps databases, that nobody else writes to. It
// knows what it was told, and what it has asked for and heard nothing about.
type client struct {
	id    int
	rng   *rand.Rand
	acked state // all that was acknowledged
	// inflight were sent and not answered: a prefix of them may have happened.
	inflight []op
	db       int
	alone    bool // owns its databases: may flush and swap them
	count    int  // acknowledged
	serial   int
}

func newClient(id int, seed uint64) *client {
	c := &client{id: id, rng: rand.New(rand.NewPCG(seed, uint64(id))), db: id % 3, acked: state{}}
	if id == 0 {
		c.alone, c.db = true, 13
		c.acked[14] = map[string]value{}
	}
	c.acked[c.db] = map[string]value{}
	return c
}

func (c *client) key(kind string) string {
	return fmt.Sprintf("%s:%d:%d", kind, c.id, c.rng.IntN(8))
}

// text makes a value that no other write has; some are longer than a chunk.
func (c *client) text() string {
	c.serial++
	s := fmt.Sprintf("%d.%d;", c.id, c.serial)
	switch n := c.rng.IntN(150); {
	case n == 0:
		return strings.Repeat(s, 200_000/len(s))
	case n < 15:
		return strings.Repeat(s, 100)
	}
	return s
}

// farFuture is a time at which keys expire that must be there after a crash.
const farFuture = 33_177_117_420_000

// next makes the next operation.
func (c *client) next() op {
	if c.id%2 == 0 && c.rng.IntN(3) > 0 {
		return c.collectionOp()
	}
	db := c.db
	put := func(k string, v value) func(state) string {
		return func(s state) string { s[db][k] = v; return "OK" }
	}
	switch c.rng.IntN(15) {
	case 0, 1:
		k, v := c.key("set"), c.text()
		return op{[]string{"SET", k, v}, put(k, value{text: v})}
	case 2, 3, 4:
		k := c.key("count")
		return op{[]string{"INCR", k}, func(s state) string {
			n, _ := strconv.Atoi(s[db][k].text)
			s[db][k] = value{text: strconv.Itoa(n + 1)}
			return s[db][k].text
		}}
	case 5, 6:
		k, v := c.key("log"), c.text()
		return op{[]string{"APPEND", k, v}, func(s state) string {
			old := s[db][k]
			s[db][k] = value{text: old.text + v, at: old.at}
			return strconv.Itoa(len(s[db][k].text))
		}}
	case 7:
		k := c.key(pick(c.rng, "set", "log", "expire", "many"))
		return op{[]string{"DEL", k}, func(s state) string {
			_, there := s[db][k]
			delete(s[db], k)
			return one(there)
		}}
	case 8:
		k, v, at := c.key("expire"), c.text(), int64(farFuture+c.rng.IntN(1000))
		return op{[]string{"SET", k, v, "PXAT", strconv.FormatInt(at, 10)}, put(k, value{text: v, at: at})}
	case 9:
		k, at := c.key(pick(c.rng, "set", "log", "expire")), int64(farFuture+c.rng.IntN(1000))
		return op{[]string{"PEXPIREAT", k, strconv.FormatInt(at, 10)}, func(s state) string {
			v, there := s[db][k]
			if there {
				s[db][k] = value{text: v.text, at: at}
			}
			return one(there)
		}}
	case 10:
		k := c.key("short") // gone before anybody looks
		return op{[]string{"SET", k, "x", "PX", "1"}, func(state) string { return "OK" }}
	case 11, 12:
		args, v := []string{"MSET"}, c.text()
		for i := range 8 {
			args = append(args, fmt.Sprintf("many:%d:%d", c.id, i), v)
		}
		return op{args, func(s state) string {
			for i := 1; i < len(args); i += 2 {
				s[db][args[i]] = value{text: v}
			}
			return "OK"
		}}
	case 13:
		from, to := c.key("log"), c.key("set")
		return op{[]string{"COPY", from, to, "REPLACE"}, func(s state) string {
			v, there := s[db][from]
			if there {
				s[db][to] = v
			}
			return one(there)
		}}
	}
	if !c.alone || c.rng.IntN(4) > 0 {
		k := c.key("expire")
		return op{[]string{"PERSIST", k}, func(s state) string {
			v, there := s[db][k]
			if there {
				s[db][k] = value{text: v.text}
			}
			return one(there && v.at != 0)
		}}
	}
	if c.rng.IntN(2) == 0 {
		return op{[]string{"FLUSHDB"}, func(s state) string { s[db] = map[string]value{}; return "OK" }}
	}
	return op{[]string{"SWAPDB", "13", "14"}, func(s state) string { s[13], s[14] = s[14], s[13]; return "OK" }}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func one(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// errWrongReply: the server answered what it must not.
var errWrongReply = errors.New("wrong reply")

// write sends bursts of operations until the connection breaks.
func (c *client) write(addr string) error {
	conn, err := respclient.Dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Do("SELECT", strconv.Itoa(c.db)); err != nil {
		return err
	}
	for {
		var out []byte
		for range 1 + c.rng.IntN(12) {
			o := c.next()
			c.inflight = append(c.inflight, o)
			out = respclient.AppendCommand(out, o.args...)
		}
		if err := conn.Write(out); err != nil {
			return err
		}
		for len(c.inflight) > 0 {
			v, err := conn.Read()
			if err != nil {
				return err
			}
			if v.IsError() && strings.HasPrefix(v.Str, "SHUTDOWN") {
				return errors.New(v.Str)
			}
			if got, want := plain(v), c.inflight[0].apply(c.acked); got != want {
				return fmt.Errorf("%w: %.80q answers %.300s, want %.300s", errWrongReply, c.inflight[0].args, got, want)
			}
			c.inflight = c.inflight[1:]
			c.count++
		}
	}
}

// plain is a reply as a model names it: of an error only the first word.
func plain(v respclient.Value) string {
	switch {
	case v.IsError():
		word, _, _ := strings.Cut(v.Str, " ")
		return word
	case v.IsNull:
		return "nil"
	case len(v.Elems) > 0 || v.Kind == respclient.Array:
		var list []string
		for _, e := range v.Elems {
			list = append(list, plain(e))
		}
		return "[" + strings.Join(list, " ") + "]"
	}
	return v.Str
}

// settle compares what a restarted server holds with what the client knows. It
// must be the acknowledged state, with none, some or all of the commands in
// flight behind it, each of them whole and in their order.
func (c *client) settle(found state) error {
	s := c.acked.clone()
	var why string
	for i := 0; ; i++ {
		diff := compare(s, found)
		if diff == "" {
			c.acked, c.inflight = s, nil
			return nil
		}
		if i == 0 {
			why = diff
		}
		if i == len(c.inflight) {
			return fmt.Errorf("client %d: with %d acknowledged commands and %d in flight the store matches no state; against the acknowledged one: %s",
				c.id, c.count, len(c.inflight), why)
		}
		c.inflight[i].apply(s)
	}
}

// compare names the differences between two states.
func compare(want, got state) string {
	var diffs []string
	for db := range want {
		for k, w := range want[db] {
			if g, ok := got[db][k]; !ok {
				diffs = append(diffs, fmt.Sprintf("%d/%s is lost, was %s", db, k, brief(w, 0)))
			} else if a, b := w.String(), g.String(); a != b || g.at != w.at {
				from := 0
				for from < min(len(a), len(b)) && a[from] == b[from] {
					from++
				}
				diffs = append(diffs, fmt.Sprintf("%d/%s is %s, want %s", db, k, brief(g, from), brief(w, from)))
			}
		}
		for k, g := range got[db] {
			if _, ok := want[db][k]; !ok {
				diffs = append(diffs, fmt.Sprintf("%d/%s is %s, should not be there", db, k, brief(g, 0)))
			}
		}
	}
	sort.Strings(diffs)
	return strings.Join(diffs[:min(len(diffs), 10)], "; ")
}

// brief shows a value around a place.
func brief(v value, at int) string {
	text := v.String()
	from, to := max(0, at-30), min(len(text), at+60)
	return fmt.Sprintf("...%q... (%d bytes, shown from %d on, expires %d)", text[from:to], len(text), from, v.at)
}
