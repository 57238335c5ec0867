package acl

import (
	"fmt"
	"testing"
)

// What is denied is what a real Redis 7.2.6 answers to ACL DRYRUN.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ rules, call, want string }{
		{"+@all ~* &*", "get k", ""},
		{"+@all ~* &*", "subscribe c", ""},
		{"~*", "get k", "command 0"},
		{"+get", "get k", "key 1"},
		{"+get ~k*", "get key", ""},
		{"+@all -get ~*", "get key", "command 0"},
		{"+@all ~a", "mget a b c", "key 2"},
		{"+@all ~a ~c", "mset a 1 b 2 c 3", "key 3"},
		{"+@all ~a", "ping", ""},
		// What is read and what is written.
		{"+@all %R~r %W~w", "get r", ""},
		{"+@all %R~r %W~w", "get w", "key 1"},
		{"+@all %R~r %W~w", "set w v", ""},
		{"+@all %R~r %W~w", "set r v", "key 1"},
		{"+@all %R~r %W~w", "set w v get", "key 1"},
		{"+@all %R~r %W~w", "copy r w", ""},
		{"+@all %R~r %W~w", "copy w r", "key 1"},
		{"+@all %R~r %W~w", "append w x", ""},
		{"+@all %R~r %W~w", "incr w", "key 1"},
		{"+@all %R~x %W~x", "incr x", ""},
		{"+@all %R~r %W~w", "exists r", ""},
		{"+@all %R~r %W~w", "exists w", ""},
		{"+@all %R~r %W~w", "exists x", "key 1"},
		{"+@all %R~r %W~w", "del w", ""},
		{"+@all %R~r %W~w", "del r", "key 1"},
		{"+@all %R~r %W~w", "bitfield r get u8 0", ""},
		{"+@all %R~r %W~w", "bitfield r set u8 0 1", "key 1"},
		{"+@all %R~r %W~w", "zunionstore w 2 r r", ""},
		{"+@all %R~r %W~w", "zunionstore w 2 r w", "key 4"},
		{"+@all ~a", "zunionstore b x c", ""}, // not well-formed: the command says so
		{"+@all ~s", "xread streams s t 0 0", "key 3"},
		{"+@all ~a", "sort a store b", "key 3"},
		// Subcommands and first arguments.
		{"+config|get", "config get x", ""},
		{"+config|get", "config set x y", "command 0"},
		{"+config -config|set", "config set x y", "command 0"},
		{"+@all -config", "config get x", "command 0"},
		{"+select|0 +select|5", "select 5", ""},
		{"+select|0 +select|5", "select 6", "command 0"},
		{"+debug|object", "debug OBJECT", ""},
		{"+debug|object", "debug", "command 0"},
		{"+select|0 -select", "select 0", "command 0"},
		{"-select +select|0", "select 0", ""},
		// Channels.
		{"+@all &a*", "publish abc x", ""},
		{"+@all &a*", "publish bc x", "channel 1"},
		{"+@all &a*", "subscribe ab b", "channel 2"},
		{"+@all &a*", "psubscribe ab", "channel 1"},
		{"+@all &a*", "psubscribe a*", ""},
		{"+@all &a*", "unsubscribe b", ""},
		{"+@all allchannels", "psubscribe *", ""},
		// Selectors: one of them must allow all of it.
		{"(+get ~a) (+set ~b)", "get a", ""},
		{"(+get ~a) (+set ~b)", "set b v", ""},
		{"(+get ~a) (+set ~b)", "set a v", "key 1"},
		{"(+get ~a) (+set ~b)", "del a", "command 0"},
		{"+mget ~a (+mget ~a ~b)", "mget a b c", "key 3"},
		{"+mget ~a ~b (+mget ~a)", "mget a b c", "key 3"},
		{"%R~x +@all (%W~x +@all)", "getex x persist", "key 1"},
		{"(+get ~a) (+publish)", "publish c x", "channel 1"},
	} {
		r, tab := registry()
		u := set(t, r, "u", words(test.rules)...)
		args := call(test.call)
		why, at := u.Check(tab.Find(args), args)
		got := fmt.Sprint(why, " ", at)
		if why == Allowed {
			got = ""
		}
		if got != test.want {
			t.Errorf("%s: %s: got %q, want %q", test.rules, test.call, got, test.want)
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	r, tab := registry()
	u := set(t, r, "bob")
	cmd := tab.Find(call("config get x"))
	for got, want := range map[string]string{
		u.Message(ByCommand, cmd, nil, false):        "User bob has no permissions to run the 'config|get' command",
		u.Message(ByKey, cmd, []byte("k"), false):    "No permissions to access a key",
		u.Message(ByChannel, cmd, []byte("c"), true): "User bob has no permissions to access the 'c' channel",
		u.Message(ByKey, cmd, []byte("k"), true):     "User bob has no permissions to access the 'k' key",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAllKeys(t *testing.T) {
	t.Parallel()
	r, tab := registry()
	args := call("sort a by w_*")
	for rules, want := range map[string]bool{
		"+@all ~* &*": true, "+sort ~*": true, "+sort %R~*": true, "+sort %RW~*": true, "+sort %W~* %R~a": false,
		"+sort ~a": false, "+sort ~a (~* +get)": false, "+sort ~a (~* +sort)": true, "~*": false,
	} {
		if got := set(t, r, "u", append([]string{"reset"}, words(rules)...)...).MayUseAllKeys(tab.Find(args), args, Read); got != want {
			t.Errorf("%s: %v", rules, got)
		}
	}
}

func TestLosesChannels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		before, change string
		want           bool
	}{
		{"&a", "&b", false},
		{"&a &b", "resetchannels &a", true},
		{"&a &b", "resetchannels &b &a &c", false},
		{"allchannels", "resetchannels &a", true},
		{"allchannels", "resetchannels allchannels", false},
		{"&a (&b)", "&b clearselectors", false},
		{"&a (&b)", "clearselectors", true},
		{"&a (allchannels)", "clearselectors", true},
		{"", "on", false},
	} {
		r, _ := registry()
		set(t, r, "u", words(test.before)...)
		c, err := r.Set("u", words(test.change))
		if err != nil || c.LosesChannels() != test.want {
			t.Errorf("%s, then %s: %v", test.before, test.change, err)
		}
	}
	r, _ := registry()
	if c, _ := r.Set("new", nil); c.LosesChannels() || c.After.CheckChannels(call("a b"), false) != 0 {
		t.Error("a new user loses channels")
	}
}

// BenchmarkCheck is what the rules cost each command.
func BenchmarkCheck(b *testing.B) {
	for _, test := range []struct{ name, rules, call string }{
		{"everything", "+@all ~* &*", "get key"},
		{"allcommands", "+@all ~*", "get key"},
		{"command", "+get ~*", "get key"},
		{"key", "+@read ~key:*", "get key:1"},
		{"keys", "+@read ~key:*", "mget key:1 key:2 key:3"},
	} {
		b.Run(test.name, func(b *testing.B) {
			r, tab := registry()
			set(b, r, "u", words(test.rules)...)
			h, args := r.Find([]byte("u")), call(test.call)
			cmd := tab.Find(args)
			b.ReportAllocs()
			for b.Loop() {
				if d, _ := h.Load().Check(cmd, args); d != Allowed {
					b.Fatal(d)
				}
			}
		})
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	r, tab := registry()
	set(t, r, "u", "+get", "+publish", "~key:*", "&c*")
	for name, h := range map[string]*Handle{"default": r.Default(), "u": r.Find([]byte("u"))} {
		for _, line := range []string{"get key:1", "publish c x"} {
			args := call(line)
			cmd := tab.Find(args)
			if n := testing.AllocsPerRun(100, func() { h.Load().Check(cmd, args) }); n > 0 {
				t.Errorf("%s as %s: %v allocations", line, name, n)
			}
		}
	}
}
