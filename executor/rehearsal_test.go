package executor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/internal/sharedmem"
	"redoubt/keyspace"
	"redoubt/wire"
)

// together runs commands as a pipeline, and returns the replies.
func (p *frontEnd) together(lines []string) string {
	w := wire.Writer{Proto: 2}
	calls := make([]Call, len(lines))
	for i, line := range lines {
		calls[i] = Call{Cmd: table().Find(words(line)), Args: words(line), Reply: &w}
	}
	done, _ := p.x.RunTogether(calls)
	got := []string{short(w.Buf)}
	for _, line := range lines[done:] { // those that need another way
		got = append(got, p.do(line))
	}
	return strings.TrimSpace(strings.Join(got, " "))
}

// large makes collections of which each element is a row.
func (p *frontEnd) large() {
	p.t.Helper()
	for _, head := range []string{"hset h", "sadd s", "zadd z", "rpush l"} {
		var b strings.Builder
		b.WriteString(head)
		for i := range 600 {
			switch head {
			case "hset h":
				fmt.Fprintf(&b, " f%d v%d", i, i)
			case "zadd z":
				fmt.Fprintf(&b, " %d m%d", i, i)
			default:
				fmt.Fprintf(&b, " e%d", i)
			}
		}
		p.want(b.String(), "600")
	}
}

// The rows that the commands of a pipeline or of a transaction read are fetched at once.
func TestRowsAreFetchedTogether(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	p.large()
	for what, format := range map[string]string{
		"reads": "hget h f%d", "writes": "hset h f%d w", "members": "sismember s e%d", "scores": "zscore z m%d", "elements": "lindex l %d", "new": "hsetnx h g%d w",
	} {
		var lines []string
		for i := range 40 {
			lines = append(lines, fmt.Sprintf(format, i))
		}
		for how, run := range map[string]func(){
			"pipeline": func() { p.together(lines) }, "transaction": func() { p.exec(nil, lines...) },
		} {
			before := p.eng.Trips()
			run()
			// The moment, the key's row, those of the elements, the commit, and the catalog's lease.
			if n := p.eng.Trips() - before; n > 6 {
				t.Errorf("%s in a %s: %d trips", what, how, n)
			}
		}
	}
}

// What is rehearsed leaves no trace: commands of a pipeline, or of a transaction, do what
// they do one by one.
func TestRehearsalsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	single, pipeline, transaction := openShared(t, sharedmem.New()), openShared(t, sharedmem.New()), openShared(t, sharedmem.New())
	told := map[*frontEnd]*int{}
	for _, p := range []*frontEnd{single, pipeline, transaction} {
		n := new(int)
		told[p] = n
		p.x.Listen(func(fx *keyspace.Effects, _ engine.Ticket) { *n += len(fx.Events) })
		p.x.Listening(^keyspace.Class(0))
		p.large()
	}
	for range rounds(200) {
		var lines []string
		for range 1 + rng.IntN(12) {
			lines = append(lines, randomCall(rng))
		}
		var want []string
		for _, line := range lines {
			want = append(want, single.do(line))
		}
		one := strings.Join(want, " ")
		if got := pipeline.together(lines); got != one {
			t.Fatalf("pipeline %q: %s, want %s", lines, got, one)
		}
		if got := transaction.exec(nil, lines...); got != "["+one+"]" {
			t.Fatalf("transaction %q: %s, want %s", lines, got, one)
		}
		for _, p := range []*frontEnd{pipeline, transaction} {
			if a, b := single.x.Stats.Hits.Load(), p.x.Stats.Hits.Load(); a != b {
				t.Fatalf("%q: %d hits, want %d", lines, b, a)
			}
			if a, b := single.x.Stats.Changes.Load(), p.x.Stats.Changes.Load(); a != b {
				t.Fatalf("%q: %d changes, want %d", lines, b, a)
			}
			if a, b := *told[single], *told[p]; a != b {
				t.Fatalf("%q: %d events, want %d", lines, b, a)
			}
		}
	}
	for _, line := range []string{"hgetall h", "lrange l 0 -1", "zrange z 0 -1 withscores", "scard s", "hlen h", "zcard z", "llen l", "mget a b c"} {
		want := single.do(line)
		equal(t, line, pipeline.do(line), want)
		equal(t, line, transaction.do(line), want)
	}
}

// randomCall is a command of one key whose reply depends on nothing but the data.
func randomCall(rng *rand.Rand) string {
	n := rng.IntN(700)
	list := []string{
		"hget h f%d", "hset h f%d x%d", "hdel h f%d", "hincrby h n%d %d", "hsetnx h f%d y%d", "hexists h f%d", "hstrlen h f%d", "hlen h",
		"sadd s e%d", "srem s e%d", "sismember s e%d", "scard s",
		"zadd z %d m%d", "zscore z m%d", "zincrby z %d m%d", "zrem z m%d", "zrank z m%d", "zcount z 0 %d", "zpopmin z",
		"lindex l %d", "lset l %d x%d", "rpush l e%d", "lpush l e%d", "lpop l", "rpop l", "llen l", "linsert l before e%d n%d",
		"set a %d", "append a %d", "incr a", "get a", "strlen a", "getdel a", "set b x%d", "setrange b %d y", "getset c %d", "del h", "type l",
		"hset a f%d v%d", "incr h",
	}
	line := list[rng.IntN(len(list))]
	if line == "del h" && rng.IntN(20) > 0 {
		line = "hlen h"
	}
	return strings.ReplaceAll(line, "%d", fmt.Sprint(n))
}
