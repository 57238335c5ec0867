package script

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testserver"
	"redoubt/wire"
)

// fakeServer answers each command line with canned bytes; what it does not
// know it answers with an error.
func fakeServer(t *testing.T, replies map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		r := wire.Reader{MaxBulk: 1 << 20, Authenticated: true}
		var buf []byte
		for {
			args, n, err := r.Next(buf)
			if err != nil {
				return
			}
			if n == 0 {
				b, err := in.ReadByte()
				if err != nil {
					return
				}
				buf = append(buf, b)
				continue
			}
			var words []string
			for _, a := range args {
				words = append(words, string(a))
			}
			buf = buf[n:]
			reply, ok := replies[strings.Join(words, " ")]
			if !ok {
				reply = "-ERR unknown command '" + words[0] + "'\r\n"
			}
			if reply == "close" {
				return
			}
			if _, err := c.Write([]byte(reply)); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

func fakeTarget(t *testing.T, proto int) *Target {
	now := time.Unix(1_700_000_000, 0)
	addr := fakeServer(t, map[string]string{
		"FLUSHALL":        "+OK\r\n",
		"HELLO 3":         "%1\r\n+proto\r\n:3\r\n",
		"ONE":             ":1\r\n",
		"TEXT":            "$4\r\na\"\x00b\r\n",
		"LIST":            "*3\r\n$1\r\nb\r\n*2\r\n:1\r\n$-1\r\n+c\r\n",
		"MAP":             "%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n,1.5\r\n",
		"NULL2":           "$-1\r\n",
		"NULL3":           "_\r\n",
		"BYE":             "close",
		"TWICE":           "+a\r\n+b\r\n",
		"AT 1700000010":   "+then\r\n",
		"AT 1700000012":   "+later\r\n",
		"LONG xyxyxy":     "+long\r\n",
		"USE a\"\x00b":    "+used\r\n",
		"SAY a b \x01 'c": "+said\r\n",
		"INFO server":     "$38\r\nredis_version:7.2.0\r\nredoubt_version:1\r\n",
	})
	return &Target{
		Addr: addr, Proto: proto, Cases: []string{"mem", "redoubt", "plain", protoCase(proto)}, Timeout: 5 * time.Second,
		Now: func() time.Time { return now }, Advance: func(d time.Duration) { now = now.Add(d) },
	}
}

func runText(t *testing.T, proto int, text string) error {
	t.Helper()
	f, err := parse("test", text)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return f.Run(fakeTarget(t, proto))
}

func TestRightScriptsPass(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"plain":      "# a comment\n> ONE\n(integer) 1\n> TEXT\n\"a\\\"\\x00b\"\n",
		"quoting":    "> SAY a \"b\" \"\\x01\" '\\'c'\nsaid\n",
		"nested":     "> LIST\n1) \"b\"\n2) 1) (integer) 1\n   2) (nil)\n3) c\n",
		"error":      "> NOSUCH\n(error) ERR unknown command 'NOSUCH'\n",
		"prefix":     "@prefix\n> NOSUCH\n(error) ERR unknown\n",
		"pattern":    "> ONE\n~ \\(integer\\) \\d\n",
		"rest":       "> LIST\n1) \"b\"\n...\n",
		"unordered":  "@unordered\n> LIST\n1) c\n2) \"b\"\n3) 1) (integer) 1\n   2) (nil)\n",
		"closed":     "> BYE\n(connection closed)\n> ONE\n(integer) 1\n",
		"receive":    "> TWICE\na\n<\nb\n",
		"send":       ">> TWICE\n<\na\n<\nb\n",
		"conn":       ">> ONE\n@conn 2\n> TEXT\n\"a\\\"\\x00b\"\n@conn 1\n<\n(integer) 1\n",
		"time":       "> AT ${now+10}\nthen\n@advance 2s\n> AT ${now+10}\nlater\n",
		"repeat":     "> LONG ${rep:3:xy}\nlong\n",
		"capture":    "@capture v\n> ONE\n(integer) ${v}\n",
		"use":        "@capture v\n> TEXT\n~ .*\n> USE ${v}\nused\n",
		"skip":       "@skip redoubt\n> NOSUCH\nOK\n@only resp3\n> NOSUCH\nOK\n",
		"since":      "@since 99.0.0\n> ONE\n(integer) 1\n",
		"section":    "@begin skip mem\n> NOSUCH\nOK\n@end\n> ONE\n(integer) 1\n",
		"difference": "> ONE\n(integer) 1\nredis: docs/adr/1: for a reason\n(integer) 2\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := runText(t, 2, text); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRESP3(t *testing.T) {
	t.Parallel()
	right := "> MAP\n1) a\n2) (integer) 1\nresp3:\n1# a => (integer) 1\n2# b => 1~ (double) 1.5\n> NULL3\n(nil)\n"
	if err := runText(t, 3, right); err != nil {
		t.Error(err)
	}
	if err := runText(t, 3, "@unordered\n> MAP\n1# b => 1~ (double) 1.5\n2# a => (integer) 1\n"); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"> MAP\n1# a => (integer) 1\n2# b => (double) 1.5\n", "> NULL2\n(nil)\n"} {
		if runText(t, 3, wrong) == nil {
			t.Errorf("passes but should not: %q", wrong)
		}
	}
	if runText(t, 2, "> NULL3\n(nil)\n") == nil {
		t.Error("a null of RESP3 passes in RESP2")
	}
}

func TestWrongScriptsFail(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"value":      "> ONE\n(integer) 2\n",
		"type":       "> ONE\n1\n",
		"error":      "> NOSUCH\nOK\n",
		"prefix":     "> NOSUCH\n(error) ERR unknown\n",
		"pattern":    "> ONE\n~ \\(integer\\)\n",
		"too few":    "> LIST\n1) \"b\"\n",
		"too many":   "> ONE\n(integer) 1\n(integer) 1\n",
		"order":      "> LIST\n1) c\n2) \"b\"\n3) 1) (integer) 1\n   2) (nil)\n",
		"unordered":  "@unordered\n> LIST\n1) c\n2) \"b\"\n3) \"b\"\n",
		"nothing":    "> ONE\n",
		"stray":      "> TWICE\na\n",
		"difference": "> ONE\n(integer) 2\nredis: docs/adr/1: for a reason\n(integer) 1\n",
		"variable":   "> LONG ${nobody}\nlong\n",
		"closed":     "> BYE\nOK\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := runText(t, 2, text); err == nil {
				t.Errorf("passes but should not: %q", text)
			}
		})
	}
}

func TestMismatchNamesPlace(t *testing.T) {
	t.Parallel()
	err := runText(t, 2, "> ONE\n(integer) 1\n\n# so\n> ONE\n(integer) 7\n> LIST\n1) x\n")
	var m *Mismatch
	if !errors.As(err, &m) || m.Line != 5 || m.Command != "> ONE" || m.Got[0] != "(integer) 1" || m.Want[0] != "(integer) 7" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(err.Error(), "test:7: > LIST") {
		t.Errorf("the second wrong reply is not reported: %v", err)
	}
}

func TestMalformedScripts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"OK\n", "> \"open\nOK\n", "@nosuch\n> ONE\n", "@since\n> ONE\n", "@only mars\n> ONE\n", "@end\n", "@begin since 7.0.0\n",
		"@unordered\n", "@unordered\n@conn 2\n> ONE\n", "@advance soon\n", "> ONE\n~ (\n", "> ONE\n1\nredis:\n2\n",
		"> ONE\n1\nresp3: why\n2\n", "> ONE\n1\n@file since 7.0.0\n",
	} {
		if _, err := parse("test", text); err == nil {
			t.Errorf("parses but should not: %q", text)
		}
	}
}

func TestRecordRefusesRedoubt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.txt")
	const text = "> ONE\n(integer) 7\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	rec := &Recorder{Target: func(proto int) (*Target, error) { return fakeTarget(t, proto), nil }}
	_, err := rec.Record(load(t, "test/x", path))
	if !errors.Is(err, testserver.ErrRedoubt) {
		t.Errorf("got %v, want a refusal", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != text {
		t.Errorf("script is now %q, %v", after, err)
	}
}

// TestRecordedBlocks checks which expectations recording rewrites, without a
// server.
func TestRecordedBlocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, two, three, want string }{
		{"new", "", "OK", "OK", "OK"},
		{"same", "OK", "OK", "OK", "OK"},
		{"changed", "OK", "KO", "KO", "KO"},
		{"pattern stays", "~ .*", "KO", "OK", "~ .*"},
		{"resp3 added", "", "1", "(double) 1", "1|resp3:|(double) 1"},
		{"resp3 goes", "1|resp3:|(double) 2", "1", "1", "1"},
		{"difference stays", "OK|redis: adr 1|KO", "NO", "NO", "OK|redis: adr 1|NO"},
		{"difference in resp3", "OK|redis: adr 1|KO", "KO", "NO", "OK|redis: adr 1|KO|redis resp3: adr 1|NO"},
		{"resp3 only", "", "", "(true)", "(true)"},
	} {
		text := strings.TrimRight("> ONE\n"+strings.ReplaceAll(c.script, "|", "\n"), "\n")
		f, err := parse("test", text)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		lines := func(s string) []string {
			if s == "" {
				return nil
			}
			return []string{s}
		}
		s := f.steps[0]
		s.record(lines(c.two), lines(c.three), func(_ int, l string) string { return l })
		if got := strings.Join(appendBlocks(nil, s.expect), "|"); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOlderThan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"7.0.15", "7.2.0", true}, {"7.2.0", "7.0.15", false}, {"7.2.0", "7.2", false}, {"7.2", "7.10", true}, {"8.0.0", "7.4.1", false},
	} {
		if got := olderThan(c.a, c.b); got != c.want {
			t.Errorf("olderThan(%s, %s) = %v", c.a, c.b, got)
		}
	}
}
