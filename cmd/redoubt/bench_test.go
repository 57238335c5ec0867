package main

import (
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"redoubt/histogram"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// Both loops against a server, with the default requests and with a command.
func TestBench(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	at := "redis://" + s.Addr
	out, log, err := use("bench", "--server", at, "--count", "2000", "--clients", "3", "--pipeline", "10", "--keys", "100", "--writes", "50")
	if err != nil || !strings.HasPrefix(out, "2000 replies in ") || !strings.Contains(out, "closed loop: ") || !regexp.MustCompile(`(?m)^  up to .* # *`).MatchString(out) {
		t.Errorf("%v\n%s%s", err, out, log)
	}
	out, log, err = use("bench", "--server", at, "--count", "1200", "--clients", "3", "--rate", "1000", "RPUSH", "list", "{value}{number}")
	if err != nil || !strings.HasPrefix(out, "1200 replies in ") || !strings.Contains(out, "open loop: ") || !strings.Contains(log, "bench "+s.Addr+":  1 s, ") {
		t.Errorf("%v\n%s%s", err, out, log)
	}
	c, err := respclient.Dial(s.Addr)
	must(t, err)
	defer c.Close()
	if v, err := c.Do("LLEN", "list"); err != nil || v.Int() != 1200 {
		t.Errorf("the list has %v, %v", v, err)
	}
	if v, err := c.Do("DBSIZE"); err != nil || v.Int() < 50 || v.Int() > 101 {
		t.Errorf("there are %v keys, %v", v, err)
	}
	out, _, err = use("bench", "--server", at, "--count", "10", "GET", "list")
	if !errors.Is(err, errIncomplete) || !strings.Contains(out, `10 of them were errors, such as: "WRONGTYPE `) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A server that says nothing, none at all, and flags that make no sense.
func TestBenchFailures(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	deaf := "redis://" + ln.Addr().String()
	out, _, err := use("bench", "--server", deaf, "--rate", "100", "--clients", "2", "--time", "100ms", "--patience", "50ms")
	if !errors.Is(err, errIncomplete) || !strings.Contains(out, "0 replies in ") || !strings.Contains(out, "10 requests were not answered (") {
		t.Errorf("%v\n%s", err, out)
	}
	must(t, ln.Close())
	for want, args := range map[string][]string{
		"connection refused":         {"--server", deaf},
		"exclude each other":         {"--rate", "10", "--pipeline", "2"},
		"--clients is from":          {"--clients", "0"},
		"--rate is from":             {"--rate", "-1"},
		"--time and --patience":      {"--time", "0s"},
		"--keys is 1":                {"--keys", "0"},
		"--pipeline is from":         {"--pipeline", "0"},
		"--server: its scheme":       {"--server", "http://host"},
		"no such file or directory":  {"--tls-ca", "/nonexistent"},
		"flag provided but not defi": {"--nonsense"},
	} {
		var exit exitError
		if _, _, err := use(append([]string{"bench"}, args...)...); !errors.As(err, &exit) || exit.code != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	var h histogram.Histogram
	for range 99 {
		h.Add(3 * time.Microsecond)
	}
	h.Add(15 * time.Microsecond)
	var out strings.Builder
	bars(&out, &h)
	want := "  up to   4.00 us  99.00 %        99 " + strings.Repeat("#", 50) + "\n  up to   8.00 us   0.00 %         0 \n  up to   16.0 us   1.00 %         1 #\n"
	if out.String() != want {
		t.Errorf("\n%s\nnot\n%s", out.String(), want)
	}
	for d, want := range map[time.Duration]string{999: "999 ns", 1234: "1.23 us", 12345: "12.3 us", 123456789: "123 ms", 65 * time.Second: "65.0 s"} {
		if got := short(d); got != want {
			t.Errorf("%d: %s, not %s", d, got, want)
		}
	}
}
