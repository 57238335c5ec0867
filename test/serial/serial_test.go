// Package serial checks that transactions and scripts of many clients are as if
// they had been run one after the other, in an order that agrees with time, also
// when the server is killed in between.
package serial

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

var (
	rounds = flag.Int("rounds", 3, "how often each server is killed")
	seed   = flag.Uint64("seed", 0, "seed of the operations; 0 takes one from the clock")
)

var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	path, err := testserver.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = path
	code := m.Run()
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

const (
	clients   = 6
	perClient = 60 // operations in a round: what the checker can take
)

// client is one that works on the shared keys and records what it saw.
type client struct {
	id    int
	rng   *rand.Rand
	start time.Time
	conn  *respclient.Client
	at    layout
	ops   []porcupine.Operation
}

func (c *client) step() step {
	st := step{kind: []string{"get", "get", "set", "incrby", "incrby", "incrby", "del"}[c.rng.IntN(7)], key: c.rng.IntN(keys)}
	if st.kind == "set" || st.kind == "incrby" {
		st.arg = c.rng.Int64N(1_000_000)
	}
	return st
}

// work does one operation after the other until the server is gone.
func (c *client) work(addr string) error {
	conn, err := respclient.Dial(addr)
	if err != nil {
		return nil // it was killed already
	}
	defer conn.Close()
	c.conn = conn
	for range perClient {
		in := input{watched: -1}
		if c.rng.IntN(4) == 0 {
			in.script, in.from, in.to, in.amount = true, c.rng.IntN(keys), c.rng.IntN(keys), c.rng.Int64N(100_000)
			in.secret = c.at.secret && c.rng.IntN(4) == 0
		} else if c.rng.IntN(3) == 0 {
			in.single, in.steps = true, []step{c.step()}
		} else {
			if c.rng.IntN(2) == 0 {
				if in.watched = c.rng.IntN(keys); c.look(&in) != nil {
					return nil
				}
			}
			for range 1 + c.rng.IntN(4) {
				in.steps = append(in.steps, c.step())
			}
		}
		call := time.Since(c.start)
		out, err := c.do(in)
		c.ops = append(c.ops, porcupine.Operation{ClientId: c.id, Input: in, Output: out, Call: int64(call), Return: int64(time.Since(c.start))})
		if err != nil || c.conn == nil {
			return err
		}
	}
	return nil
}

// look watches a key and reads it. The read is an operation too.
func (c *client) look(in *input) error {
	call := time.Since(c.start)
	v, err := c.conn.Do("WATCH", c.at.key(in.watched))
	if err != nil {
		return err
	}
	if v.IsError() {
		if _, err := refused(v); err != nil {
			return err
		}
		in.watched = -1
		return nil
	}
	if v, err = c.conn.Do(c.at.words(step{kind: "get", key: in.watched})...); err != nil {
		return err
	}
	if v.IsError() {
		if _, err := refused(v); err != nil {
			return err
		}
		in.watched = -1 // what was seen is not known; a transaction that is not run is none
		return nil
	}
	in.seen = number(v)
	read := input{watched: -1, steps: []step{{kind: "get", key: in.watched}}}
	c.ops = append(c.ops, porcupine.Operation{ClientId: c.id, Input: read, Output: output{replies: []int64{in.seen}}, Call: int64(call), Return: int64(time.Since(c.start))})
	return nil
}

// lost is for a connection that ended: nobody knows what was done.
func (c *client) lost() (output, error) {
	c.conn = nil
	return output{unknown: true}, nil
}

func (c *client) do(in input) (output, error) {
	if in.script {
		v, err := c.conn.Do(c.at.transfer(in)...)
		switch {
		case err != nil:
			return c.lost()
		case v.IsError():
			return refused(v)
		case v.Kind != respclient.Int:
			return output{unknown: true}, fmt.Errorf("EVAL: %v", v)
		}
		return output{replies: []int64{v.Int()}}, nil
	}
	if in.single {
		v, err := c.conn.Do(c.at.words(in.steps[0])...)
		switch {
		case err != nil:
			return c.lost()
		case v.IsError():
			return refused(v)
		}
		return output{replies: []int64{reply(in.steps[0], v)}}, nil
	}
	buf := respclient.AppendCommand(nil, "MULTI")
	for _, st := range in.steps {
		buf = respclient.AppendCommand(buf, c.at.words(st)...)
	}
	buf = respclient.AppendCommand(buf, "EXEC")
	if err := c.conn.Write(buf); err != nil {
		return c.lost()
	}
	var v respclient.Value
	for range len(in.steps) + 2 {
		var err error
		if v, err = c.conn.Read(); err != nil {
			return c.lost()
		}
	}
	if v.IsNull {
		return output{aborted: true}, nil
	}
	if v.IsError() {
		return refused(v)
	}
	if v.Kind != respclient.Array || len(v.Elems) != len(in.steps) {
		return output{unknown: true}, fmt.Errorf("EXEC: %v", v)
	}
	var out output
	for i, e := range v.Elems {
		if e.IsError() {
			return output{unknown: true}, fmt.Errorf("EXEC: %v", v)
		}
		out.replies = append(out.replies, reply(in.steps[i], e))
	}
	return out, nil
}

// reply is that of a step as the model has it.
func reply(st step, v respclient.Value) int64 {
	n := number(v)
	if st.kind == "set" && n == 1 {
		return 0 // HSET and ZADD say whether it was new
	}
	return n
}

// refused is what an error means that a server on a shared store may answer.
func refused(v respclient.Value) (output, error) {
	switch kind, _, _ := strings.Cut(v.Str, " "); kind {
	case "UNKNOWN":
		return output{unknown: true}, nil
	case "TRYAGAIN":
		return output{none: true}, nil
	}
	return output{unknown: true}, fmt.Errorf("unexpected: %v", v)
}

// number is a reply as the model has it.
func number(v respclient.Value) int64 {
	switch {
	case v.IsNull:
		return missing
	case v.Kind == respclient.Int:
		return v.Int()
	case v.Kind == respclient.Status:
		return 0
	}
	if n, err := strconv.ParseInt(v.Str, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(v.Str, 64); err == nil { // a score
		return int64(f)
	}
	return -7 // no model has it
}

// current reads the state of a server that nobody else uses.
func current(t *testing.T, addr string, at layout) (s state) {
	t.Helper()
	conn, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for k := range s {
		for begin := time.Now(); ; {
			v, err := conn.Do(at.words(step{kind: "get", key: k})...)
			if err != nil {
				t.Fatal(err)
			}
			if !v.IsError() {
				s[k] = number(v)
				break
			}
			if _, err := refused(v); err != nil || time.Since(begin) > time.Minute {
				t.Fatal(v)
			}
		}
	}
	return s
}

// round runs all clients once, spread over some addresses, and returns what they
// recorded.
func round(t *testing.T, at layout, rng *rand.Rand, end func(), addrs ...string) (ops []porcupine.Operation, start time.Time) {
	start = time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range clients {
		c := &client{id: i, rng: rand.New(rand.NewPCG(rng.Uint64(), uint64(i))), start: start, at: at}
		wg.Go(func() {
			if err := c.work(addrs[i%len(addrs)]); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ops = append(ops, c.ops...)
		})
	}
	end()
	wg.Wait()
	return ops, start
}

// verify checks a round against the states before and after it.
func verify(t *testing.T, before, after state, ops []porcupine.Operation, start time.Time) {
	t.Helper()
	// What was under way when the server died had happened by now, or never will.
	now := int64(time.Since(start))
	for i := range ops {
		if ops[i].Output.(output).unknown {
			ops[i].Return = now - 1
		}
	}
	check(t, before, after, ops, now)
}

// check is verify for operations that have ended when they say so.
func check(t *testing.T, before, after state, ops []porcupine.Operation, now int64) {
	t.Helper()
	read, out := input{watched: -1}, output{}
	for k := range after {
		read.steps = append(read.steps, step{kind: "get", key: k})
		out.replies = append(out.replies, after[k])
	}
	ops = append(ops, porcupine.Operation{ClientId: clients, Input: read, Output: out, Call: now, Return: now + 1})
	switch result, info := porcupine.CheckOperationsVerbose(model(before), ops, 60*time.Second); result {
	case porcupine.Illegal:
		path := filepath.Join(os.TempDir(), fmt.Sprintf("redoubt-serial-%d.html", *seed))
		if err := porcupine.VisualizePath(model(before), info, path); err != nil {
			t.Log(err)
		}
		t.Errorf("no order explains what the clients saw; see %s", path)
	case porcupine.Unknown:
		t.Error("the checker found no answer in time")
	}
}

// TestKilled checks transactions and scripts on a server that is killed.
func TestKilled(t *testing.T) {
	for i, args := range [][]string{
		{"--appendfsync", "always"}, {"--appendfsync", "everysec"},
		{"--appendfsync", "everysec", "--maxmemory", "4mb", "--io-threads", "4"}, // rows come and go; many loops
	} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", *seed)
			rng := rand.New(rand.NewPCG(*seed, uint64(i)))
			dir := t.TempDir()
			total, finished := 0, 0
			p := testserver.StartProcess(t, program, dir, args...)
			for range *rounds {
				before := current(t, p.Addr, plain)
				ops, start := round(t, plain, rng, func() {
					<-time.After(time.Duration(5+rng.IntN(150)) * time.Millisecond)
					p.Kill()
				}, p.Addr)
				p = testserver.StartProcess(t, program, dir, args...)
				verify(t, before, current(t, p.Addr, plain), ops, start)
				total += len(ops)
				for _, op := range ops {
					if o := op.Output.(output); !o.unknown && !o.aborted {
						finished++
					}
				}
			}
			t.Logf("%d operations, %d of them finished", total, finished)
			if finished == 0 {
				t.Error("nothing was finished: the test tested nothing")
			}
		})
	}
}

// TestServed checks the same on a server in this process, where the race detector
// sees it, and on every carrier.
func TestServed(t *testing.T) {
	for i, o := range []testserver.Options{{Engine: "mem"}, {Engine: "local"}, {Engine: "cold"}, {Engine: "mem", Pipes: true}} {
		t.Run(fmt.Sprintf("%s-%v", o.Engine, o.Pipes), func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", *seed)
			o.Args = append(o.Args, "--io-threads", "3")
			addr := testserver.Start(t, o).Addr
			rng := rand.New(rand.NewPCG(*seed, uint64(100+i)))
			for range *rounds {
				before := current(t, addr, plain)
				ops, start := round(t, plain, rng, func() {}, addr)
				verify(t, before, current(t, addr, plain), ops, start)
			}
		})
	}
}
