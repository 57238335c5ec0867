package respclient

import (
	"net"
	"strings"
	"testing"
	"time"
)

// reply reads what a server that sends these bytes and hangs up answers.
func reply(t *testing.T, wire string) (Value, string, error) {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		_, _ = theirs.Write([]byte(wire)) // the reader may have enough earlier
		theirs.Close()
	}()
	c := New(ours)
	c.Timeout = 5 * time.Second
	defer c.Close()
	v, err := c.Read()
	return v, string(c.Raw()), err
}

func TestRender(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wire, want string
		fits       int // 2, 3 or 5 for both
	}{
		{"+OK\r\n", "OK", 5},
		{"+ two \r\n", `" two "`, 5},
		{"-ERR no\r\n", "(error) ERR no", 5},
		{":-5\r\n", "(integer) -5", 5},
		{"$0\r\n\r\n", `""`, 5},
		{"$6\r\na\r\n\xff\"\\\r\n", `"a\r\n\xff\"\\"`, 5},
		{"$-1\r\n", "(nil)", 2},
		{"*-1\r\n", "(nil array)", 2},
		{"_\r\n", "(nil)", 3},
		{"*0\r\n", "(empty array)", 5},
		{"*2\r\n:1\r\n*1\r\n+x\r\n", "1) (integer) 1\n2) 1) x", 5},
		{"*10\r\n" + strings.Repeat(":1\r\n", 10), " 1) (integer) 1\n 2) (integer) 1\n 3) (integer) 1\n 4) (integer) 1\n" +
			" 5) (integer) 1\n 6) (integer) 1\n 7) (integer) 1\n 8) (integer) 1\n 9) (integer) 1\n10) (integer) 1", 5},
		{"%1\r\n$1\r\nk\r\n,1.5\r\n", `1# "k" => (double) 1.5`, 3},
		{"%1\r\n$1\r\nk\r\n*2\r\n#t\r\n#f\r\n", "1# \"k\" =>\n   1) (true)\n   2) (false)", 3},
		{"%0\r\n", "(empty hash)", 3},
		{"~2\r\n:1\r\n(99\r\n", "1~ (integer) 1\n2~ (big number) 99", 3},
		{">1\r\n+m\r\n", "1> m", 3},
		{"=7\r\ntxt:abc\r\n", `(verbatim txt) "abc"`, 3},
		{"!5\r\nERR x\r\n", `(bulk error) "ERR x"`, 3},
		{"*2\r\n_\r\n$-1\r\n", "1) (nil)\n2) (nil)", 0},
		{"$600\r\n" + strings.Repeat("a", 600) + "\r\n", "(bulk 600 bytes sha256 ba35c170729417f1)", 5},
	} {
		v, raw, err := reply(t, c.wire+"+more\r\n")
		if err != nil {
			t.Errorf("%.40q: %v", c.wire, err)
			continue
		}
		if raw != c.wire {
			t.Errorf("%.40q: raw bytes are %q", c.wire, raw)
		}
		if got := v.String(); got != c.want {
			t.Errorf("%.40q: got %s, want %s", c.wire, got, c.want)
		}
		if v.Fits(2) != (c.fits == 2 || c.fits == 5) || v.Fits(3) != (c.fits == 3 || c.fits == 5) {
			t.Errorf("%.40q: fits RESP2 %v, RESP3 %v", c.wire, v.Fits(2), v.Fits(3))
		}
	}
}

func TestMalformedReplies(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{
		"", "+OK", "+OK\n", "+a\rb\r\n", "?x\r\n", "\r\n", ":x\r\n", "$x\r\n", "$3\r\nabcd\r\n", "$3\r\nab", "*2\r\n:1\r\n", "#x\r\n", "%-1\r\n", "*-2\r\n",
	} {
		if v, _, err := reply(t, wire); err == nil {
			t.Errorf("%q is read as %s", wire, v)
		}
	}
}

func TestAppendCommand(t *testing.T) {
	t.Parallel()
	if got := string(AppendCommand(nil, "SET", "k", "")); got != "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n" {
		t.Errorf("got %q", got)
	}
}
