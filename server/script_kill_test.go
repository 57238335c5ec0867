package server_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

const endlessLibrary = "#!lua name=lib\nredis.register_function('endless', function()\n while true do end end)"

// killedTexts are what the clients of killed scripts get: RESP as Redis sends it.
var killedTexts = []struct {
	kill string
	args []string
	want string
}{
	{"SCRIPT", []string{"EVAL", "while true do end", "0"},
		"-ERR Script killed by user with SCRIPT KILL... script: 694a5fe1ddb97a4c6a1bf299d9537c7d3d0f84e7, on @user_script:1.\r\n"},
	{"SCRIPT", []string{"EVAL", "\n\nlocal function f() while true do end end\nf()", "0"},
		"-ERR Script killed by user with SCRIPT KILL... script: 3fa25df282653e2bcbd4e3eaa00e4938d4fa31bf, on @user_script:3.\r\n"},
	{"FUNCTION", []string{"FCALL", "endless", "0"},
		"-ERR Script killed by user with SCRIPT KILL... script: endless, on @user_function:3.\r\n"},
}

// A killed script's client gets Redis's text, and a script can be killed as soon as it
// runs: its time before busy-reply-threshold is no different.
func TestKilledScriptText(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, addr string) {
		c := dialAddr(t, addr)
		c.want(`"lib"`, "FUNCTION", "LOAD", endlessLibrary)
		for _, k := range killedTexts {
			bad := dialAddr(t, addr)
			if err := bad.Send(k.args...); err != nil {
				t.Fatal(err)
			}
			c.until("OK", k.kill, "KILL")
			if _, err := bad.Read(); err != nil || string(bad.Raw()) != k.want {
				t.Errorf("%q: %q %v, not %q", k.args, bad.Raw(), err, k.want)
			}
		}
	}
	t.Run("redoubt", func(t *testing.T) {
		t.Parallel()
		for _, pipes := range []bool{false, true} {
			check(t, testserver.Start(t, testserver.Options{Pipes: pipes}).Addr)
		}
	})
	t.Run("redis", func(t *testing.T) {
		testserver.Oracle(t)
		check(t, testserver.StartRedis(t, "--busy-reply-threshold", "1").Addr)
	})
}

func dialAddr(t *testing.T, addr string) scripted {
	t.Helper()
	c, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return scripted{t, c}
}

// What FUNCTION STATS shows FUNCTION KILL ends; KILL ends all of its kind and none of
// the other.
func TestKillEndsAllOfItsKind(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	c := dialScripted(t, s)
	c.want(`"lib"`, "FUNCTION", "LOAD", endlessLibrary)
	start := func(args ...string) scripted {
		bad := dialScripted(t, s)
		if err := bad.Send(args...); err != nil {
			t.Fatal(err)
		}
		return bad
	}
	evals := []scripted{start("EVAL", "while true do end", "0"), start("EVAL", "redis.call('set', KEYS[1], 1) while true do end", "1", "k")}
	functions := []scripted{start("FCALL", "endless", "0"), start("FCALL", "endless", "0")}
	untilRunning(c, "4")
	if stats := c.do("FUNCTION", "STATS"); !strings.Contains(stats, `"endless"`) {
		t.Error(stats)
	}
	c.want("OK", "FUNCTION", "KILL")
	for _, bad := range functions {
		bad.expect("(error) ERR Script killed by user")
	}
	untilRunning(c, "2")
	if stats := c.do("FUNCTION", "STATS"); strings.Contains(stats, `"endless"`) {
		t.Error(stats)
	}
	c.want("(error) BUSY", "FUNCTION", "KILL")
	c.want("OK", "SCRIPT", "KILL")
	for _, bad := range evals {
		bad.expect("(error) ERR Script killed by user")
	}
	c.want("(nil)", "GET", "k")
	untilRunning(c, "0")
	c.want("(error) NOTBUSY", "SCRIPT", "KILL")
	c.want("(error) NOTBUSY", "FUNCTION", "KILL")
}

// expect reads a reply.
func (c scripted) expect(want string) {
	c.t.Helper()
	if v, err := c.Read(); err != nil || !strings.HasPrefix(v.String(), want) {
		c.t.Errorf("%v %v, not %s", v, err, want)
	}
}

// untilRunning waits until as many scripts run on workers.
func untilRunning(c scripted, n string) {
	c.t.Helper()
	for start := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		v, err := c.Do("INFO", "memory")
		if err != nil {
			c.t.Fatal(err)
		}
		if strings.Contains(v.Str, "running_scripts:"+n+"\r") {
			return
		}
		if time.Since(start) > 20*time.Second {
			_, now, _ := strings.Cut(v.Str, "running_scripts:")
			c.t.Fatalf("%.10q scripts run, not %s", now, n)
		}
	}
}

// A transaction goes on behind a script that was killed, as in Redis.
func TestKilledScriptInTransaction(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	bad, c := dialScripted(t, s), dialScripted(t, s)
	bad.want("OK", "MULTI")
	bad.want("QUEUED", "SET", "a", "1")
	bad.want("QUEUED", "EVAL", "redis.call('set', KEYS[1], 2) while true do end", "1", "b")
	bad.want("QUEUED", "EVAL", "return 7", "0")
	bad.want("QUEUED", "GET", "b")
	if err := bad.Send("EXEC"); err != nil {
		t.Fatal(err)
	}
	c.until("OK", "SCRIPT", "KILL")
	bad.expect("1) OK\n2) (error) ERR Script killed by user with SCRIPT KILL... script: ")
	c.want(`"1"`, "GET", "a")
	c.want("(nil)", "GET", "b")
}

// A script ends when its client has gone, in whatever way, and what it wrote is undone.
func TestScriptOfClosedClient(t *testing.T) {
	t.Parallel()
	for _, pipes := range []bool{false, true} {
		s := testserver.Start(t, testserver.Options{Pipes: pipes})
		for name, gone := range map[string]func(c, bad scripted, id string){
			"closed": func(c, bad scripted, _ string) { bad.Close() },
			"reset": func(c, bad scripted, _ string) {
				if err := bad.Conn().(*net.TCPConn).SetLinger(0); err != nil {
					t.Fatal(err)
				}
				bad.Close()
			},
			"half closed": func(c, bad scripted, _ string) {
				if err := bad.Conn().(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			},
			"killed": func(c, bad scripted, id string) { c.want("(integer) 1", "CLIENT", "KILL", "ID", id) },
		} {
			for i, script := range []string{
				"redis.call('set', KEYS[1], 'x') while true do end",
				"redis.call('set', KEYS[1], 'x') string.find(string.rep('a', 1e5), '.-.-.-.-b')",
				"while true do redis.call('set', KEYS[1], 'x') end",
			} {
				if i > 0 && name != "killed" {
					break // the others are about what the script does, not how the client goes
				}
				c, bad := dialScripted(t, s), dialScripted(t, s)
				id, err := bad.Do("CLIENT", "ID")
				if err != nil {
					t.Fatal(err)
				}
				if err := bad.Send("EVAL", script, "1", "k"); err != nil {
					t.Fatal(err)
				}
				untilRunning(c, "1")
				gone(c, bad, strings.TrimPrefix(id.String(), "(integer) "))
				untilRunning(c, "0")
				c.want("(nil)", "GET", "k")
				bad.Close()
			}
		}
	}
}

// The second of two scripts in a pipeline whose client has gone ends, too.
func TestScriptBehindScriptOfClosedClient(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	c, bad := dialScripted(t, s), dialScripted(t, s)
	script := respclient.AppendCommand(nil, "EVAL", "redis.call('incr', KEYS[1]) while true do end", "1", "k")
	if err := bad.Write(append(script, script...)); err != nil {
		t.Fatal(err)
	}
	untilRunning(c, "1")
	bad.Close()
	untilRunning(c, "0")
	c.want("(nil)", "GET", "k")
}
