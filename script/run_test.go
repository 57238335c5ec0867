package script

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/wire"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.eval("redis.call('any', 'a\\0b', 1, 1.5, 1e20, -0.0, 2^60, ARGV[1], KEYS[1] == nil and 'none')", "x")
	b.want(fmt.Sprintf("%q", b.calls), `[["any" "a\x00b" "1" "1.5" "1e+20" "0" "1152921504606846976" "x" "none"]]`)
}

// A failure of the transaction is none that a script could catch, and nothing
// remains of the run.
func TestTransactionFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cold := errors.New("cold")
	b.do = func([][]byte, *wire.Writer) error {
		b.tx.Fail(cold)
		return cold
	}
	reply, err := b.call(2, "eval", "redis.log(redis.LOG_WARNING,'told') pcall(redis.call,'get','k') redis.pcall('get','k') return 1", "0")
	if !errors.Is(err, cold) || reply != "" || len(b.calls) != 1 || b.log.Len() > 0 {
		t.Errorf("%q, %v, %q, log %q", reply, err, b.calls, b.log.String())
	}
	b.do = nil
	b.want(b.eval("return 1"), ":1\r\n")
}

// An error of a command undoes that command alone, and one of the script nothing.
func TestErrorsAreReplies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do = func(args [][]byte, w *wire.Writer) error {
		if string(args[0]) == "get" {
			return command.ErrWrongType
		}
		w.OK()
		return nil
	}
	prefix := func(script, want string) {
		t.Helper()
		if got := b.eval(script); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, ", on @user_script:1.\r\n") {
			t.Errorf("%s: %q", script, got)
		}
	}
	prefix("redis.call('set','a','b') redis.call('get','k')", "-WRONGTYPE Operation against a key holding the wrong kind of value script: ")
	prefix("return redis.call('get','secret')", "-ERR ACL failure in script: No permissions to access a key script: ")
	b.want(b.eval("return redis.pcall('get','k')"), "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
}

// On an event loop a script has a budget. When it is used up, the script is run
// elsewhere, and so are the next calls of it.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tx.Worker = false
	long := []string{"eval", "for i=1,tonumber(ARGV[1]) do local x = {} end redis.log(redis.LOG_WARNING,'told') return 1", "0"}
	heavy := func(n string) bool {
		reply, err := b.call(2, append(long, n)...)
		if err != nil && !errors.Is(err, keyspace.TakesLong) || err == nil && reply != ":1\r\n" {
			t.Fatal(reply, err)
		}
		return err != nil
	}
	if heavy("10") || !heavy("100000") || !heavy("10") {
		t.Error("a long script runs on a loop, or a short one does not")
	}
	b.tx.Worker = true
	if heavy("100000") {
		t.Error("a worker does not run a long script")
	}
	b.tx.Worker = false
	for n := 0; heavy("10"); n++ {
		if n > 2*heavyCalls {
			t.Fatal("a script that was heavy once never comes back to a loop")
		}
	}
	if n := strings.Count(b.log.String(), "told"); n != 3 {
		t.Errorf("%d lines in the log, not one for each run that was completed", n)
	}
}

// A script on a worker can be killed at once, whatever it catches.
func TestKill(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.Kill(true); err != errNotBusy {
		t.Error(err)
	}
	b.after.Store(int64(time.Hour))
	done := make(chan error)
	go func() {
		_, err := b.call(2, "eval", "while true do pcall(function() while true do end end) end", "0")
		done <- err
	}()
	for b.Figures().Running == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := b.Kill(false); err != errBusyEval {
		t.Error(err)
	}
	if err := b.Kill(true); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil || !strings.HasPrefix(err.Error(), "ERR Script killed by user with SCRIPT KILL") {
		t.Error(err)
	}
	if f := b.Figures(); f.Running != 0 {
		t.Error(f.Running, "scripts run")
	}
	b.want(b.eval("return 1"), ":1\r\n")
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.limit = 1 << 20
	for _, script := range []string{
		"local t = {} while true do t[#t+1] = {} end",
		"return string.rep('x', 1e9)",
		"local s = 'x' while true do s = s .. s end",
		"local t = {} for i=1,1e9 do t[i] = i end",
		"return pcall(function() local t = {} while true do t[#t+1] = 'x'..#t end end)",
		"local a = {} a[1] = a a[2] = a return a",
		"while true do redis.call('set','k',string.rep('x',1e6)..'y'..string.rep('z',1e6)) end",
		"return string.format('%s%s', string.rep('x',900000), string.rep('y',900000))",
		"return table.concat({string.rep('x',900000), string.rep('y',900000)})",
		"return cjson.encode({string.rep('x',900000), string.rep('y',900000)})",
	} {
		reply, err := b.call(2, "eval", script, "0")
		if err == nil || !strings.Contains(err.Error(), "lua-memory-limit") {
			t.Errorf("%s: %.100q, %v", script, reply, err)
		}
	}
	b.want(b.eval("return #string.rep('x', 1000)"), ":1000\r\n")
}

// Nothing of a script is there for the next one.
func TestNothingRemains(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.eval("KEYS.x = 1 setmetatable(KEYS, {__index = function() return 'left' end})", "a")
	b.want(b.eval("return {KEYS.x, KEYS.y, #ARGV}"), "*0\r\n")
	for _, script := range []string{
		"getmetatable('').__index = function() return 'left' end",
		"getmetatable('').x = 1",
		"string.sub = nil",
		"setfenv(0, {})",
		"setfenv(1, {}) x = 1",
		"rawset(string, 'x', 1)",
		"table.insert(redis, 1)",
		"math.randomseed(5)",
		"redis.setresp(3)",
		"coroutine.wrap(function() coroutine.yield() end)()",
		"cjson.encode_max_depth(3)",
		"error({})",
		"error(setmetatable({}, {__index = function() error('x') end}))",
		"return setmetatable({}, {__index = function() error('x') end})",
	} {
		b.eval(script)
	}
	b.want(b.eval("return {('abc'):sub(2), type(string.sub), type(redis.call), rawget(_G,'x') == nil, true}"),
		"*5\r\n$2\r\nbc\r\n$8\r\nfunction\r\n$8\r\nfunction\r\n:1\r\n:1\r\n")
}

// Random numbers are the same when an execution is run again, and not the same in
// the next one.
func TestRandom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.eval("return tostring(math.random())")
	b.want(b.eval("return tostring(math.random())"), one)
	b.want(b.eval("math.randomseed(1) return {tostring(math.random()), math.random(100), math.random(5,10)}"),
		"*3\r\n$17\r\n0.041630344484761\r\n:46\r\n:10\r\n")
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.oom = true
	for script, want := range map[string]string{
		"return redis.pcall('set','a','b')":                                "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
		"return redis.call('get','a')":                                     "+OK\r\n",
		"#!lua flags=allow-oom\nreturn redis.call('set','a','b')":          "+OK\r\n",
		"#!lua flags=no-writes\nreturn redis.call('get','a')":              "+OK\r\n",
		"#!lua flags=no-writes\nreturn redis.pcall('publish','a','b').err": "$58\r\nERR Write commands",
	} {
		if got := b.eval(script); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", script, got)
		}
	}
	if _, err := b.call(2, "eval", "#!lua\nreturn 1", "0"); err != errOOMFlag {
		t.Error(err)
	}
}

// Scripts that came by EVAL go when there are many, in the order of their last
// use; those that were loaded stay.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	exists := func(sha string) bool {
		reply, _ := b.call(2, "script", "exists", sha)
		return reply == "*1\r\n:1\r\n"
	}
	load := func(script string) string {
		reply, err := b.call(2, "script", "load", script)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(reply, "\r\n")[1]
	}
	loaded := load("return 'loaded'")
	b.eval("return 'first'")
	b.eval("return 'both'")
	both := load("return 'both'")
	const first, used = "9a8d0c4bdb7e1bd5f0bd2ee0b2bd7ca85d0ea0d9", "return 'used'"
	b.eval(used)
	for i := range maxEvals + 100 {
		b.eval(fmt.Sprint("return ", i))
		b.eval(used)
	}
	f := b.Figures()
	if !exists(loaded) || !exists(both) || exists(first) || f.Scripts != maxEvals+2 || f.EvictedEvals != 102 {
		t.Errorf("%+v", f)
	}
	if _, err := b.call(2, "script", "flush"); err != nil || exists(loaded) || b.Figures().ScriptBytes != 0 {
		t.Error("flush", err)
	}
}

func TestDeepReply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	reply := b.eval("local a = {} a[1] = a return a")
	if !strings.HasSuffix(reply, "*1\r\n-ERR reached lua stack limit\r\n") {
		t.Errorf("%.100q", reply)
	}
}

// A command that panics is a bug; the script that ran it does not run for ever.
func TestAPanicEndsTheScript(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tx.Worker = true
	b.do = func([][]byte, *wire.Writer) error { panic("a bug") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nobody hears of the panic")
			}
		}()
		_, _ = b.call(2, "eval", "return redis.call('set', 'a', 'b')", "0")
	}()
	if n, _ := b.running.figures(); n != 0 {
		t.Errorf("%d scripts run", n)
	}
}
