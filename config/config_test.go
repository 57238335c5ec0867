package config

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

// A row's default must be valid, or New would leave the directive without one.
func TestDefaultsAreValid(t *testing.T) {
	c := NewWithMemory(8 << 30)
	seen := map[string]bool{}
	for _, s := range c.rows {
		for _, n := range append([]string{s.Name}, s.Aliases...) {
			if seen[n] || n != strings.ToLower(n) {
				t.Errorf("the name %s is there twice or not in lower case", n)
			}
			seen[n] = true
		}
		words := []string{s.Default}
		if s.Flags&MultiArg != 0 {
			words = strings.Fields(s.Default)
		}
		if s.Name == "replicaof" {
			continue // no value that can be set means "none" in that form
		}
		v, err := s.read(c, words, true)
		if err != nil || v.text != s.Default {
			t.Errorf("%s: the default %q reads as %q, %v", s.Name, s.Default, v.text, err)
		}
		if s.Flags&Own != 0 && s.Doc == "" {
			t.Errorf("%s is ours and says nothing about itself", s.Name)
		}
	}
}

func TestGetters(t *testing.T) {
	c := NewWithMemory(8 << 30)
	if got := c.Int("maxmemory"); got != 4<<30 {
		t.Errorf("maxmemory is %d", got)
	}
	if !c.Bool("appendonly") || c.Bool("activedefrag") {
		t.Error("appendonly must be yes and activedefrag no")
	}
	if c.Enum("engine") != "local" || c.Str("bind") != "* -::*" {
		t.Error("engine or bind is wrong")
	}
	if !strings.HasSuffix(c.Str("dir"), "/redoubt-data") {
		t.Errorf("dir is %s", c.Str("dir"))
	}
	if err := c.Set("maxmemory-clients", "5%"); err != nil || c.Int("maxmemory-clients") != -5 {
		t.Errorf("maxmemory-clients is %d, %v", c.Int("maxmemory-clients"), err)
	}
	if err := c.Set("shutdown-on-sigterm", "now", "force"); err != nil || !c.Has("shutdown-on-sigterm", "force") {
		t.Errorf("shutdown-on-sigterm is %s, %v", c.Str("shutdown-on-sigterm"), err)
	}
	if err := c.Set("client-output-buffer-limit", "replica", "1mb", "2", "3"); err != nil {
		t.Error(err)
	}
	normal, replica, pubsub := c.BufferLimits()
	if normal != (BufferLimit{}) || replica != (BufferLimit{1 << 20, 2, 3}) || pubsub != (BufferLimit{32 << 20, 8 << 20, 60}) {
		t.Errorf("buffer limits are %v %v %v", normal, replica, pubsub)
	}
}

func TestMatch(t *testing.T) {
	c := NewWithMemory(0)
	names := func(patterns ...string) string {
		var out []string
		for _, m := range c.Match(patterns...) {
			out = append(out, m[0])
		}
		return strings.Join(out, " ")
	}
	for _, test := range [][2]string{
		{"maxmemory", "maxmemory"},
		{"MaxMemory", "MaxMemory"},
		{"hash-max-*-value", "hash-max-listpack-value hash-max-ziplist-value"},
		{"HASH-MAX-Z*-[vx]alue", "hash-max-ziplist-value"},
		{"slaveof", "slaveof"},
		{"rdb-key-save-dela?", ""},
		{"rdb-key-save-delay", "rdb-key-save-delay"},
		{"server-cpulist", "server-cpulist"},
		{"server?cpulist", "server_cpulist"},
		{"nosuch", ""},
		{"nosuch*", ""},
	} {
		if got := names(test[0]); got != test[1] {
			t.Errorf("%s finds %q, want %q", test[0], got, test[1])
		}
	}
	if got := names("timeout", "port", "timeou?"); got != "timeout port" {
		t.Errorf("three patterns find %q", got)
	}
	if n := len(c.Match("*")); n < 180 {
		t.Errorf("* finds %d", n)
	}
}

func TestSetAllOrNothing(t *testing.T) {
	c := NewWithMemory(0)
	var calls []string
	note := func(name string) func() error {
		return func() error {
			calls = append(calls, name+"="+c.Get(name))
			if c.Get(name) == "13" {
				return errors.New("an unlucky number")
			}
			return nil
		}
	}
	c.OnChange("timeout", note("timeout"))
	c.OnChange("hz", note("hz"))
	c.OnChangeOfAny(func() error { calls = append(calls, "both"); return nil }, "timeout", "hz")

	check := func(wantErr, wantCalls string, set ...string) {
		t.Helper()
		calls = nil
		err := c.SetAll(pairs(set))
		if (err == nil) != (wantErr == "") || (err != nil && err.Error() != wantErr) {
			t.Errorf("%v: error %v, want %q", set, err, wantErr)
		}
		if got := strings.Join(calls, " "); got != wantCalls {
			t.Errorf("%v: calls %q, want %q", set, got, wantCalls)
		}
	}
	check("", "timeout=5 both hz=20", "timeout", "5", "hz", "20")
	check("", "", "timeout", "5")
	check("ERR CONFIG SET failed (possibly related to argument 'hz') - an unlucky number",
		"timeout=6 both hz=13 timeout=5 both hz=20", "timeout", "6", "HZ", "13")
	check("ERR CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer",
		"", "timeout", "7", "hz", "x")
	if c.Int("timeout") != 5 || c.Int("hz") != 20 {
		t.Errorf("timeout is %d and hz is %d", c.Int("timeout"), c.Int("hz"))
	}
}

func TestProtectedAndLoading(t *testing.T) {
	dir := t.TempDir()
	set := func(mode string, who Caller, name, v string) error {
		c := NewWithMemory(0)
		if err := c.Apply("enable-protected-configs", mode); err != nil {
			t.Fatal(err)
		}
		return c.SetAllFor(who, [][2]string{{name, v}})
	}
	const refused = "ERR CONFIG SET failed (possibly related to argument 'dir') - can't set protected config"
	if err := set("no", Caller{Local: true}, "dir", dir); err == nil || err.Error() != refused {
		t.Error(err)
	}
	if err := set("local", Caller{}, "dir", dir); err == nil || err.Error() != refused {
		t.Error(err)
	}
	if err := set("local", Caller{Local: true}, "dir", dir); err != nil {
		t.Error(err)
	}
	if err := set("yes", Caller{}, "dir", dir); err != nil {
		t.Error(err)
	}
	err := set("yes", Caller{}, "dir", dir+"/none")
	if err == nil || err.Error() != "ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory" {
		t.Error(err)
	}
	if err := set("yes", Caller{Loading: true}, "appendonly", "no"); !errors.Is(err, ErrLoading) {
		t.Error(err)
	}
}

// What CONFIG GET shows can be set again: tools copy settings that way.
func TestSetToWhatItIs(t *testing.T) {
	c := NewWithMemory(8 << 30)
	for _, pair := range c.Match("*") {
		d := c.Lookup(pair[0])
		if d.Flags&Protected != 0 || d.Flags&Immutable != 0 && d.Flags&Own == 0 {
			continue
		}
		if err := c.Set(pair[0], pair[1]); err != nil || c.Get(pair[0]) != pair[1] {
			t.Errorf("%s cannot be set to %q: %v", pair[0], pair[1], err)
		}
	}
	if err := c.Set("engine", "memory"); err == nil {
		t.Error("engine was changed")
	}
}

// Run with -race: readers see whole values while a writer changes them.
func TestConcurrentUse(t *testing.T) {
	c := NewWithMemory(0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				if v := c.Get("maxmemory"); v != "0" && v != "1048576" {
					t.Errorf("maxmemory is %q", v)
				}
				_ = c.Int("maxmemory")
				_ = c.Match("max*")
			}
		})
	}
	wg.Go(func() {
		for i := range 2000 {
			if err := c.Set("maxmemory", []string{"1mb", "0"}[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}

// The directives of engine tikv: what is fixed at the start, what can be changed, and
// what is refused.
func TestTiKV(t *testing.T) {
	c := NewWithMemory(8 << 30)
	if c.Str("tikv-prefix") != "redoubt:" || c.Int("tikv-timeout") != 5000 || c.Int("tikv-max-transactions") != 1024 || c.Bool("tikv-replica-read") || c.Str("tikv-pd") != "" {
		t.Error("a default is wrong")
	}
	for _, v := range []struct {
		name, value string
		ok          bool
	}{
		{"tikv-replica-read", "yes", true},
		{"tikv-max-transactions", "16", true},
		{"tikv-max-transactions", "0", false},
		{"tikv-pd", "10.0.0.1:2379", false},
		{"tikv-prefix", "other:", false},
		{"tikv-timeout", "100", false},
		{"tikv-ca", "/x", false},
		{"engine", "tikv", false},
	} {
		if err := c.Set(v.name, v.value); (err == nil) != v.ok {
			t.Errorf("%s %s: %v", v.name, v.value, err)
		}
	}
	for line, ok := range map[string]bool{
		"engine tikv": true, "tikv-pd a:1,b:2": true, "tikv-prefix app1/": true, "tikv-timeout 50": true,
		`tikv-prefix ""`: false, "tikv-prefix t1": false, "tikv-prefix m": false, `tikv-prefix "\xff"`: false,
		"tikv-prefix " + strings.Repeat("x", 65): false, "tikv-timeout 0": false,
	} {
		if err := NewWithMemory(8<<30).Load("x.conf", strings.NewReader(line)); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
}
