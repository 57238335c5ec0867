package acl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"redoubt/command"
)

// table has the commands of package command, and some of those that the server has.
func table() *command.Table {
	const sub = command.PubSubFlag | command.NoScript
	channels := func(more command.ChannelFlags) command.ChannelSpec {
		return command.ChannelSpec{First: 1, Last: -1, Flags: command.Subscribe | more}
	}
	own := []*command.Command{
		{Name: "select", Arity: 2, Flags: command.Fast, Group: command.Connection},
		{Name: "ping", Arity: -1, Flags: command.Fast, Group: command.Connection},
		{Name: "auth", Arity: -2, Flags: command.Fast | command.NoAuth, Group: command.Connection},
		{Name: "config", Arity: -2, Group: command.Server, Subs: []*command.Command{
			{Name: "get", Arity: -3, Flags: command.Admin, Group: command.Server},
			{Name: "set", Arity: -4, Flags: command.Admin, Group: command.Server},
		}},
		{Name: "client", Arity: -2, Group: command.Connection, Subs: []*command.Command{
			{Name: "id", Arity: 2, Group: command.Connection},
			{Name: "kill", Arity: -3, Flags: command.Admin, Group: command.Connection},
		}},
		{Name: "debug", Arity: -2, Flags: command.Admin, Group: command.Server},
		{Name: "subscribe", Arity: -2, Flags: sub, Group: command.PubSub, Channels: channels(0)},
		{Name: "unsubscribe", Arity: -1, Flags: sub, Group: command.PubSub},
		{Name: "psubscribe", Arity: -2, Flags: sub, Group: command.PubSub, Channels: channels(command.ChannelPattern)},
	}
	return command.NewTable(append(command.All(), own)...)
}

func registry() (*Registry, *command.Table) {
	t := table()
	return New(t), t
}

// set makes a user anew and returns its rules.
func set(t testing.TB, r *Registry, name string, rules ...string) *User {
	t.Helper()
	c, err := r.Set(name, rules)
	if err != nil {
		t.Fatalf("%q: %v", rules, err)
	}
	return c.After
}

func words(s string) []string { return strings.Fields(s) }

func call(s string) (args [][]byte) {
	for _, w := range words(s) {
		args = append(args, []byte(w))
	}
	return args
}

// The rules that a user is shown with are what a real Redis 7.2.6 answers to ACL LIST
// after the same ACL SETUSER.
func TestRules(t *testing.T) {
	t.Parallel()
	const off = "off sanitize-payload "
	for _, test := range []struct{ rules, want string }{
		{"", off + "resetchannels -@all"},
		{"ON nopass +@all ~* &*", "on nopass sanitize-payload ~* &* +@all"},
		{"on off skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"},
		{"skip-sanitize-payload sanitize-payload", off + "resetchannels -@all"},
		{"~a ~b ~a %R~c %W~d %RW~e %r~d %wr~f", off + "~a ~b %R~c ~d ~e ~f resetchannels -@all"},
		{"%RW~*", off + "~* resetchannels -@all"},
		{"%R~* ~x", off + "%R~* ~x resetchannels -@all"},
		{"~x allkeys", off + "~* resetchannels -@all"},
		{"allkeys resetkeys ~y", off + "~y resetchannels -@all"},
		{"~ %R", off + "~ resetchannels -@all"},
		{"&a &b &a", off + "resetchannels &a &b -@all"},
		{"&a allchannels", off + "&* -@all"},
		{"allchannels resetchannels &c", off + "resetchannels &c -@all"},
		{"+get +set -get", off + "resetchannels -@all +set -get"},
		{"+@all -GET +GET", off + "resetchannels +@all +get"},
		{"+@all -get +@all", off + "resetchannels +@all"},
		{"allcommands nocommands", off + "resetchannels -@all"},
		{"+@read +@hash -@read -@string", off + "resetchannels -@all +@hash -@read -@string"},
		{"+config|get +config|set +config", off + "resetchannels -@all +config"},
		{"+config +config|get -config|set", off + "resetchannels -@all +config +config|get -config|set"},
		{"+config|get -config", off + "resetchannels -@all -config"},
		{"+@all -config|set +config|set", off + "resetchannels +@all +config|set"},
		{"-select +select|0 +select|5 +SELECT|A +select|0", off + "resetchannels -@all -select +select|5 +select|a +select|0"},
		{"+select|0 +select", off + "resetchannels -@all +select"},
		{"(+get ~a) (%R~b +@set)", off + "resetchannels -@all (~a resetchannels -@all +get) (%R~b resetchannels -@all +@set)"},
		{"(+get ~a) clearselectors ()", off + "resetchannels -@all (resetchannels -@all)"},
		{"+get ( +set &x )", off + "resetchannels -@all +get (resetchannels &x -@all +set)"},
		{"on nopass +@all ~* &* (+get) reset", off + "resetchannels -@all"},
		{">a >b <a", off + "#" + hashPassword("b") + " resetchannels -@all"},
		{">a nopass", "off nopass sanitize-payload resetchannels -@all"},
		{">a >a resetpass nopass >c", off + "#" + hashPassword("c") + " resetchannels -@all"},
		{"#" + hashPassword("x") + " >y !" + hashPassword("x"), off + "#" + hashPassword("y") + " resetchannels -@all"},
		// Commands of Redis that are not here.
		{"+psync +replconf +ping -cluster|slots", off + "resetchannels -@all +psync +replconf +ping -cluster|slots"},
		{"+cluster|slots +cluster", off + "resetchannels -@all +cluster"},
	} {
		r, _ := registry()
		u := set(t, r, "u", words(test.rules)...)
		if u.String() != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.rules, u, test.want)
		}
		again := set(t, r, "v", words(u.String())...)
		if again.String() != u.String() {
			t.Errorf("%s:\n%s becomes\n%s", test.rules, u, again)
		}
	}
}

// Words with spaces cannot come from a file, but from a client.
func TestSelectorInOneWord(t *testing.T) {
	t.Parallel()
	r, _ := registry()
	u := set(t, r, "u", "(+get \"~a\")", "(  )", "(+get \"~a)")
	want := "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get) (resetchannels -@all) (resetchannels -@all)"
	if u.String() != want {
		t.Errorf("got %s", u)
	}
}

func TestRulesBesideAllKeys(t *testing.T) {
	t.Parallel()
	r, _ := registry()
	u := set(t, r, "u", "%RW~*", "~x")
	if got := u.String(); got != "off sanitize-payload %RW~* ~x resetchannels -@all" {
		t.Errorf("got %s", got)
	}
	if got := set(t, r, "v", words(u.String())...); got.String() != u.String() {
		t.Errorf("it becomes %s", got)
	}
}

func TestRuleErrors(t *testing.T) {
	t.Parallel()
	modifier := func(rule string, err error) string {
		return "Error in ACL SETUSER modifier '" + rule + "': " + err.Error()
	}
	for _, test := range []struct {
		rules []string
		want  string
	}{
		{[]string{"nosuch"}, modifier("nosuch", errSyntax)},
		{[]string{"+nosuch"}, modifier("+nosuch", errUnknown)},
		{[]string{"+"}, modifier("+", errUnknown)},
		{[]string{"-nosuch"}, modifier("-nosuch", errUnknown)},
		{[]string{"+@nosuch"}, modifier("+@nosuch", errUnknown)},
		{[]string{"+@\u017fet"}, modifier("+@\u017fet", errUnknown)},
		{[]string{"+get x"}, modifier("+get x", errUnknown)},
		{[]string{"+select|a b"}, modifier("+select|a b", errSyntax)},
		{[]string{"-select|0"}, modifier("-select|0", errUnknown)},
		{[]string{"+select|"}, modifier("+select|", errSyntax)},
		{[]string{"+config|nosuch"}, modifier("+config|nosuch", errUnknown)},
		{[]string{"+config|get|x"}, modifier("+config|get|x", errSubArg)},
		{[]string{"-config|get|x"}, modifier("-config|get|x", errUnknown)},
		{[]string{"+nosuch|x"}, modifier("+nosuch|x", errUnknown)},
		{[]string{"+cluster|nosuch"}, modifier("+cluster|nosuch", errUnknown)},
		{[]string{"+cluster|slots|x"}, modifier("+cluster|slots|x", errSubArg)},
		{[]string{"%"}, modifier("%", errSyntax)},
		{[]string{"%~x"}, modifier("%~x", errSyntax)},
		{[]string{"%RR~x"}, modifier("%RR~x", errSyntax)},
		{[]string{"%X~x"}, modifier("%X~x", errSyntax)},
		{[]string{"~a b"}, modifier("~a b", errSyntax)},
		{[]string{"&a\tb"}, modifier("&a\tb", errSyntax)},
		{[]string{"~*", "~x"}, modifier("~x", errAllKeys)},
		{[]string{"allkeys", "%R~x"}, modifier("%R~x", errAllKeys)},
		{[]string{"&*", "&x"}, modifier("&x", errAllChannels)},
		{[]string{"<x"}, modifier("<x", errNoPassword)},
		{[]string{"#abc"}, modifier("#abc", errHash)},
		{[]string{"#" + strings.ToUpper(hashPassword("x"))}, modifier("#"+strings.ToUpper(hashPassword("x")), errHash)},
		{[]string{"!abc"}, modifier("!abc", errHash)},
		{[]string{"!" + hashPassword("x")}, modifier("!"+hashPassword("x"), errNoPassword)},
		{[]string{"(+get on)"}, modifier("(+get on)", errSyntax)},
		{[]string{"(+nosuch)"}, modifier("(+nosuch)", errUnknown)},
		{[]string{"((+get))"}, modifier("((+get))", errSyntax)},
		{[]string{"on", "(+get", "~x"}, "Unmatched parenthesis in acl selector starting at '(+get'."},
		{[]string{"on", "+get\x00x"}, modifier("+get", errUnknown)},
	} {
		r, _ := registry()
		if _, err := r.Set("u", test.rules); err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got %v\nwant %s", test.rules, err, test.want)
		}
		if r.Find([]byte("u")) != nil {
			t.Errorf("%q: the user was made", test.rules)
		}
	}
}

// A change that fails changes nothing.
func TestFailedChange(t *testing.T) {
	t.Parallel()
	r, _ := registry()
	before := set(t, r, "u", "on", "+get", "(+set)")
	var rule *RuleError
	if _, err := r.Set("u", []string{"off", "-get", "clearselectors", "bad"}); !errors.As(err, &rule) || rule.Rule != "bad" {
		t.Errorf("got %v", err)
	}
	if r.Find([]byte("u")).Load() != before {
		t.Error("the user has changed")
	}
	set(t, r, "u", "-get", "~x", "+config|get", ">p", "(+get)")
	if got := before.String(); got != "on sanitize-payload resetchannels -@all +get (resetchannels -@all +set)" || before.describe() != got {
		t.Errorf("what others may hold has changed: %s", before.describe())
	}
}

func TestCategoriesGiveSubcommands(t *testing.T) {
	t.Parallel()
	r, tab := registry()
	u := set(t, r, "u", "+@admin", "+@set", "-sadd")
	for line, want := range map[string]Denial{
		"config get x": Allowed, "client kill x": Allowed, "client id": ByCommand, "debug x": Allowed, "get k": ByCommand,
		"scard k": ByKey, "sadd k v": ByCommand, "auth x": Allowed,
	} {
		args := call(line)
		if got, _ := u.Check(tab.Find(args), args); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	r, _ := registry()
	login := func(name, password string) *Handle { return r.Authenticate([]byte(name), []byte(password)) }
	if login(DefaultName, "anything") != r.Default() {
		t.Error("the default user needs a password")
	}
	r.SetPassword("secret")
	if login(DefaultName, "anything") != nil || login(DefaultName, "secret") != r.Default() || r.Default().Load().Open() {
		t.Error("a password that is set does not count")
	}
	r.SetPassword("")
	if !r.Default().Load().Open() {
		t.Error("a password that is taken back still counts")
	}
	set(t, r, "u", ">a", ">b\x00c")
	if login("u", "a") != nil {
		t.Error("a disabled user can log in")
	}
	set(t, r, "u", "on")
	if login("u", "a") == nil || login("u", "b\x00c") == nil || login("u", "b") != nil || login("v", "a") != nil {
		t.Error("wrong passwords")
	}
	set(t, r, "u", "resetpass")
	if login("u", "a") != nil || login("u", "") != nil {
		t.Error("a user without any password can log in")
	}
}

// A deleted user's handle has no permission, and a new user of the name is another.
func TestDelete(t *testing.T) {
	t.Parallel()
	r, tab := registry()
	set(t, r, "u", "on", "nopass", "+@all", "~*", "&*")
	h := r.Find([]byte("u"))
	if gone := r.Delete("nosuch", "u", "u"); len(gone) != 1 || gone[0] != h || !h.Gone() {
		t.Errorf("gone are %v", gone)
	}
	set(t, r, "u", "on", "nopass", "+@all", "~*", "&*")
	args := call("get k")
	if d, _ := h.Load().Check(tab.Find(args), args); d != ByCommand || h.Load().Name() != "u" {
		t.Errorf("a deleted user may run a command: %v", d)
	}
	if r.Find([]byte("u")) == h {
		t.Error("the new user is the old one")
	}
	if len(r.Delete(DefaultName)) != 0 || r.Find([]byte(DefaultName)) == nil {
		t.Error("the default user was deleted")
	}
}

func TestAllChannels(t *testing.T) {
	t.Parallel()
	r, _ := registry()
	old := set(t, r, "old")
	r.SetAllChannels(true)
	if got := set(t, r, "u", "(+get)").String(); got != "off sanitize-payload &* -@all (&* -@all +get)" {
		t.Error(got)
	}
	if got := set(t, r, "u", "resetchannels", "&x", "reset").String(); got != "off sanitize-payload &* -@all" {
		t.Error(got)
	}
	if got := set(t, r, "old", "on"); got.Permissions()[0].AllChannels || old.Permissions()[0].AllChannels {
		t.Error("a user that was there has changed")
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	r, _ := registry()
	set(t, r, "alice", "on", ">pw", "%R~a*", "~b", "&c", "+@read", "-get", "(+set ~x)")
	set(t, r, "bob")
	alice := r.Find([]byte("alice"))
	path := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "user alice on sanitize-payload #" + hashPassword("pw") +
		" %R~a* ~b resetchannels &c -@all +@read -get (~x resetchannels -@all +set)\n" +
		"user bob off sanitize-payload resetchannels -@all\nuser default on nopass sanitize-payload ~* &* +@all\n"
	if string(content) != want {
		t.Errorf("got\n%swant\n%s", content, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the file has changed: %v, %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	set(t, r, "carol")
	set(t, r, DefaultName, "-get")
	gone, err := r.Load("users.acl", content)
	if err != nil || len(gone) != 3 || !alice.Gone() {
		t.Errorf("gone are %d users, %v", len(gone), err)
	}
	var lines []string
	for _, u := range r.Users() {
		lines = append(lines, u.Line()+"\n")
	}
	if got := strings.Join(lines, ""); got != want {
		t.Errorf("loaded are\n%s", got)
	}
	if err := r.Save(filepath.Join(path, "nosuch", "file")); err == nil {
		t.Error("a file in a directory that does not exist is written")
	}
}

func TestFileErrors(t *testing.T) {
	t.Parallel()
	const none = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
	for content, want := range map[string]string{
		"\n \t\r\nuser a on\r\n":           "",
		"user a (+get ~x) +get\n":          "",
		"# a comment":                      "f:1 should start with user keyword followed by the username. ",
		"user":                             "f:1 should start with user keyword followed by the username. ",
		"user a\tb on":                     "'f:1: username 'a\tb' contains invalid characters. ",
		"user a on\nuser a off":            "WARNING: Duplicate user 'a' found on line 2. ",
		"user a +nosuch bad -nosuch worse": "f:1: Error in applying operation '+nosuch': Unknown command or category name in ACL. f:1: Syntax error. f:1: Error in applying operation '-nosuch': Unknown command or category name in ACL. ",
		"user a (+get":                     "f:1: Unmatched parenthesis in selector definition.",
	} {
		r, _ := registry()
		set(t, r, "before")
		_, err := r.Load("f", []byte(content))
		switch {
		case want == "" && err != nil || want != "" && (err == nil || err.Error() != want+none):
			t.Errorf("%q: %v", content, err)
		case (want == "") != (r.Find([]byte("before")) == nil):
			t.Errorf("%q: the users are those of the wrong side", content)
		}
	}
}

func TestDeclare(t *testing.T) {
	t.Parallel()
	r, _ := registry()
	err := r.Declare([][]string{{"default", "on", "nopass", "~*", "+@all", "-flushdb"}, {"alice", "on", "(+get", "~x)"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Default().Load().String(); got != "on nopass sanitize-payload ~* resetchannels +@all -flushdb" {
		t.Error(got)
	}
	for _, bad := range [][][]string{{{"a"}, {"a"}}, {{"a b"}}, {{"a", "+nosuch"}}, {{"a", "(+get"}}, {{"a", "bad"}}} {
		r, _ := registry()
		if err := r.Declare(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var l Log
	l.SetMax(3)
	add := func(object string, at int64) { l.Add(Entry{Reason: ByKey, Object: object, User: "u", Updated: at}) }
	show := func() (s string) {
		for _, e := range l.Newest(10) {
			s += e.Object + strings.Repeat("+", int(e.Count-1)) + " "
		}
		return s
	}
	add("a", 0)
	add("b", 10)
	add("a", 60_000)
	if got := show(); got != "a+ b " {
		t.Error(got)
	}
	add("b", 60_011) // too late for the first b
	add("c", 60_011)
	if got := show(); got != "c b a+ " {
		t.Error(got)
	}
	e := l.Newest(3)[2]
	if e.ID != 0 || e.Created != 0 || e.Updated != 60_000 || l.Newest(1)[0].ID != 3 || len(l.Newest(-1)) != 0 {
		t.Errorf("%+v", e)
	}
	l.Reset()
	l.SetMax(0)
	add("d", 0)
	if got := show(); got != "" || l.Denied(ByKey) != 6 || l.Denied(ByAuth) != 0 {
		t.Error(got, l.Denied(ByKey))
	}
}

// Users change while others ask.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	r, tab := registry()
	set(t, r, "u", "on", "nopass", "+get", "~a")
	h := r.Find([]byte("u"))
	get, read := call("get a"), tab.Find(call("get a"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// It has both permissions or none: never the one without the other.
				if d, _ := h.Load().Check(read, get); d == ByKey {
					t.Error("half of a change is seen")
					return
				}
				r.Authenticate([]byte("u"), []byte("x"))
				r.Users()
			}
		})
	}
	for range 2000 {
		set(t, r, "u", "-get", "resetkeys")
		set(t, r, "u", "~a", "+get")
		set(t, r, "v", "on")
		r.Delete("v")
	}
	close(stop)
	wg.Wait()
}
