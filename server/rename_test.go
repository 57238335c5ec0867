package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/config"
	"redoubt/engine/mem"
	"redoubt/server"
)

// configFile writes a configuration file and returns its path, for start as its
// first directive.
func configFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A renamed command answers to its new name only; who shows commands shows the
// name that it was declared with.
func TestRenamedCommands(t *testing.T) {
	const long = "b840fc02d524045429941cc15f59e41cb7be6c52"
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--include", configFile(t,
			"rename-command get fetch", "rename-command CONFIG "+long, `rename-command keys ""`, "rename-command set passing",
			"rename-command passing Store", "rename-command object thing", "rename-command auth login", "rename-command debug fix"),
			"--enable-debug-command", "yes")
		c := f.dial()
		for _, x := range []struct{ call, want string }{
			{"STORE k 1", "OK"},
			{"fetch k", `"1"`},
			{"get k", `(error) "ERR unknown command 'get', with args beginning with: 'k' "`},
			{"keys *", `(error) "ERR unknown command 'keys', with args beginning with: '*' "`},
			{"passing k v", `(error) "ERR unknown command 'passing', with args beginning with: 'k' 'v' "`},
			{"fetch", "(error) ERR wrong number of arguments for 'get' command"},
			{"thing encoding k", `"int"`},
			{"thing nosuch", "(error) ERR unknown subcommand 'nosuch'. Try THING HELP."},
			{"object encoding k", `(error) "ERR unknown command 'object', with args beginning with: 'encoding' 'k' "`},
			{"fix object k", ""},
			{strings.ToUpper(long) + " set hz 11", "OK"},
			{long + " nosuch", "(error) ERR unknown subcommand 'nosuch'. Try " + strings.ToUpper(long) + " HELP."},
			{"command getkeys fetch k", `1) "k"`},
			{"command info keys", "1) (nil)"},
			{"command info get", "1) (nil)"},
		} {
			if got := c.do(strings.Fields(x.call)...); got != x.want && (x.want != "" || strings.HasPrefix(got, "(error)")) {
				t.Errorf("%s: %s, want %s", x.call, got, x.want)
			}
		}
		for call, want := range map[string]string{
			"command info fetch": `"get"`, "command docs fetch": `"get"`, "thing help": "THING <subcommand>",
			"command list filterby pattern g?t": `"get"`, "command info thing|encoding": `"object|encoding"`,
		} {
			if got := c.do(strings.Fields(call)...); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", call, got, want)
			}
		}
		if got := c.do("command", "list", "filterby", "pattern", "keys"); got != "(empty array)" {
			t.Errorf("what was removed: %s", got)
		}

		// MONITOR shows what the client typed, but no secrets.
		m := f.dial()
		m.do("MONITOR")
		c.do("fetch", "k")
		c.do("login", "secret")
		if got := m.read(); !strings.HasSuffix(got, `"fetch" "k"`) {
			t.Error(got)
		}
		if got := m.read(); !strings.HasSuffix(got, `"login" "(redacted)"`) {
			t.Error(got)
		}
		if got := c.do("EVAL", "return redis.call('fetch', 'k')", "0"); got != `"1"` {
			t.Errorf("from a script: %s", got)
		}
		if got := c.do("EVAL", "return redis.call('get', 'k')", "0"); !strings.Contains(got, "ERR Unknown Redis command called from script") {
			t.Errorf("the old name from a script: %s", got)
		}
		if got := c.do("ACL", "SETUSER", "u", "on", "nopass", "~*", "+get", "-keys"); got != "OK" {
			t.Errorf("the rules know the old names: %s", got)
		}
		if got := c.do("ACL", "SETUSER", "u", "+fetch"); !strings.Contains(got, "Unknown command or category name in ACL") {
			t.Errorf("the rules know the new names: %s", got)
		}
		if got := c.do("ACL", "DRYRUN", "u", "fetch", "k"); got != "OK" {
			t.Error(got)
		}
		c.do("login", "u", "x")
		if got := c.do("fetch", "k"); got != `"1"` {
			t.Error(got)
		}
		if got := c.do("store", "k", "2"); !strings.Contains(got, "NOPERM User u has no permissions to run the 'set' command") {
			t.Error(got)
		}
	})
}

func TestBadRenames(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"rename-command nosuch x":      "No such command in rename-command",
		"rename-command get set":       "Target command name already exists",
		"rename-command client|list x": "No such command in rename-command",
	} {
		cfg := config.New()
		if err := cfg.Args([]string{configFile(t, line), "--port", "0", "--bind", "127.0.0.1"}); err != nil {
			t.Fatal(err)
		}
		srv, err := server.New(server.Options{Config: cfg, Engine: mem.New()})
		if err == nil {
			srv.Shutdown(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
