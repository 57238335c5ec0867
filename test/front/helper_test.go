package front

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

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/internal/testtikv"
)

var (
	rounds = flag.Int("rounds", 1, "how many times as long the tests run")
	seed   = flag.Uint64("seed", 0, "seed of what is random; 0 takes one from the clock")
)

// program is built if a test needs it.
var program = sync.OnceValues(func() (string, error) {
	path, err := testserver.Build()
	built = path
	return path, err
})

var built string

func TestMain(m *testing.M) {
	flag.Parse()
	// They wait most of the time.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("6"); err != nil {
			panic(err)
		}
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	code := testtikv.Run(m)
	if built != "" {
		if err := os.RemoveAll(filepath.Dir(built)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// stage is where a test plays.
type stage struct {
	*testserver.Fronts
	t   *testing.T
	rng *rand.Rand
	mem bool
}

// How often front ends in this process say that they live. After four times that
// they are taken for dead, and what they tell is not heard: on a busy machine also
// when they are not.
const (
	steady = 500 * time.Millisecond
	hasty  = 100 * time.Millisecond // for tests that kill them
)

// onStores runs a test with n front ends on each store.
func onStores(t *testing.T, n int, beat time.Duration, args []string, f func(*testing.T, *stage)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		f(t, onMemory(t, n, beat, args...))
	})
	t.Run("tikv", func(t *testing.T) {
		t.Parallel()
		f(t, onTiKV(t, n, testtikv.Shared(t), args...))
	})
}

func onMemory(t *testing.T, n int, beat time.Duration, args ...string) *stage {
	return &stage{testserver.MemFronts(t, n, testserver.Options{Args: args, Beat: beat}), t, source(t), true}
}

func onTiKV(t *testing.T, n int, pd string, args ...string) *stage {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return &stage{testserver.TiKVFronts(t, n, path, pd, testtikv.Prefix(t), args...), t, source(t), false}
}

func source(t *testing.T) *rand.Rand {
	t.Logf("seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, uint64(len(t.Name()))))
}

// until polls.
func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("waited in vain: " + what)
		}
	}
}

// client is one for which everything goes well.
type client struct {
	*respclient.Client
	t testing.TB
}

func (s *stage) dial(i int) *client { s.t.Helper(); return &client{s.Dial(i), s.t} }

// do returns a reply as text.
func (c *client) do(words ...string) string {
	c.t.Helper()
	return text(c.value(words...))
}

func (c *client) value(words ...string) respclient.Value {
	c.t.Helper()
	v, err := c.Do(words...)
	if err != nil {
		c.t.Fatalf("%.60s: %v", strings.Join(words, " "), err)
	}
	return v
}

// want fails the test if the reply is another one.
func (c *client) want(reply string, words ...string) {
	c.t.Helper()
	if got := c.do(words...); got != reply {
		c.t.Errorf("%.60s: %s, not %s", strings.Join(words, " "), got, reply)
	}
}

func text(v respclient.Value) string {
	switch {
	case v.IsNull:
		return "nil"
	case v.Elems != nil:
		var list []string
		for _, e := range v.Elems {
			list = append(list, text(e))
		}
		return "[" + strings.Join(list, " ") + "]"
	case v.Kind == respclient.Array:
		return "[]"
	case v.Kind == respclient.Int:
		return strconv.FormatInt(v.Int(), 10)
	}
	return v.Str
}

// large makes collections whose elements are rows.
func (c *client) large(hash, zset, set, list string) {
	c.t.Helper()
	h, z, s, l := []string{"HSET", hash}, []string{"ZADD", zset}, []string{"SADD", set}, []string{"RPUSH", list}
	pad := strings.Repeat("x", 100)
	for i := range 600 {
		n := strconv.Itoa(i)
		h, z, s, l = append(h, "pad"+n, pad), append(z, "-"+n, "pad"+n), append(s, "pad"+n), append(l, pad+n)
	}
	for _, words := range [][]string{h, z, s, l} {
		if words[1] == "" {
			continue
		}
		// A busy machine may take longer for so many rows than a command may.
		for try := 1; ; try++ {
			v := c.value(words...)
			if !v.IsError() {
				break
			}
			if try == 5 {
				c.t.Fatalf("%s of %d elements: %s", words[0], 600, v.Str)
			}
			c.do("DEL", words[1])
		}
	}
}

// outcome is what a client knows of a command that may go wrong.
type outcome int

const (
	done    outcome = iota
	none            // it was not run
	unknown         // or it may have been
)

// worker is a client that goes on at another front end when its own is gone.
type worker struct {
	s    *stage
	at   int
	rng  *rand.Rand
	conn *respclient.Client
	ops  int
	lost int // how often the outcome was unknown
}

func (s *stage) worker(i int, n uint64) *worker {
	return &worker{s: s, at: i, rng: rand.New(rand.NewPCG(n, uint64(i)))}
}

// do sends commands, and returns the reply of the last one.
func (w *worker) do(list ...[]string) (v respclient.Value, o outcome) {
	w.ops++
	if w.conn == nil {
		conn, err := respclient.Dial(w.s.Addr(w.at))
		if err != nil {
			w.at++
			return v, none
		}
		w.conn = conn
	}
	var buf []byte
	for _, words := range list {
		buf = respclient.AppendCommand(buf, words...)
	}
	err := w.conn.Write(buf)
	for range list {
		if err == nil {
			v, err = w.conn.Read()
		}
	}
	switch {
	case err != nil:
		w.conn.Close()
		w.conn = nil
		w.at++
		w.lost++
		return v, unknown
	case !v.IsError():
	case strings.HasPrefix(v.Str, "TRYAGAIN"):
		return v, none
	case strings.HasPrefix(v.Str, "UNKNOWN"):
		w.lost++
		return v, unknown
	default:
		w.s.t.Errorf("%.60s: %s", strings.Join(list[len(list)-1], " "), v.Str)
	}
	return v, done
}

func (w *worker) one(words ...string) (respclient.Value, outcome) { return w.do(words) }

func (w *worker) close() {
	if w.conn != nil {
		w.conn.Close()
	}
}

// trouble makes commits go wrong on a store in memory, until the function that it
// returns is called.
func (s *stage) trouble() (end func()) {
	if !s.mem {
		return func() {}
	}
	for i := range s.Len() {
		s.Engine(i).Intercept(testserver.Faults(s.rng.Uint64()))
	}
	return func() {
		for i := range s.Len() {
			s.Engine(i).Intercept(nil)
		}
	}
}
