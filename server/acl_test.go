package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"redoubt/command/commandtest"
	"redoubt/config"
	"redoubt/engine/mem"
	"redoubt/internal/respclient"
	"redoubt/server"
)

// refused starts a server that must not start, and returns why.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	cfg := config.New()
	if err := cfg.Args(append(args, "--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir())); err != nil {
		return err.Error()
	}
	eng := mem.New()
	defer eng.Close()
	srv, err := server.New(server.Options{Config: cfg, Engine: eng})
	if err == nil {
		_ = srv.Shutdown(t.Context())
		t.Fatalf("%q: the server is there", args)
	}
	return err.Error()
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsersThatStopTheServer(t *testing.T) {
	t.Parallel()
	file := write(t, "users.acl", "user alice on\n")
	bad := write(t, "bad.acl", "user alice +nosuch\nuser bob bad\n")
	for _, test := range []struct {
		want string
		args []string
	}{
		{"in one place", []string{"--aclfile", file, "--user", "bob", "on"}},
		{"No such file or directory", []string{"--aclfile", file + ".nosuch"}},
		{":1: Error in applying operation '+nosuch': Unknown command or category name in ACL", []string{"--aclfile", bad}},
		{":2: Syntax error", []string{"--aclfile", bad}},
		{"Duplicate user found", []string{"--user", "bob", "--user", "bob"}},
		{"Error loading ACL rule '+nosuch' for the user named 'bob': Unknown command", []string{"--user", "bob", "+nosuch"}},
		{"Unmatched parenthesis", []string{"--user", "bob", "(+get"}},
	} {
		if got := refused(t, test.args...); !strings.Contains(got, test.want) {
			t.Errorf("%q: %s", test.args, got)
		}
	}
}

// Users of the configuration file are there, and CONFIG REWRITE writes what they have
// become, so that the next server has the same.
func TestUsersOfTheConfigurationFile(t *testing.T) {
	t.Parallel()
	file := write(t, "redoubt.conf", "# Our users.\nuser alice on >pw ~a* (%R~b +get) +set\nuser default on nopass ~* &* +@all -select\n")
	f := start(t, false)
	f.stop()
	f = startConfigured(t, file)
	c := f.dial()
	if got := c.do("SELECT", "1"); !strings.Contains(got, "NOPERM") {
		t.Error(got)
	}
	for _, call := range [][]string{
		{"ACL", "SETUSER", "alice", "-set", `~with"quote`}, {"ACL", "SETUSER", "bob", "on"},
		{"ACL", "SETUSER", "odd'name", `(~x)"y +get)`}, {"CONFIG", "REWRITE"},
	} {
		if got := c.do(call...); got != "OK" {
			t.Fatalf("%q: %s", call, got)
		}
	}
	want := c.do("ACL", "LIST")
	f.stop()
	content, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(content), "# Our users.\nuser alice on sanitize-payload #") {
		t.Errorf("%s, %v", content, err)
	}
	if got := startConfigured(t, file).dial().do("ACL", "LIST"); got != want {
		t.Errorf("got\n%s\nwant\n%s\nfrom\n%s", got, want, content)
	}
}

// startConfigured starts a server with a configuration file.
func startConfigured(t *testing.T, file string) *front {
	t.Helper()
	cfg := config.New()
	if err := cfg.Args([]string{file, "--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{Config: cfg, Engine: mem.New()})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	f := &front{Server: srv, t: t, addr: srv.Addr().String(), log: &logBook{}}
	t.Cleanup(f.stop)
	return f
}

// A relative name of the ACL file is one in the data directory.
func TestACLFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "users.acl")
	if err := os.WriteFile(path, []byte("user alice on nopass +@all ~*\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, false, "--dir", dir, "--aclfile", "users.acl", "--requirepass", "secret")
	if !strings.Contains(f.log.String(), "requirepass has no effect") {
		t.Error("nothing is said of a requirepass that does not count")
	}
	c, other := f.dial(), f.dial()
	other.send("AUTH", "alice", "x")
	other.want("OK")
	for _, call := range [][]string{{"ACL", "SETUSER", "bob", "on", ">pw", "(+get ~x)"}, {"ACL", "SAVE"}, {"ACL", "SETUSER", "carol"}} {
		if got := c.do(call...); got != "OK" {
			t.Errorf("%q: %s", call, got)
		}
	}
	if err := os.WriteFile(path+".new", []byte("user alice on nopass +@all ~*\nuser alice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(saved), "user bob on sanitize-payload #") {
		t.Errorf("%s, %v", saved, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	want := "(error) ERR WARNING: Duplicate user 'alice' found on line 2. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
	if got := c.do("ACL", "LOAD"); got != want {
		t.Error(got)
	}
	if got := other.do("PING"); got != "PONG" {
		t.Error(got)
	}
	if err := os.WriteFile(path, saved, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.do("ACL", "LOAD"); got != "OK" {
		t.Error(got)
	}
	if got := c.do("ACL", "USERS"); got != "1) \"alice\"\n2) \"bob\"\n3) \"default\"" {
		t.Error(got)
	}
	if got := other.do("PING"); got != "(closed)" { // its user is another one of that name
		t.Error(got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := c.do("ACL", "LOAD"); got != "(error) ERR Error loading ACLs, opening file 'users.acl': No such file or directory" {
		t.Error(got)
	}
}

// Rules may be about any command that Redis has, so that users can be moved here.
func TestRulesAboutCommandsOfRedis(t *testing.T) {
	t.Parallel()
	recorded, err := commandtest.Load("../command/testdata")
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, false).dial()
	for name := range recorded {
		for _, sign := range []string{"+", "-"} {
			if got := c.do("ACL", "SETUSER", "u", sign+name); got != "OK" {
				t.Errorf("%s%s: %s", sign, name, got)
			}
		}
	}
	if got := c.do("ACL", "DRYRUN", "u", "GET", "k"); !strings.Contains(got, "no permissions to run") {
		t.Error(got)
	}
}

// Permissions come and go while clients use them: each command is run as a whole
// under the rules of before or after, nobody hangs, and what was taken is taken when
// ACL SETUSER has answered.
func TestRulesChangeUnderLoad(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--io-threads", "2")
		admin := f.dial()
		for _, call := range [][]string{
			{"ACL", "SETUSER", "u", "on", "nopass", "~k*", "&c*", "+@all"}, {"MSET", "k1", "a", "k2", "b"},
		} {
			if got := admin.do(call...); got != "OK" {
				t.Fatal(got)
			}
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				c, err := respclient.Dial(f.addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					calls := [][]string{{"AUTH", "u", "x"}, {"MGET", "k1", "k2"}, {"BLPOP", "k3", "0.001"}, {"PUBLISH", "c", "m"},
						{"MULTI"}, {"GET", "k1"}, {"EXEC"}, {"SET", "k4", "v"}, {"ACL", "WHOAMI"}}
					args := calls[(n+i)%len(calls)]
					v, err := c.Do(args...)
					if err != nil {
						t.Errorf("%q: %v", args, err)
						return
					}
					if v.IsError() && !strings.HasPrefix(v.Str, "NOPERM ") && !strings.HasPrefix(v.Str, "EXECABORT ") &&
						!strings.Contains(v.Str, "without MULTI") && !strings.Contains(v.Str, "MULTI calls can not be nested") {
						t.Errorf("%q: %s", args, v.Str)
						return
					}
				}
			})
		}
		probe := f.dial()
		probe.send("AUTH", "u", "x")
		probe.want("OK")
		for range 200 {
			for _, step := range []struct{ rule, want string }{
				{"-get", "(error) NOPERM User u has no permissions to run the 'get' command"},
				{"+get", `"a"`},
				{"resetkeys", "(error) NOPERM No permissions to access a key"},
				{"~k*", `"a"`},
			} {
				if got := admin.do("ACL", "SETUSER", "u", step.rule); got != "OK" {
					t.Fatal(got)
				}
				if got := probe.do("GET", "k1"); got != step.want {
					t.Fatalf("after %s: %s", step.rule, got)
				}
			}
		}
		close(stop)
		wg.Wait()
		if got := admin.do("ACL", "DELUSER", "u"); got != "(integer) 1" {
			t.Error(got)
		}
		if got := probe.do("PING"); got != "(closed)" {
			t.Error(got)
		}
	})
}

// requirepass is the default user's password, and what counts is the user.
func TestPasswordOfTheDefaultUser(t *testing.T) {
	t.Parallel()
	f := start(t, false, "--requirepass", "first")
	c := f.dial()
	for _, step := range [][2]string{
		{"PING", "(error) NOAUTH Authentication required."},
		{"AUTH first", "OK"},
		{"CONFIG SET requirepass second", "OK"},
		{"AUTH first", "(error) WRONGPASS invalid username-password pair or user is disabled."},
		{"ACL SETUSER default >third", "OK"},
		{"AUTH second", "OK"},
		{"AUTH third", "OK"},
		{"CONFIG GET requirepass", "1) \"requirepass\"\n2) \"second\""},
		{"CONFIG SET requirepass second", "OK"}, // it is what it was
		{"AUTH third", "OK"},
		{"ACL SETUSER default nopass", "OK"},
		{"AUTH third", "(error) ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"},
	} {
		if got := c.do(strings.Fields(step[0])...); got != step[1] {
			t.Errorf("%s: %s", step[0], got)
		}
	}
	if got := f.dial().do("PING"); got != "PONG" {
		t.Error(got)
	}
}

// What is denied inside of transactions and scripts is in ACL LOG, once.
func TestLogOfDenials(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		admin, c := f.dial(), f.dial()
		log := func() string {
			v, err := admin.Do("ACL", "LOG")
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, e := range v.Elems {
				field := func(name string) string {
					for i, x := range e.Elems {
						if x.Str == name {
							return e.Elems[i+1].Str
						}
					}
					return ""
				}
				if !strings.Contains(field("client-info"), "user=u ") {
					t.Errorf("the client is %s", field("client-info"))
				}
				lines = append(lines, field("count")+" "+field("reason")+" "+field("context")+" "+field("object"))
			}
			admin.do("ACL", "LOG", "RESET")
			return strings.Join(lines, ", ")
		}
		admin.do("ACL", "SETUSER", "u", "on", "nopass", "~k", "+@all")
		c.do("AUTH", "u", "x")
		c.do("MULTI")
		c.do("GET", "other")
		c.do("DISCARD")
		if got := log(); got != "1 key multi other" {
			t.Error(got)
		}
		c.do("MULTI")
		c.do("GET", "k")
		c.do("SET", "k", "v")
		admin.do("ACL", "SETUSER", "u", "-set")
		c.do("EXEC")
		if got := log(); got != "1 command multi set" {
			t.Error(got)
		}
		for range 2 {
			if got := c.do("EVAL", "return redis.pcall('get','other')", "0"); !strings.Contains(got, "No permissions to access a key") {
				t.Error(got)
			}
		}
		if got := log(); got != "2 key lua other" {
			t.Error(got)
		}
		if got := c.do("EVAL", "return {redis.acl_check_cmd('get','k'), redis.acl_check_cmd('get','x')}", "0"); got != "1) (integer) 1\n2) (nil)" {
			t.Error(got)
		}
		if got := log(); got != "" {
			t.Error(got)
		}
	})
}
