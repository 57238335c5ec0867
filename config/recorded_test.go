package config

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"redoubt/wire"
)

// The replies of CONFIG SET are compared with those of a real Redis, which are
// recorded in testdata. To record them again, start a Redis of that version
// with no arguments but --port and run
//
//	go test ./config -run TestRecordedReplies -redis 127.0.0.1:PORT
//
// A line has the quoted arguments, the reply, and, when that is +OK, what
// CONFIG GET shows for the first directive then, separated by tabs.

const recordedFile = "testdata/config-set-7.2.6.txt"

var redisAddr = flag.String("redis", "", "record the replies of the Redis at this address")

// The replies in which we differ, by the arguments, and why.
var different = map[string]string{
	`"notify-keyspace-events" "KEAn"`: "Redis hides the n beside an A, and loses it on CONFIG REWRITE",
	`"activedefrag" "yes"`:            "the reason why it cannot be is ours",
	`"activedefrag" "YES"`:            "the same",
	`"locale-collate" "xx_YY"`:        "there are no locales to check: the value is remembered",
}

func TestRecordedReplies(t *testing.T) {
	if *redisAddr != "" {
		record(t)
	}
	b, err := os.ReadFile(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		args, want, _ := strings.Cut(line, "\t")
		words, err := splitLine(args)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		c := NewWithMemory(0)
		got := "+OK"
		if err := c.SetAll(pairs(words)); err != nil {
			got = "-" + err.Error()
		} else {
			got += "\t" + strconv.Quote(c.Get(words[0]))
		}
		switch _, differs := different[args]; {
		case got != want && !differs:
			t.Errorf("CONFIG SET %s\n  got  %s\n  want %s", args, got, want)
		case got == want && differs:
			t.Errorf("CONFIG SET %s no longer differs; take it off the list", args)
		}
		used[args] = true
	}
	for args := range different {
		if !used[args] {
			t.Errorf("CONFIG SET %s is listed as different but was not recorded", args)
		}
	}
}

func pairs(words []string) (out [][2]string) {
	for i := 0; i+1 < len(words); i += 2 {
		out = append(out, [2]string{words[i], words[i+1]})
	}
	return out
}

// probes are the arguments to record. What depends on the machine on which the
// Redis runs, such as ports that may be taken, is left out.
func probes() (out [][]string) {
	for _, d := range New().Directives() {
		if d.Flags&Own != 0 && d.Name != "maxmemory" && d.Name != "appendonly" || newer(d.Name) {
			continue
		}
		name := append([]string{d.Name}, d.Aliases...)[len(d.Aliases)]
		if strings.HasSuffix(d.Name, "_cpulist") {
			name = d.Name
		}
		for _, v := range probeValues(d) {
			out = append(out, []string{name, v})
		}
	}
	return append(out, specialProbes...)
}

func newer(name string) bool {
	for _, d := range newerDirectives {
		if d.Name == name {
			return true
		}
	}
	return false
}

func probeValues(d *Directive) []string {
	if d.Flags&(Immutable|Protected) != 0 {
		return []string{"1"}
	}
	bound := func(v ...string) []string {
		v = append(v, strconv.FormatInt(d.low, 10), strconv.FormatUint(d.high, 10))
		if d.low > -1<<31 {
			v = append(v, strconv.FormatInt(d.low-1, 10))
		}
		return append(v, strconv.FormatUint(d.high+1, 10))
	}
	if strings.HasPrefix(d.Name, "tls-") {
		return nil // what they do depends on how the Redis was built
	}
	switch d.Name {
	case "port":
		return []string{"-1", "65536", "x", ""}
	case "maxclients":
		return []string{"0", "-1", "5000", "4294967296", "x"}
	case "oom-score-adj":
		return []string{"x", "", "no"}
	case "locale-collate":
		return []string{"C", "xx_YY"}
	case "watchdog-period", "proc-title-template":
		return nil
	}
	switch d.Kind {
	case Bool:
		return []string{"yes", "no", "YES", "1", "true", ""}
	case Int:
		return bound("7", "x", "", "1.5", " 1", "1kb", "-1", "0x10", "99999999999999999999")
	case Memory, MemoryOrPercent:
		return bound("1mb", "1m", "2MB", "3gb", "3G", "1tb", "1048577b", "10%", "101%", "-1%", "x", "", "-1", "1 mb", "99999999999999999999")
	case Enum, EnumMulti:
		return append(d.Values(), "bogus", "", strings.ToUpper(d.values[0]), d.values[0]+" "+d.values[1])
	case String:
		return []string{"x", "", "a b"}
	}
	return nil
}

// specialProbes are those of directives with a form of their own, and of many
// directives at once.
var specialProbes = [][]string{
	{"save", ""}, {"save", "900 1"}, {"save", "900 1 300 10"}, {"save", "900"}, {"save", "0 1"}, {"save", "1 0"},
	{"save", "1 -1"}, {"save", "x 1"}, {"save", "900  1"}, {"save", "900 1 "}, {"save", "+900 1x"}, {"save", "900 1 300"},
	{"client-output-buffer-limit", ""}, {"client-output-buffer-limit", "normal 1mb 2kb 60"},
	{"client-output-buffer-limit", "replica 0 0 0 pubsub 1 2 3"}, {"client-output-buffer-limit", "slave 1g 0 0"},
	{"client-output-buffer-limit", "master 0 0 0"}, {"client-output-buffer-limit", "bogus 0 0 0"},
	{"client-output-buffer-limit", "normal 0 0"}, {"client-output-buffer-limit", "normal x 0 0"},
	{"client-output-buffer-limit", "normal 0 0 -1"}, {"client-output-buffer-limit", "NORMAL 0 0 5 normal 0 0 6"},
	{"client-output-buffer-limit", "normal 0 -1 0"}, {"client-output-buffer-limit", "normal 0 0 1x"},
	{"oom-score-adj-values", ""}, {"oom-score-adj-values", "1 2"}, {"oom-score-adj-values", "1 2 3"},
	{"oom-score-adj-values", "-2001 2 3"}, {"oom-score-adj-values", "0 1 2001"}, {"oom-score-adj-values", "0 1 x"},
	{"oom-score-adj-values", "0 1 2 3"},
	{"notify-keyspace-events", ""}, {"notify-keyspace-events", "KEA"}, {"notify-keyspace-events", "EKgx"},
	{"notify-keyspace-events", "xlshz$egtdmKE"}, {"notify-keyspace-events", "Kxn"}, {"notify-keyspace-events", "KEAn"},
	{"notify-keyspace-events", "Am"}, {"notify-keyspace-events", "Q"}, {"notify-keyspace-events", "K E"},
	{"latency-tracking-info-percentiles", ""}, {"latency-tracking-info-percentiles", "50"},
	{"latency-tracking-info-percentiles", "0 50.5 99.99 100"}, {"latency-tracking-info-percentiles", "101"},
	{"latency-tracking-info-percentiles", "-1"}, {"latency-tracking-info-percentiles", "x"},
	{"latency-tracking-info-percentiles", "50  60"}, {"latency-tracking-info-percentiles", "1e1"},
	{"latency-tracking-info-percentiles", "nan"}, {"latency-tracking-info-percentiles", "12.3456789"},
	{"bind", "127.0.0.1"}, {"bind", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"},
	{"cluster-announce-hostname", "a_b"}, {"cluster-announce-hostname", "a-b.c"},
	{"cluster-announce-hostname", strings.Repeat("a", 255)}, {"cluster-announce-hostname", strings.Repeat("a", 256)},
	{"cluster-announce-human-nodename", "a#b"}, {"cluster-announce-human-nodename", "a b"},
	{"shutdown-on-sigint", "save nosave"}, {"shutdown-on-sigint", "force now"}, {"shutdown-on-sigterm", "default save"},
	{"proc-title-template", "{title}"}, {"proc-title-template", "x {title}"}, {"proc-title-template", "{bogus}"},
	{"proc-title-template", "{title"}, {"proc-title-template", ""}, {"proc-title-template", "{listen-addr} {port}"},
	{"proc-title-template", "{{title}"}, {"proc-title-template", "a}"},
	{"replicaof", "1.2.3.4 5"}, {"slaveof", "no one"},
	{"maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"}, {"maxmemory", "1", "MAXMEMORY", "2"},
	{"maxmemory", "1", "nosuch", "2"}, {"nosuch", "1", "databases", "2"}, {"databases", "2", "nosuch", "1"},
	{"maxmemory", "1", "timeout", "x"}, {"hash-max-ziplist-entries", "1", "hash-max-ziplist-value", "2"},
	{"NoSuch", "1"}, {"TIMEOUT", "-1"}, {"Databases", "1"}, {"slave-priority", "-1"},
	{"hz", "0"}, {"hz", "501"}, {"hz", "-1"},
}

// record asks the Redis and writes the file.
func record(t *testing.T) {
	conn, err := net.Dial("tcp", *redisAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over then
	in := bufio.NewReader(conn)
	ask := func(args ...string) []string {
		var w wire.Writer
		w.Array(len(args))
		for _, a := range args {
			w.BulkString(a)
		}
		if _, err := conn.Write(w.Buf); err != nil {
			t.Fatal(err)
		}
		return reply(t, in)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# Replies to CONFIG SET of Redis 7.2.6, started without a configuration file.\n")
	done := map[string]bool{}
	for _, p := range probes() {
		old := make([]string, len(p))
		quoted := make([]string, len(p))
		for i, a := range p {
			quoted[i] = strconv.Quote(a)
			if i%2 == 0 {
				if r := ask("CONFIG", "GET", a); len(r) == 2 {
					old[i] = r[1]
				}
			}
		}
		key := strings.Join(quoted, " ")
		if done[key] {
			continue
		}
		done[key] = true
		r := ask(append([]string{"CONFIG", "SET"}, p...)...)
		fmt.Fprintf(&out, "%s\t%s", key, r[0])
		if r[0] == "+OK" {
			fmt.Fprintf(&out, "\t%q", ask("CONFIG", "GET", p[0])[1])
			for i := 0; i < len(p); i += 2 {
				ask("CONFIG", "SET", p[i], old[i])
			}
		}
		out.WriteByte('\n')
	}
	if err := os.WriteFile(recordedFile, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// reply reads a status, an error, or an array of strings.
func reply(t *testing.T, in *bufio.Reader) []string {
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	line = strings.TrimRight(line, "\r\n")
	if line[0] != '*' {
		return []string{line}
	}
	n, _ := strconv.Atoi(line[1:])
	out := make([]string, n)
	for i := range out {
		head, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		size, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
		b := make([]byte, size+2)
		for at := 0; at < len(b); {
			k, err := in.Read(b[at:])
			if err != nil {
				t.Fatal(err)
			}
			at += k
		}
		out[i] = string(b[:size])
	}
	return out
}
