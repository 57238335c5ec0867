// Package replicated tests whole servers of a replicated cluster: what their clients see is
// linearizable, and no acknowledged write is lost, whatever happens to the nodes.
package replicated

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"redoubt/internal/respclient"
	"redoubt/journal"
)

// The keys: two strings and a list, in one state, since transactions touch all of them.
const texts = 2

type data struct {
	text [texts]string
	list string // elements with a comma behind each
}

// step is a command.
type step struct {
	kind string
	key  int
	arg  string
}

func (s step) args() []string {
	switch s.kind {
	case "LPUSH":
		return []string{s.kind, "list", s.arg}
	case "LPOP":
		return []string{s.kind, "list"}
	case "LRANGE":
		return []string{s.kind, "list", "0", "-1"}
	case "SET", "APPEND":
		return []string{s.kind, key(s.key), s.arg}
	}
	return []string{s.kind, key(s.key)}
}

// run does the step and returns the reply as text.
func (d *data) run(s step) string {
	v := &d.text[s.key]
	switch s.kind {
	case "SET":
		*v = s.arg
		return "OK"
	case "APPEND":
		*v += s.arg
		return strconv.Itoa(len(*v))
	case "INCR":
		n, err := strconv.Atoi(*v)
		if err != nil && *v != "" {
			return "error"
		}
		*v = strconv.Itoa(n + 1)
		return *v
	case "LPUSH":
		d.list = s.arg + "," + d.list
		return strconv.Itoa(strings.Count(d.list, ","))
	case "LPOP":
		first, rest, _ := strings.Cut(d.list, ",")
		d.list = rest
		return first
	case "LRANGE":
		return d.list
	}
	return *v
}

// operation is what a client sends: a command, or several in MULTI or in a script.
type operation struct {
	steps  []step
	script bool
}

func (o operation) writes() bool {
	for _, s := range o.steps {
		if s.kind != "GET" && s.kind != "LRANGE" {
			return true
		}
	}
	return false
}

var model = porcupine.Model{
	Init: func() any { return data{} },
	Step: func(state, input, output any) (bool, any) {
		d := state.(data)
		var got []string
		for _, s := range input.(operation).steps {
			got = append(got, d.run(s))
		}
		return output == nil || strings.Join(got, "|") == output.(string), d
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %v", input, output) },
}

// The script runs the commands that it is given, each with the number of its words before it.
const script = `local out, at = {}, 1
while at <= #ARGV do
	local n = tonumber(ARGV[at])
	out[#out + 1] = redis.pcall(unpack(ARGV, at + 1, at + n))
	at = at + 1 + n
end
return out`

func (o operation) eval() []string {
	args := []string{"EVAL", script, strconv.Itoa(texts + 1), "list"}
	for i := range texts {
		args = append(args, key(i))
	}
	for _, s := range o.steps {
		args = append(append(args, strconv.Itoa(len(s.args()))), s.args()...)
	}
	return args
}

func randomOperation(rng *rand.Rand, serial *int) operation {
	o := operation{steps: []step{randomStep(rng, serial)}, script: rng.IntN(5) == 0}
	for rng.IntN(4) == 0 && len(o.steps) < 4 {
		o.steps = append(o.steps, randomStep(rng, serial))
	}
	return o
}

func randomStep(rng *rand.Rand, serial *int) step {
	*serial++
	unique := fmt.Sprint("v", *serial)
	switch rng.IntN(8) {
	case 0:
		return step{"SET", rng.IntN(texts), strconv.Itoa(*serial)}
	case 1:
		// No digit: scripts round what INCR returns beyond 2^53.
		return step{"APPEND", rng.IntN(texts), string(rune('a' + rng.IntN(10)))}
	case 2:
		return step{"INCR", rng.IntN(texts), ""}
	case 3:
		return step{"LPUSH", 0, unique}
	case 4:
		return step{"LPOP", 0, ""}
	case 5:
		return step{"LRANGE", 0, ""}
	}
	return step{"GET", rng.IntN(texts), ""}
}

// outcome of an operation.
type outcome int

const (
	done    outcome = iota
	nothing         // it was refused: nothing happened
	unknown
)

func text(v respclient.Value) string {
	if v.IsError() {
		return "error"
	}
	if v.Kind == respclient.Array {
		var b strings.Builder
		for _, e := range v.Elems {
			b.WriteString(e.Str + ",")
		}
		return b.String()
	}
	return v.Str
}

func refused(v respclient.Value) (outcome, bool) {
	if !v.IsError() {
		return done, false
	}
	switch word, _, _ := strings.Cut(v.Str, " "); word {
	case "READONLY", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "EXECABORT", "MOVED":
		return nothing, true
	case "UNKNOWN":
		return unknown, true
	case "ERR":
		if strings.HasPrefix(v.Str, "ERR value is not an integer") {
			return done, false
		}
	}
	return unknown, true
}

// do runs an operation and returns its reply.
func do(cl *respclient.Client, o operation) (string, outcome) {
	switch {
	case o.script:
		return together(cl.Do(o.eval()...))
	case len(o.steps) == 1:
		v, err := cl.Do(o.steps[0].args()...)
		if err != nil {
			return "", unknown
		}
		if what, is := refused(v); is {
			return v.Str, what
		}
		return text(v), done
	}
	if v, err := cl.Do("MULTI"); err != nil || v.IsError() {
		return "", nothing
	}
	for _, s := range o.steps {
		if v, err := cl.Do(s.args()...); err != nil || v.IsError() {
			cl.Close() // nothing is executed of what was queued
			return "", nothing
		}
	}
	return together(cl.Do("EXEC"))
}

// together returns the reply to several steps.
func together(v respclient.Value, err error) (string, outcome) {
	if err != nil {
		return "", unknown
	}
	if what, is := refused(v); is {
		return v.Str, what
	}
	var all []string
	for _, e := range v.Elems {
		all = append(all, text(e))
	}
	return strings.Join(all, "|"), done
}

// nemesis does one bad thing.
func (c *cluster) nemesis(rng *rand.Rand, power bool) string {
	x := c.nodes[rng.IntN(len(c.nodes))]
	switch rng.IntN(6) {
	case 0, 1:
		x.kill(power && rng.IntN(2) == 0)
		time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
		x.start()
		return "kill"
	case 2: // two sides
		side := rng.IntN(1<<len(c.nodes)-2) + 1
		cuts := make(map[[2]int]bool)
		for a := range c.nodes {
			for b := range c.nodes {
				cuts[[2]int{a, b}] = a != b && side>>a&1 != side>>b&1
			}
		}
		c.setCuts(cuts)
		return "partition"
	case 3: // one direction
		c.setCuts(map[[2]int]bool{{x.no, (x.no + 1) % len(c.nodes)}: true})
		return "one way"
	case 4:
		x.mu.Lock()
		if x.srv != nil {
			x.member.Node().Transfer(uint64(rng.IntN(len(c.nodes)) + 1))
		}
		x.mu.Unlock()
		return "transfer"
	}
	c.setCuts(nil)
	return "heal"
}

// TestLinearizable runs REDOUBT_HISTORIES histories, or one of each kind.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	histories := 2
	if v := os.Getenv("REDOUBT_HISTORIES"); v != "" {
		var err error
		histories, err = strconv.Atoi(v)
		must(t, err)
	}
	for no := range histories {
		name, policy := "everysec", journal.EverySec
		if no%2 == 1 {
			name, policy = "always", journal.Always
		}
		t.Run(fmt.Sprintf("%s/%d", name, no/2), func(t *testing.T) {
			t.Parallel()
			history(t, policy, seeded(t))
		})
	}
}

func history(t *testing.T, policy journal.Policy, rng *rand.Rand) {
	c := newCluster(t, 3, policy, rand.New(rand.NewPCG(rng.Uint64(), 0)))
	c.leader()
	var mu sync.Mutex
	var ops []porcupine.Operation
	counts := make(map[outcome]int)
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	for id := range 5 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		clients.Go(func() {
			serial := id * 1_000_000
			var cl *respclient.Client
			for ctx.Err() == nil {
				if cl == nil {
					if cl = c.nodes[rng.IntN(len(c.nodes))].client(); cl == nil {
						time.Sleep(2 * time.Millisecond)
						continue
					}
				}
				o := randomOperation(rng, &serial)
				call := time.Since(start)
				reply, what := do(cl, o)
				op := porcupine.Operation{ClientId: id, Input: o, Call: int64(call), Output: reply, Return: int64(time.Since(start))}
				mu.Lock()
				counts[what]++
				if what == unknown {
					op.Output, op.Return = nil, int64(time.Hour)
				}
				if what == done || what == unknown && o.writes() {
					ops = append(ops, op)
				}
				mu.Unlock()
				if what != done {
					cl.Close()
					cl = nil
				}
				time.Sleep(time.Duration(rng.IntN(8)) * time.Millisecond)
			}
			if cl != nil {
				cl.Close()
			}
		})
	}
	var events []string
	enough := func() bool { // a machine with much to do takes longer
		mu.Lock()
		defer mu.Unlock()
		return time.Since(start) > 4*time.Second && counts[done] >= 100
	}
	for ctx.Err() == nil && !enough() {
		time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
		events = append(events, c.nemesis(rng, policy == journal.Always))
	}
	cancel()
	clients.Wait()
	c.setCuts(nil)
	x := c.leader()
	cl := x.client()
	for _, s := range []step{{"GET", 0, ""}, {"GET", 1, ""}, {"LRANGE", 0, ""}} {
		o := operation{steps: []step{s}}
		call := time.Since(start)
		reply, what := do(cl, o)
		if what == done {
			ops = append(ops, porcupine.Operation{ClientId: 99, Input: o, Call: int64(call), Output: reply, Return: int64(time.Since(start))})
		}
	}
	cl.Close()
	var rewinds int64
	for _, n := range c.nodes {
		rewinds += n.member.Node().Status().Rewinds
	}
	t.Logf("%d done, %d refused, %d unknown, %d rewinds, %v", counts[done], counts[nothing], counts[unknown], rewinds, events)
	if counts[done] < 10 {
		t.Error("too little has happened")
	}
	switch porcupine.CheckOperationsTimeout(model, ops, time.Minute) {
	case porcupine.Illegal:
		var all strings.Builder
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, o := range ops {
			fmt.Fprintf(&all, "%v..%v client %d: %v -> %v\n", time.Duration(o.Call), time.Duration(o.Return), o.ClientId, o.Input, o.Output)
		}
		t.Errorf("%d operations are not linearizable:\n%s", len(ops), all.String())
	case porcupine.Unknown:
		t.Logf("%d operations were too many to check", len(ops))
	}
	for _, n := range c.nodes {
		n.stop()
	}
}
