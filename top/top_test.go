package top

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"redoubt/client"
)

var begin = time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)

func sample(after time.Duration, info string) Sample {
	return Sample{begin.Add(after), client.ParseInfo(strings.ReplaceAll(info, " ", "\r\n"))}
}

const (
	first  = "redis_version:7.4.1 redoubt_version:0.2.0 engine:local durability:everysec uptime_in_seconds:60 total_commands_processed:1000 total_net_input_bytes:0 keyspace_hits:0 keyspace_misses:0 syncs:0 sync_usec:0 used_cpu_user:1 cmdstat_get:calls=1,usec=10 cmdstat_config|get:calls=1,usec=1 cmdstat_set:calls=5,usec=5"
	second = "redis_version:7.4.1 redoubt_version:0.2.0 engine:local durability:everysec uptime_in_seconds:62 total_commands_processed:31000 total_net_input_bytes:2097152 keyspace_hits:30 keyspace_misses:10 syncs:4 sync_usec:8000 used_cpu_user:2 db0:keys=1000,expires=1 db3:keys=24,expires=0 connected_clients:7 maxmemory:1073741824 cmdstat_get:calls=2001,usec=4010 cmdstat_config|get:calls=2,usec=9001 cmdstat_set:calls=5,usec=5"
)

// A frame, to the character.
func TestFrame(t *testing.T) {
	t.Parallel()
	v := View{Server: "host:6379"}
	v.Add(sample(0, first))
	v.Add(sample(2*time.Second, second))
	want := `redoubt top  host:6379  Redoubt 0.2.0, engine local, everysec  up 1m2s  12:00:02
█  at most 15.0k/s

commands    rate 15.0k/s         in 1.0 MiB/s
keys        there 1024           hits 75.0 %
clients     connected 7
memory      of 1.0 GiB
disk        fsync 2/s of 2.00 ms
cpu         user 50 %

commands by the time that they took
  config get                       0/s     9000.0 us each    0.5 % of a processor
  get                           1000/s        2.0 us each    0.2 % of a processor`
	if got := strings.Join(v.Frame(100, 40, false), "\n"); got != want {
		t.Errorf("\n%s\nnot\n%s", got, want)
	}
	line := v.Line()
	if !strings.HasPrefix(line, "commands: rate 15.0k/s, in 1.0 MiB/s; keys: there 1024, hits 75.0 %; ") || strings.Contains(line, "\n") {
		t.Error(line)
	}
}

// Every size is kept to, whatever a server answers, and nothing of it reaches the terminal.
func TestFramesFit(t *testing.T) {
	t.Parallel()
	v := View{Server: "host\x1b[2J"}
	v.Add(sample(0, first))
	v.Add(sample(time.Second, second+" store_error:\x1b[31m\x07full engine:\u202eevil cmdstat_\x1bget:calls=9,usec=9 loading:1 engine_disk_low:1 master_link_status:down"))
	for width := range 120 {
		for height := range 30 {
			lines := v.Frame(width, height, false)
			if len(lines) > height {
				t.Fatalf("%d lines of %d", len(lines), height)
			}
			for _, l := range lines {
				if utf8.RuneCountInString(l) > width || strings.ContainsAny(l, "\x1b\x07\n\r\u202e") {
					t.Fatalf("width %d: %q", width, l)
				}
			}
		}
	}
	all := strings.Join(v.Frame(200, 50, true), "\n")
	for _, want := range []string{"!! WRITES ARE REFUSED: ?[31m?full", "!! LOADING", "!! THE DISK IS ALMOST FULL", "!! THE LINK TO THE MASTER IS DOWN", "\x1b[1mredoubt top"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in %q", want, all)
		}
	}
	if strings.ContainsAny(v.Line(), "\x1b\x07") {
		t.Errorf("%q", v.Line())
	}
}

// What is not known is not shown: no rate after a reset or a failure, no figures that are old.
func TestUnknownFigures(t *testing.T) {
	t.Parallel()
	var v View
	if text := strings.Join(v.Frame(80, 10, false), "\n"); !strings.Contains(text, "waiting for the server") {
		t.Error(text)
	}
	v.Add(sample(0, second))
	v.Add(sample(time.Second, first))
	if text := strings.Join(v.Frame(80, 30, false), "\n"); strings.Contains(text, "rate") || strings.Contains(text, "at most") {
		t.Errorf("a rate of a counter that was reset:\n%s", text)
	}
	v.Fail(errors.New("connection refused"))
	if text := strings.Join(v.Frame(80, 30, false), "\n"); !strings.Contains(text, "no answer: connection refused") || strings.Contains(text, "clients") {
		t.Error(text)
	}
	if line := v.Line(); !strings.Contains(line, "no answer: connection refused") {
		t.Error(line)
	}
	v.Add(sample(9*time.Second, second))
	if text := strings.Join(v.Frame(80, 30, false), "\n"); strings.Contains(text, "rate") || !strings.Contains(text, "connected 7") {
		t.Errorf("after a failure:\n%s", text)
	}
	for n, want := range map[float64]string{0: "0", 9999: "9999", 10500: "10.5k", 2.5e6: "2.50M", 3e9: "3.00G"} {
		if got := Count(n); got != want {
			t.Errorf("%v: %s, not %s", n, got, want)
		}
	}
}
