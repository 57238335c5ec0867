package comparer_test

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/client"
	"redoubt/comparer"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// fill runs commands, one per line with words between spaces.
func fill(t *testing.T, addr string, lines ...string) {
	t.Helper()
	c, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, l := range lines {
		if v, err := c.Do(strings.Fields(l)...); err != nil || v.IsError() {
			t.Fatalf("%s: %v, %v", l, v, err)
		}
	}
}

func compare(t *testing.T, o comparer.Options, a, b string) ([]string, comparer.Result) {
	t.Helper()
	var found []string
	o.From, o.To = client.Server{Addr: a}, client.Server{Addr: b}
	o.Report = func(d comparer.Difference) {
		found = append(found, strings.NewReplacer(a, "A", b, "B").Replace(d.String()))
	}
	r, err := comparer.Compare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found, r
}

// Each way in which a key can differ is named, and nothing else.
func TestDifferences(t *testing.T) {
	t.Parallel()
	a, b := testserver.Start(t, testserver.Options{}), testserver.Start(t, testserver.Options{})
	var same []string
	for i := range 700 {
		same = append(same, fmt.Sprintf("hset h f%d %d", i, i), fmt.Sprintf("zadd z %d.5 m%d", i, i), fmt.Sprintf("sadd s m%d", i), fmt.Sprintf("rpush l %d", i), fmt.Sprintf("xadd x %d-1 a %d", i+1, i),
			fmt.Sprintf("set k%d %d pxat 4000000000000", i, i))
	}
	same = append(same, "setrange big 2500000 x", "xgroup create x g 0", "xreadgroup group g c count 3 streams x >", "select 3", "set other 1")
	fill(t, a.Addr, same...)
	fill(t, b.Addr, same...)
	if found, r := compare(t, comparer.Options{}, a.Addr, b.Addr); len(found) > 0 || r.Keys != 707 || r.Databases != 2 {
		t.Fatalf("%+v: %.2000q", r, found)
	}
	if found, r := compare(t, comparer.Options{Sample: 500}, a.Addr, b.Addr); len(found) > 0 || r.Keys != 1000 {
		t.Fatalf("a sample: %+v: %q", r, found)
	}
	fill(t, b.Addr, "hset h f650 x", "zadd z 1.25 m650", "srem s m650", "sadd s other", "lset l 650 x", "xdel x 650-1", "xadd x 900-1 a 1", "setrange big 2400000 y",
		"set k1 x", "del k2", "persist k3", "pexpireat k4 4000000002000", "del k5", "lpush k5 x", "append k6 x", "select 3", "del other", "set new 1", "select 2", "set only 1")
	fill(t, a.Addr, "xadd x 901-1 a 1", "xdel x 901-1")
	want := []string{
		`database 0, key "big": the bytes from 2097152 on differ`,
		`database 0, key "h": "f650" of its fields differs or is missing at B`,
		`database 0, key "k1": `, `database 0, key "k2": only A has it`,
		`database 0, key "k3": it expires at 2096-10-02T07:06:40.000Z, and never expires at B`, `database 0, key "k4": it expires at 2096-10-02T07:06:40.000Z, and expires at 2096-10-02T07:06:42.000Z at B`,
		`database 0, key "k5": it is a string, and a list at B`, `database 0, key "k6": it has 1 bytes, and 2 at B`,
		`database 0, key "l": the element 650 differs`, `database 0, key "s": "m650" of its members differs or is missing at B`,
		`database 0, key "x": the entry 650-1 differs`, `database 0, key "z": "m650" of its members differs or is missing at B`,
		`database 2, key "only": only B has it`, `database 3, key "new": only B has it`, `database 3, key "other": only A has it`,
	}
	found, r := compare(t, comparer.Options{Skew: time.Second}, a.Addr, b.Addr)
	if len(found) != len(want) || int(r.Differences) != len(want) {
		t.Fatalf("%d differences, want %d:\n%s", len(found), len(want), strings.Join(found, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(found[i], want[i]) {
			t.Errorf("%s, want %s", found[i], want[i])
		}
	}
}

// What differs is looked at again before it is reported.
func TestLooksAgain(t *testing.T) {
	t.Parallel()
	a, b := testserver.Start(t, testserver.Options{}), testserver.Start(t, testserver.Options{})
	fill(t, a.Addr, "set k 1", "select 1", "set l 1")
	fill(t, b.Addr, "select 1", "set m 1")
	pauses := 0
	o := comparer.Options{Again: 3, Pause: func(time.Duration) {
		switch pauses++; pauses {
		case 1:
			fill(t, b.Addr, "set k 1")
		case 2:
			fill(t, b.Addr, "select 1", "set l 1")
		}
	}}
	found, _ := compare(t, o, a.Addr, b.Addr)
	if len(found) != 1 || found[0] != `database 1, key "m": only B has it` || pauses != 3 {
		t.Errorf("%d pauses, %q", pauses, found)
	}
}

func TestParseServer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://h:1": "h:1|||", "h": "h:6379|||", "redis://u:p@h": "h:6379|u|p|", "redis://p@h": "h:6379||p|", "rediss://[::1]:2": "[::1]:2|||::1",
		"http://h": "error", "redis://h/3": "error", "redis://": "error", "redis://h:x": "error",
	} {
		s, err := client.ParseServer(text, &tls.Config{})
		name := ""
		if s.TLS != nil {
			name = s.TLS.ServerName
		}
		got := strings.Join([]string{s.Addr, s.User, s.Password, name}, "|")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q, %v", text, got, want, err)
		}
	}
}

// A server that does not speak Redis, or refuses, is an error and no difference.
func TestCannotCompare(t *testing.T) {
	t.Parallel()
	a := testserver.Start(t, testserver.Options{})
	b := testserver.Start(t, testserver.Options{Args: []string{"--requirepass", "secret"}})
	o := comparer.Options{From: client.Server{Addr: a.Addr}, To: client.Server{Addr: b.Addr}, Report: func(d comparer.Difference) { t.Error(d) }}
	if _, err := comparer.Compare(t.Context(), o); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	o.To.Password = "secret"
	if _, err := comparer.Compare(t.Context(), o); err != nil {
		t.Errorf("with it: %v", err)
	}
	o.To.Addr = "127.0.0.1:1"
	if _, err := comparer.Compare(t.Context(), o); err == nil {
		t.Error("nobody is there")
	}
}
