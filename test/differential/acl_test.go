package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// Random users, compared with a real Redis: what ACL SETUSER says to random rules,
// how the users are shown then, and what ACL DRYRUN says about random calls of
// commands that both have.

// TestACLAgainstRedis needs a Redis 7.2: others show rules in another way.
func TestACLAgainstRedis(t *testing.T) {
	testserver.Oracle(t)
	r := testserver.StartRedis(t)
	r.Needs(t, "7.2")
	ours := testserver.Start(t, testserver.Options{})
	a := &aclRun{t: t}
	for i, addr := range []string{r.Addr, ours.Addr} {
		c, err := respclient.Dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a.servers[i] = c
	}
	a.commands = a.common()
	count, first := 300, *seed
	if *sequences > 0 {
		count = *sequences
	}
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i := range count {
		a.Rand = rand.New(rand.NewPCG(first+uint64(i), 1))
		a.round()
		if t.Failed() {
			t.Fatalf("go test ./test/differential -run '^%s$' -seed %d -sequences 1", t.Name(), first+uint64(i))
		}
	}
	t.Logf("%d rounds from seed %d, %d commands, %d calls, %d of them denied", count, first, len(a.commands), a.calls, a.denied)
}

type aclRun struct {
	*rand.Rand
	t             *testing.T
	servers       [2]*respclient.Client // the real Redis first
	commands      []aclCommand
	calls, denied int
}

type aclCommand struct {
	name  string // "config|get"
	arity int
}

func (a *aclRun) ask(i int, args ...string) respclient.Value {
	a.t.Helper()
	v, err := a.servers[i].Do(args...)
	if err != nil {
		a.t.Fatalf("%q: %v", args, err)
	}
	return v
}

// both sends a command to both, and compares the replies.
func (a *aclRun) both(args ...string) respclient.Value {
	a.t.Helper()
	want, got := a.ask(0, args...), a.ask(1, args...)
	if want.String() != got.String() {
		a.t.Errorf("%q\nRedis   %s\nRedoubt %s", args, want, got)
	}
	return want
}

// common are the commands that both have.
func (a *aclRun) common() (list []aclCommand) {
	have := make(map[string]bool)
	for _, e := range a.ask(1, "COMMAND", "LIST").Elems {
		have[e.Str] = true
	}
	var add func(info respclient.Value)
	add = func(info respclient.Value) {
		if name := info.Elems[0].Str; have[name] {
			list = append(list, aclCommand{name, int(info.Elems[1].Int())})
			for _, sub := range info.Elems[9].Elems {
				add(sub)
			}
		}
	}
	for _, info := range a.ask(0, "COMMAND").Elems {
		add(info)
	}
	slices.SortFunc(list, func(x, y aclCommand) int { return strings.Compare(x.name, y.name) })
	return list
}

func (a *aclRun) one(list ...string) string { return list[a.IntN(len(list))] }

func (a *aclRun) round() {
	if a.IntN(10) == 0 {
		a.both("CONFIG", "SET", "acl-pubsub-default", a.one("allchannels", "resetchannels"))
	}
	user := a.one("u1", "u2", "u3")
	if a.IntN(8) == 0 {
		a.both("ACL", "DELUSER", user)
	}
	for range 1 + a.IntN(3) {
		args := []string{"ACL", "SETUSER", user}
		for range a.IntN(7) {
			args = append(args, a.rule())
		}
		a.both(args...)
	}
	a.both("ACL", "LIST")
	a.both("ACL", "GETUSER", user)
	for range 60 {
		call := a.call()
		if stricter(call) {
			continue
		}
		a.calls++
		if v := a.both(append([]string{"ACL", "DRYRUN", user}, call...)...); v.Str != "OK" && !v.IsError() {
			a.denied++
		}
	}
}

// stricter are calls whose keys Redis does not find, and so allows to anybody. Calls
// of MIGRATE with keys in two places and those without sources come to nothing;
// PFMERGE makes a key.
func stricter(call []string) bool {
	noSources := strings.HasPrefix(call[0], "z") && strings.HasSuffix(call[0], "store") && len(call) > 2 && call[2] == "0"
	return noSources || call[0] == "pfmerge" && len(call) == 2 || call[0] == "migrate" && slices.Contains(call, "KEYS")
}

func (a *aclRun) rule() string {
	switch a.IntN(24) {
	case 0:
		return a.one("on", "off", "nopass", "resetpass", "reset", "ON", "clearselectors", "sanitize-payload", "skip-sanitize-payload", "")
	case 1:
		return a.one(">", "<", ">", ">") + a.one("a", "b", "c")
	case 2:
		return a.one("bad", "#abc", "!abc", "+nosuch", "-nosuch", "+@nosuch", "+config|nosuch", "-select|0", "%X~a", "+select|", "+")
	case 3, 4:
		var words []string
		for range a.IntN(5) {
			words = append(words, a.selectorRule())
		}
		return "(" + strings.Join(words, " ") + ")"
	}
	return a.selectorRule()
}

func (a *aclRun) selectorRule() string {
	sign := a.one("+", "+", "-")
	switch a.IntN(20) {
	case 0:
		return a.one("allcommands", "nocommands", "+@all", "-@all")
	case 1:
		return a.one("allkeys", "resetkeys", "~*")
	case 2:
		return a.one("allchannels", "resetchannels", "&*")
	case 3, 4, 5:
		return a.one("~", "%R~", "%W~", "%RW~", "%r~", "%wr~") + a.one("a", "b", "c", "k*", "k?", "[ab]", "x*y", "0")
	case 6, 7:
		return "&" + a.one("a", "b", "k*", "c?", "k1")
	case 8, 9, 10, 11:
		return sign + "@" + a.one("keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap",
			"hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection",
			"transaction", "scripting", "READ")
	case 12:
		return "+" + a.one("select|0", "select|1", "debug|a", "get|k1", "SELECT|A")
	}
	name := a.commands[a.IntN(len(a.commands))].name
	if a.IntN(5) == 0 {
		name = strings.ToUpper(name)
	}
	return sign + name
}

// call is a call with a right number of arguments, at least.
func (a *aclRun) call() []string {
	c := a.commands[a.IntN(len(a.commands))]
	args := strings.Split(c.name, "|")
	n := c.arity
	if n < 0 {
		n = -n + a.IntN(6)
	}
	if a.IntN(50) == 0 {
		n--
	}
	for len(args) < n {
		switch a.IntN(12) {
		case 0, 1:
			args = append(args, strconv.Itoa(a.IntN(4)))
		case 2:
			args = append(args, a.one("GET", "STORE", "STREAMS", "COUNT", "KEYS", "SET", "BY", "LIMIT", "INCRBY", "storedist", "", "WEIGHTS"))
		default:
			args = append(args, a.one("a", "b", "c", "k1", "k2", "xy", "z", fmt.Sprint("k", a.IntN(20))))
		}
	}
	return args
}
