// Package differential sends random commands to several servers and compares
// their replies to the byte: Redoubt on each engine, a real Redis where there
// is one, and a model of the commands that the real Redis has been compared
// with. A sequence that differs is shrunk and printed as a command script.
//
//	go test ./test/differential                                       # against the model
//	REDOUBT_ORACLE=1 go test ./test/differential                      # and against Redis 7.2, a few also 7.0
//	REDOUBT_ORACLE=1 go test ./test/differential -sequences 5000 -timeout 1h
package differential

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"redoubt/internal/race"
	"redoubt/internal/testserver"
)

var (
	seed      = flag.Uint64("seed", 0, "seed of the first sequence; 0 takes one from the clock")
	sequences = flag.Int("sequences", 0, "how many sequences to run; 0 means the test's own number")
	length    = flag.Int("length", 200, "operations in a sequence")
)

// each runs sequences until one differs, and reports that one, shrunk.
func each(t *testing.T, count int, live bool, targets []target) {
	t.Helper()
	eachIn(t, count, 0, live, targets)
}

// eachIn is each in one version of the protocol, or in both in turns.
func eachIn(t *testing.T, count, version int, live bool, targets []target) {
	t.Helper()
	if race.Enabled {
		count = count/3 + 1
	}
	if *sequences > 0 {
		count = *sequences
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	ops := 0
	for i := range count {
		s := first + uint64(i)
		g := &generator{Rand: rand.New(rand.NewPCG(s, 1)), live: live, newer: !live}
		seq := g.sequence(*length)
		ops += len(seq)
		proto := version
		if proto == 0 {
			proto = 2 + int(s%2)
		}
		again := fmt.Sprintf("go test ./test/differential -run '^%s$' -seed %d -sequences 1 -length %d", t.Name(), s, *length)
		d, err := compare(seq, proto, live, targets)
		if err != nil {
			t.Fatalf("seed %d: %v\nrun again: %s", s, err, again)
		}
		if d != nil {
			t.Fatalf("seed %d: replies differ after\n%s\nrun again: %s", s, d.shrink(live), again)
		}
	}
	t.Logf("%d sequences from seed %d, %d operations, no difference", count, first, ops)
}

// redisTarget is a real Redis 7.2, whose behaviour we have: older ones lack some of
// the commands and encodings, newer ones check some arguments in another order.
func redisTarget(t *testing.T) *serverTarget { return redisOf(t, "7.2") }

// redisOf is a real Redis of one of some versions.
func redisOf(t *testing.T, versions ...string) *serverTarget {
	r := testserver.StartRedis(t)
	r.Needs(t, versions...)
	return &serverTarget{label: "Redis " + r.Version, addr: r.Addr, reset: func() {}, advance: time.Sleep, burst: 50}
}

// TestModelAgainstRedis checks the model.
func TestModelAgainstRedis(t *testing.T) {
	testserver.Oracle(t)
	each(t, 300, true, []target{redisTarget(t), modelTarget{live: true}})
}
