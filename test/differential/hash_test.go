package differential

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testserver"
)

// TestFieldsAgainstRedis compares the model's hashes, with fields that expire, with
// a Redis that has them all: 8.0 or newer. Such a Redis keeps fields that are
// past their time for some commands, so no field comes to that: times are far
// away, or have passed already when they are given.
func TestFieldsAgainstRedis(t *testing.T) {
	testserver.Oracle(t)
	r := testserver.StartRedis(t)
	if strings.HasPrefix(r.Version, "7.") {
		t.Skipf("Redis %s lacks some of the commands", r.Version)
	}
	count := 200
	if *sequences > 0 {
		count = *sequences
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	targets := []target{
		&serverTarget{label: "Redis " + r.Version, addr: r.Addr, reset: func() {}, advance: time.Sleep, burst: 50},
		modelTarget{live: true},
		redoubtTarget(t, testserver.Options{Engine: "mem"}, true, 50),
	}
	for i := range count {
		s := first + uint64(i)
		g := &generator{Rand: rand.New(rand.NewPCG(s, 1)), live: true, newer: true, used: make(map[int]bool), pool: keyPool[:2]}
		for len(g.ops) < *length {
			args := g.hashCommand()
			switch {
			case args[0] == "OBJECT": // there a time that is refused makes a listpackex
			case g.chance(2):
				g.cmd(pick(g, []string{"DEL", "TYPE"}), g.key())
			case g.chance(1):
				g.cmd("SET", g.key(), "v")
			default:
				g.cmd(args...)
			}
		}
		d, err := compare(g.ops, 2+int(s%2), true, targets)
		if err != nil {
			t.Fatalf("seed %d: %v", s, err)
		}
		if d != nil {
			t.Fatalf("seed %d: replies differ after\n%s", s, d.shrink(true))
		}
	}
	t.Logf("%d sequences from seed %d, no difference", count, first)
}
