package differential

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// TestAtomic has many connections, spread over several event loops, write to
// the same keys, and checks what must hold at every moment: nobody sees a half
// of an MSET, an MSETNX, a RENAME or a SWAPDB, and no increment is lost.
func TestAtomic(t *testing.T) {
	t.Parallel()
	for _, o := range []testserver.Options{
		{Engine: "mem", Args: []string{"--io-threads", "3"}},
		{Engine: "local", Args: []string{"--io-threads", "3"}},
		{Engine: "local", Pipes: true},
		{Engine: "cold", Args: []string{"--io-threads", "3"}},
	} {
		name := o.Engine
		if o.Pipes {
			name += "-pipes"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &atomicRun{addr: testserver.Start(t, o).Addr, stop: make(chan struct{})}
			a.run(t)
		})
	}
}

type atomicRun struct {
	addr string
	stop chan struct{}
}

var group = []string{"m1", "m2", "m3", "m4", "m5"} // always set together

func (a *atomicRun) run(t *testing.T) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", s)
	setup, err := respclient.Dial(a.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer setup.Close()
	for _, cmd := range [][]string{
		{"MSET", "m1", "0", "m2", "0", "m3", "0", "m4", "0", "m5", "0", "here", "token"},
		{"SELECT", "5"}, {"SET", "side", "left"}, {"SELECT", "6"}, {"SET", "side", "right"}, {"SELECT", "0"},
	} {
		if v, err := setup.Do(cmd...); err != nil || v.Str != "OK" {
			t.Fatalf("%q: %s, %v", cmd, v, err)
		}
	}
	workers := []func(*respclient.Client, *rand.Rand) error{
		a.setGroup, a.setGroup, a.setGroup, a.readGroup, a.readGroup, a.increment, a.increment, a.increment, a.pass, a.pass, a.find, a.find, a.swap, a.sides,
	}
	var wg sync.WaitGroup
	for i, w := range workers {
		c, err := respclient.Dial(a.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(s, uint64(i)))
			for {
				select {
				case <-a.stop:
					return
				default:
				}
				if err := w(c, rng); err != nil {
					t.Errorf("worker %d: %v", i, err)
					return
				}
			}
		})
	}
	<-time.After(700 * time.Millisecond)
	close(a.stop)
	wg.Wait()
	sum, err := setup.Do("GET", "sum")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := setup.Do("MGET", "part0", "part1", "part2")
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, p := range parts.Elems {
		total += p.Int()
	}
	if total != sum.Int() || total == 0 {
		t.Errorf("increments: the parts are %s, the sum is %s", parts, sum)
	}
}

func (a *atomicRun) setGroup(c *respclient.Client, rng *rand.Rand) error {
	v := strconv.Itoa(rng.IntN(1_000_000))
	if rng.IntN(20) == 0 { // in chunks
		v += string(make([]byte, 70_000))
	}
	args := []string{"MSET"}
	for _, i := range rng.Perm(len(group)) {
		args = append(args, group[i], v)
	}
	_, err := c.Do(args...)
	return err
}

func (a *atomicRun) readGroup(c *respclient.Client, rng *rand.Rand) error {
	v, err := c.Do(append([]string{"MGET"}, group...)...)
	if err != nil {
		return err
	}
	for _, e := range v.Elems {
		if e.Str != v.Elems[0].Str || e.IsNull {
			return fmt.Errorf("half of an MSET is seen: %s", v)
		}
	}
	// A large value is never a mixture of two.
	n, err := c.Do("BITOP", "XOR", fmt.Sprintf("xor%d", rng.IntN(3)), group[0], group[1])
	if err != nil {
		return err
	}
	if v, err := c.Do("BITCOUNT", "xor0"); err != nil || v.Str != "0" {
		return errors.Join(err, fmt.Errorf("m1 XOR m2 has %s bits of %s bytes", v, n))
	}
	return nil
}

func (a *atomicRun) increment(c *respclient.Client, rng *rand.Rand) error {
	var out []byte
	const burst = 20
	for range burst {
		out = respclient.AppendCommand(out, "INCR", "sum")
		out = respclient.AppendCommand(out, "INCR", fmt.Sprintf("part%d", rng.IntN(3)))
	}
	if err := c.Write(out); err != nil {
		return err
	}
	last := int64(0)
	for i := range 2 * burst {
		v, err := c.Read()
		if err != nil || v.Kind != respclient.Int {
			return errors.Join(err, fmt.Errorf("INCR: %s", v))
		}
		if i%2 == 0 {
			if v.Int() <= last {
				return fmt.Errorf("the sum went from %d to %s", last, v)
			}
			last = v.Int()
		}
	}
	return nil
}

// pass moves the token between two names.
func (a *atomicRun) pass(c *respclient.Client, rng *rand.Rand) error {
	names := []string{"here", "there"}
	i := rng.IntN(2)
	v, err := c.Do(pick(&generator{Rand: rng}, []string{"RENAME", "RENAMENX"}), names[i], names[1-i])
	if err == nil && v.IsError() && v.Str != "ERR no such key" {
		err = errors.New(v.Str)
	}
	return err
}

func (a *atomicRun) find(c *respclient.Client, _ *rand.Rand) error {
	v, err := c.Do("EXISTS", "here", "there")
	if err != nil || v.Str != "1" {
		return errors.Join(err, fmt.Errorf("the token is in %s places", v))
	}
	m, err := c.Do("MGET", "there", "here")
	if err != nil || m.Elems[0].Str+m.Elems[1].Str != "token" {
		return errors.Join(err, fmt.Errorf("the token is torn: %s", m))
	}
	return nil
}

func (a *atomicRun) swap(c *respclient.Client, _ *rand.Rand) error {
	_, err := c.Do("SWAPDB", "5", "6")
	return err
}

// sides sees both databases in one command.
func (a *atomicRun) sides(c *respclient.Client, rng *rand.Rand) error {
	if _, err := c.Do("SELECT", strconv.Itoa(5+rng.IntN(2))); err != nil {
		return err
	}
	v, err := c.Do("MGET", "side", "side", "side")
	if err != nil {
		return err
	}
	for _, e := range v.Elems {
		if e.Str != v.Elems[0].Str || e.IsNull {
			return fmt.Errorf("a database changed under a command: %s", v)
		}
	}
	return nil
}
