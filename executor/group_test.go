package executor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/sharedmem"
)

// runTogether has a writer of a key wait in its commit until others of the same key have
// come, and returns the answers of all.
func (p *frontEnd) runTogether(lines ...string) []string {
	p.t.Helper()
	gate := make(chan struct{})
	p.eng.Inject(sharedmem.Fault{Wait: gate})
	answers := make([]string, len(lines))
	ended := make(chan struct{})
	for i := range lines {
		go func() {
			answers[i] = p.do(lines[i])
			ended <- struct{}{}
		}()
		for p.gathered() != i { // so that they come in order
			time.Sleep(100 * time.Microsecond)
		}
	}
	close(gate)
	for range lines {
		<-ended
	}
	if n := len(p.store().groups.waiting); n != 0 {
		p.t.Errorf("%d stripes are left", n)
	}
	return answers
}

// gathered is how many wait, -1 if nobody is under way.
func (p *frontEnd) gathered() int {
	p.store().groups.mu.Lock()
	defer p.store().groups.mu.Unlock()
	n := len(p.store().groups.waiting) - 1
	for _, waiting := range p.store().groups.waiting {
		n += len(waiting)
	}
	return n
}

// Those who come while one is under way are one transaction.
func TestGroup(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	lines := []string{"set n 10"}
	for range 3 * maxGroup {
		lines = append(lines, "incr n")
	}
	before := p.x.Stats.Commits.Load()
	for i, got := range p.runTogether(lines...)[1:] {
		equal(t, "an answer", got, fmt.Sprint(11+i))
	}
	equal(t, "commits", p.x.Stats.Commits.Load()-before, 1+3)
	equal(t, "joined", p.x.Stats.Joined.Load(), 3*maxGroup)
	p.want("get n", fmt.Sprint(10+3*maxGroup))
}

// Each has its own answer, whatever becomes of the others.
func TestGroupOfAllKinds(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	p.want("set n x", "OK")
	got := p.runTogether("append n y", "incr n", "lpush n a", "getdel n", "rpush n a b", "append n z", "lpop n")
	equal(t, "answers", strings.Join(got, " | "), "2 | !ERR value is not an integer or out of range | "+
		"!WRONGTYPE Operation against a key holding the wrong kind of value | xy | 2 | "+
		"!WRONGTYPE Operation against a key holding the wrong kind of value | a")
	p.want("lrange n 0 -1", "[b]")
}

// A conflict has all of them run again, once.
func TestGroupConflicts(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	tries := 0
	a.eng.Intercept(func(*engine.Batch) sharedmem.Fault {
		if tries++; tries == 1 {
			b.do("incrby n 100")
		}
		return sharedmem.Fault{}
	})
	equal(t, "answers", strings.Join(a.runTogether("incr n", "incr n", "incr n"), " "), "1 102 103")
	equal(t, "conflicts", a.x.Stats.Conflicts.Load(), 1)
}

// What cannot be committed fails alone: neither the others nor those whom they serve
// suffer from it.
func TestGroupWithABadOne(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	p.eng.Intercept(func(b *engine.Batch) sharedmem.Fault {
		for op := range b.Ops() {
			if strings.Contains(string(op.Value), "poison") {
				return sharedmem.Fault{Err: errors.New("this row is too much for the store")}
			}
		}
		return sharedmem.Fault{}
	})
	one, _ := p.waits("blpop l 0")
	two, _ := p.waits("blpop l 0")
	got := p.runTogether("rpush l a", "rpush l b", "rpush l c", "rpush l poison", "rpush l d")
	equal(t, "answers", strings.Join(got, " | "), "1 | 1 | 1 | !ERR commit: injected: this row is too much for the store | 2")
	equal(t, "the first served", <-one, "[l a]")
	equal(t, "the second served", <-two, "[l b]")
	p.want("lrange l 0 -1", "[c d]")
}

// Nobody knows of any of them whether it happened.
func TestGroupUnknown(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	p.eng.Intercept(func(*engine.Batch) sharedmem.Fault {
		return sharedmem.Fault{Err: engine.ErrUnknownOutcome, Applied: true}
	})
	for _, got := range p.runTogether("incr n", "incr n", "incr n")[1:] {
		if !strings.Contains(got, "UNKNOWN") {
			t.Error(got)
		}
	}
	p.want("get n", "3")
}

// Who has waited for too long is not run.
func TestGroupIsLate(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	p.store().retryFor = 0
	for _, got := range p.runTogether("incr n", "incr n", "incr n")[1:] {
		if !strings.Contains(got, "TRYAGAIN too many commands write the same key") {
			t.Error(got)
		}
	}
	p.want("get n", "1")
}

func (p *frontEnd) store() *sharedStore { return p.x.store.(*sharedStore) }
