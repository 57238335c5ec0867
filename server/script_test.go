package server_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// scripted is a client of the tests in this file: it fails the test itself.
type scripted struct {
	t *testing.T
	*respclient.Client
}

func dialScripted(t *testing.T, s *testserver.Server) scripted {
	t.Helper()
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return scripted{t, c}
}

func (c scripted) do(args ...string) string {
	c.t.Helper()
	v, err := c.Do(args...)
	if err != nil {
		c.t.Fatalf("%.80q: %v", args, err)
	}
	return v.String()
}

func (c scripted) want(want string, args ...string) {
	c.t.Helper()
	if got := c.do(args...); !strings.HasPrefix(got, want) {
		c.t.Errorf("%.80q: %s, not %s", args, got, want)
	}
}

// until repeats a command until its reply begins in a way.
func (c scripted) until(want string, args ...string) {
	c.t.Helper()
	for start := time.Now(); !strings.HasPrefix(c.do(args...), want); {
		if time.Since(start) > 20*time.Second {
			c.t.Fatalf("%q never says %s, but %s", args, want, c.do(args...))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A script that never ends hurts nobody but its client, not even a client that
// flushes everything; and killing it undoes what it wrote.
func TestEndlessScript(t *testing.T) {
	t.Parallel()
	for _, pipes := range []bool{false, true} {
		s := testserver.Start(t, testserver.Options{Pipes: pipes, Args: []string{"--busy-reply-threshold", "50"}})
		bad, c := dialScripted(t, s), dialScripted(t, s)
		c.want("OK", "SET", "other", "1")
		if err := bad.Send("EVAL", "redis.call('set',KEYS[1],'x') while true do end", "1", "k"); err != nil {
			t.Fatal(err)
		}
		c.until("(error) BUSY", "FUNCTION", "KILL")
		c.want(`"1"`, "GET", "other")
		c.want("OK", "SET", "other", "2")
		if !pipes { // an event loop reads one row without a latch
			c.want("(nil)", "GET", "k")
		}
		c.want("(bulk", "CLIENT", "LIST")
		c.want("(integer) 1", "EVAL", "return redis.call('incr','n')", "1", "n")
		c.want("OK", "FLUSHALL")
		c.want("OK", "SET", "other", "3")
		c.until("OK", "SCRIPT", "KILL")
		if v, err := bad.Read(); err != nil || !strings.HasPrefix(v.String(), "(error) ERR Script killed by user with SCRIPT KILL") {
			t.Error(v, err)
		}
		c.want("(nil)", "GET", "k")
		c.want("OK", "SET", "k", "y")
		c.want("(error) NOTBUSY", "SCRIPT", "KILL")
		bad.want(`"y"`, "GET", "k")
	}
}

// The same of a function; and FUNCTION STATS tells of it.
func TestEndlessFunction(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Args: []string{"--busy-reply-threshold", "50"}})
	bad, c := dialScripted(t, s), dialScripted(t, s)
	c.want(`"lib"`, "FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('endless', function() while true do end end)")
	if err := bad.Send("FCALL", "endless", "0", "arg"); err != nil {
		t.Fatal(err)
	}
	c.until("(error) BUSY", "SCRIPT", "KILL")
	if stats := c.do("FUNCTION", "STATS"); !strings.Contains(stats, `"endless"`) || !strings.Contains(stats, `"arg"`) {
		t.Error(stats)
	}
	c.want(`"two"`, "FUNCTION", "LOAD", "#!lua name=two\nredis.register_function('two', function() return 2 end)")
	c.want("(integer) 2", "FCALL", "two", "0")
	c.until("OK", "FUNCTION", "KILL")
	if v, err := bad.Read(); err != nil || !strings.HasPrefix(v.String(), "(error) ERR Script killed by user with SCRIPT KILL") {
		t.Error(v, err)
	}
}

// A script that wants too much memory is ended and undone.
func TestGreedyScript(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Args: []string{"--lua-memory-limit", "4mb"}})
	c := dialScripted(t, s)
	c.want("(error) ERR Script holds more than", "EVAL", "redis.call('set',KEYS[1],'x') local t = {} while true do t[#t+1] = {} end", "1", "k")
	c.want("(nil)", "GET", "k")
	c.want("(error) ERR Script holds more than", "EVAL", "return string.rep('x', 5e6)", "0")
	c.want("OK", "CONFIG", "SET", "lua-memory-limit", "64mb")
	c.want("(bulk 5000000", "EVAL", "return string.rep('x', 5e6)", "0")
}

// Scripts and commands on a few keys, which some of the scripts do not declare:
// money is moved, and never made or lost.
func TestScriptsAreAtomic(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"mem", "local", "cold"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := testserver.Start(t, testserver.Options{Engine: engine, Args: []string{"--io-threads", "2"}})
			const accounts, clients, moves = 6, 6, 200
			first := dialScripted(t, s)
			for i := range accounts {
				first.want("OK", "SET", fmt.Sprint("account", i), "100")
			}
			const move = `
				local from, to, n = KEYS[1] or 'account'..ARGV[2], KEYS[2] or 'account'..ARGV[3], tonumber(ARGV[1])
				local have = tonumber(redis.call('get', from))
				if have < n then return 0 end
				for i = 1, tonumber(ARGV[4]) do local x = {} end
				redis.call('decrby', from, n)
				redis.call('incrby', to, n)
				return 1`
			const sum = "local n = 0 for i = 0, 5 do n = n + redis.call('get', 'account'..i) end return n"
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			var wg sync.WaitGroup
			for i := range clients {
				c := dialScripted(t, s)
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				wg.Go(func() {
					for range moves {
						a, b := rng.IntN(accounts), rng.IntN(accounts)
						n, work := strconv.Itoa(rng.IntN(50)), strconv.Itoa(rng.IntN(2)*rng.IntN(5000))
						from, to := strconv.Itoa(a), strconv.Itoa(b)
						var reply string
						switch rng.IntN(4) {
						case 0:
							reply = c.do("EVAL", move, "0", n, from, to, work)
						case 1:
							reply = c.do("EVAL", move, "1", "account"+from, n, from, to, work)
						case 2:
							reply = c.do("EVAL", move, "2", "account"+from, "account"+to, n, from, to, work)
						default:
							if reply = c.do("EVAL", sum, "0"); reply == "(integer) 600" {
								reply = "(integer) 1"
							}
						}
						if reply != "(integer) 0" && reply != "(integer) 1" {
							t.Error(reply)
							return
						}
					}
				})
			}
			wg.Wait()
			first.want("(integer) 600", "EVAL_RO", sum, "0")
		})
	}
}

// What a script's commands did is in the statistics, once.
func TestScriptStatistics(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	c := dialScripted(t, s)
	c.want("OK", "CONFIG", "RESETSTAT")
	// It is run twice, since it takes longer than an event loop lets it.
	c.want("(error) WRONGTYPE", "EVAL", "redis.call('set','k','v') for i=1,1e5 do end redis.pcall('nosuch') return redis.call('lpush','k','v')", "1", "k")
	stats := c.do("INFO", "commandstats", "errorstats")
	for _, want := range []string{"cmdstat_set:calls=1,", "cmdstat_lpush:calls=1,", "cmdstat_eval:calls=1,", "errorstat_WRONGTYPE:count=1", "errorstat_ERR:count=1"} {
		if !strings.Contains(stats, want) {
			t.Errorf("%s is missing in %s", want, stats)
		}
	}
	for _, want := range []string{"cmdstat_lpush", "cmdstat_eval"} {
		_, line, _ := strings.Cut(stats, want)
		if line, _, _ = strings.Cut(line, `\r`); !strings.Contains(line, "failed_calls=1") {
			t.Errorf("%s%s", want, line)
		}
	}
}

// Payloads of FUNCTION DUMP go from Redoubt to a real Redis and back.
func TestFunctionPayloads(t *testing.T) {
	testserver.Oracle(t)
	s, r := testserver.Start(t, testserver.Options{}), testserver.StartRedis(t)
	ours := dialScripted(t, s)
	client, err := respclient.Dial(r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	theirs := scripted{t, client}
	lib := func(name, function, result string) string {
		return fmt.Sprintf("#!lua name=%s\nlocal filler = '%s'\nredis.register_function('%s', function() return '%s' end)",
			name, strings.Repeat("x", 300), function, result)
	}
	dump := func(c scripted) string {
		v, err := c.Do("FUNCTION", "DUMP")
		if err != nil || v.IsError() {
			t.Fatal(v, err)
		}
		return v.Str
	}
	ours.want(`"a"`, "FUNCTION", "LOAD", lib("a", "f", "ours"))
	ours.want(`"b"`, "FUNCTION", "LOAD", lib("b", "g", "ours"))
	theirs.want("OK", "FUNCTION", "RESTORE", dump(ours))
	theirs.want(`"ours"`, "FCALL", "f", "0")
	theirs.want(`"a"`, "FUNCTION", "LOAD", "REPLACE", lib("a", "f", "theirs"))
	payload := dump(theirs)
	for _, c := range []scripted{ours, theirs} {
		c.want("(error) ERR Library ", "FUNCTION", "RESTORE", payload)
		c.want("(error) ERR Library ", "FUNCTION", "RESTORE", payload, "APPEND")
	}
	ours.want(`"ours"`, "FCALL", "f", "0")
	ours.want("OK", "FUNCTION", "RESTORE", payload, "REPLACE")
	ours.want(`"theirs"`, "FCALL", "f", "0")
	ours.want(`"c"`, "FUNCTION", "LOAD", lib("c", "h", "ours"))
	ours.want("OK", "FUNCTION", "RESTORE", payload, "FLUSH")
	ours.want("(error) ERR Function not found", "FCALL", "h", "0")
	ours.want("OK", "FUNCTION", "FLUSH")
	ours.want(`"c"`, "FUNCTION", "LOAD", lib("c", "g", "ours"))
	ours.want("(error) ERR Function g already exists", "FUNCTION", "RESTORE", payload, "REPLACE")
	ours.want(`"ours"`, "FCALL", "g", "0")
	ours.want("(error) ERR Function not found", "FCALL", "f", "0")
}

// A failed transaction leaves no library behind, neither for others nor for
// later.
func TestLibraryIsRolledBack(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Engine: "cold"})
	c := dialScripted(t, s)
	c.want(`"old"`, "FUNCTION", "LOAD", "#!lua name=old\nredis.register_function('f', function() return 1 end)")
	for range 20 { // each is run some times, as rows are cold
		c.want("OK", "MULTI")
		c.want("QUEUED", "FUNCTION", "LOAD", "REPLACE", "#!lua name=old\nredis.register_function('g', function() return 2 end)")
		c.want("QUEUED", "FCALL", "g", "0")
		c.want("QUEUED", "GET", "k")
		c.want("QUEUED", "FUNCTION", "LOAD", "REPLACE", "#!lua name=old\nredis.register_function('f', function() return 1 end)")
		c.want("QUEUED", "FCALL", "f", "0")
		c.want("1) \"old\"\n2) (integer) 2\n3) (nil)\n4) \"old\"\n5) (integer) 1", "EXEC")
	}
	c.want("OK", "MULTI")
	c.want("QUEUED", "FUNCTION", "DELETE", "old")
	c.want("OK", "DISCARD")
	c.want("(integer) 1", "FCALL", "f", "0")
}
