package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// parse reads everything in pieces that are cut at the given offsets, as a
// connection does, and returns the commands and how it ended.
func parse(in []byte, r *Reader, cuts ...int) (cmds [][]string, left []byte, err error) {
	var buf []byte
	at := 0
	for _, cut := range append(cuts, len(in)) {
		buf = append(buf, in[at:cut]...)
		at = cut
		for {
			// A copy of exactly these bytes: reading behind them would panic.
			seen := slices.Clip(slices.Clone(buf))
			args, n, err := r.Next(seen)
			if err != nil {
				return cmds, buf, err
			}
			if n == 0 {
				break
			}
			if len(args) > 0 {
				words := make([]string, len(args))
				for i, a := range args {
					words[i] = string(a)
				}
				cmds = append(cmds, words)
			}
			buf = buf[n:]
		}
	}
	return cmds, buf, nil
}

func newReader() *Reader { return &Reader{MaxBulk: 512 << 20, Authenticated: true} }

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   string
		want string // as fmt prints it
		left string
	}{
		{"", "[]", ""},
		{"PING\r\n", `[["PING"]]`, ""},
		{"PING\n", `[["PING"]]`, ""},
		{"\r\n\n  \r\nPING\r\n", `[["PING"]]`, ""},
		{"PING", "[]", "PING"},
		{"PING\r", "[]", "PING\r"},
		{"*1\r\n$4\r\nPING\r\n", `[["PING"]]`, ""},
		{"*0\r\n*-1\r\n*-10\r\n*1\r\n$0\r\n\r\n", `[[""]]`, ""},
		{"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n", `[["GET" "\r\n"]]`, ""},
		{"*1\r\n$1\r\na??*1\r\n$1\r\nb\r\n", `[["a"] ["b"]]`, ""}, // Redis does not look at the end of an argument, either
		{"*2\r?$1\r?a\r\n$1\r\nb\r\n", `[["a" "b"]]`, ""},
		{"*2\r\n$3\r\nGET\r\n$100\r\nabc", "[]", "*2\r\n$3\r\nGET\r\n$100\r\nabc"},
		{"*12\r\n" + strings.Repeat("$1\r\nx\r\n", 12), `[["x" "x" "x" "x" "x" "x" "x" "x" "x" "x" "x" "x"]]`, ""},
		{"*1\r\n$10\r\n0123456789\r\nget k\r\n", `[["0123456789"] ["get" "k"]]`, ""},
	} {
		cmds, left, err := parse([]byte(test.in), newReader())
		if got := fmt.Sprintf("%q", cmds); err != nil || got != test.want || string(left) != test.left {
			t.Errorf("%q: %s, left %q, %v; want %s, left %q", test.in, got, left, err, test.want, test.left)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in     string
		r      Reader
		reason ProtocolError // empty: it is fine
	}{
		{"*1048576\r\n", Reader{MaxBulk: 10, Authenticated: true}, ""},
		{"*1048577\r\n", Reader{MaxBulk: 10, Authenticated: true}, "invalid multibulk length"},
		{"*1\r\n$10\r\n", Reader{MaxBulk: 10, Authenticated: true}, ""},
		{"*1\r\n$11\r\n", Reader{MaxBulk: 10, Authenticated: true}, "invalid bulk length"},
		{"*1\r\n$9223372036854775807\r\nx\r\n", Reader{MaxBulk: 1<<63 - 1, Authenticated: true}, ""},
		{"*10\r\n", Reader{MaxBulk: 1 << 20}, ""},
		{"*11\r\n", Reader{MaxBulk: 1 << 20}, "unauthenticated multibulk length"},
		{"*1\r\n$16384\r\n", Reader{MaxBulk: 1 << 20}, ""},
		{"*1\r\n$16385\r\n", Reader{MaxBulk: 1 << 20}, "unauthenticated bulk length"},
		{strings.Repeat("x", 65536), Reader{}, ""},
		{strings.Repeat("x", 65537), Reader{}, "too big inline request"},
		{"*" + strings.Repeat("1", 65535), Reader{}, ""},
		{"*" + strings.Repeat("1", 65536), Reader{}, "too big mbulk count string"},
		{"*1\r\n$" + strings.Repeat("1", 65535), Reader{}, ""},
		{"*1\r\n$" + strings.Repeat("1", 65536), Reader{}, "too big bulk count string"},
		{"*1\r\n?" + strings.Repeat("1", 65535), Reader{}, ""},
		{"*1\r\n?" + strings.Repeat("1", 65536), Reader{}, "too big bulk count string"},
	} {
		r := test.r
		_, _, err := parse([]byte(test.in), &r)
		if (test.reason == "") != (err == nil) || err != nil && err != error(test.reason) {
			t.Errorf("%.30q: %v, want %v", test.in, err, test.reason)
		}
	}
}

func TestNeed(t *testing.T) {
	t.Parallel()
	r := newReader()
	for _, test := range []struct {
		in   string
		want int
	}{
		{"*2\r\n", 0},
		{"*2\r\n$3\r\nGET\r\n", 0},
		{"*2\r\n$3\r\nGET\r\n$100\r\n", 0},
		{"*2\r\n$3\r\nGET\r\n$100000\r\n", 100024},
		{"*2\r\n$3\r\nGET\r\n$100000\r\nxxx", 100024},
	} {
		*r = Reader{MaxBulk: 1 << 30, Authenticated: true}
		if _, n, err := r.Next([]byte(test.in)); n != 0 || err != nil || r.Need() != test.want {
			t.Errorf("%q: %d, %v, need %d", test.in, n, err, r.Need())
		}
	}
	r = &Reader{MaxBulk: 1<<63 - 1, Authenticated: true}
	if _, _, err := r.Next([]byte("*1\r\n$9223372036854775807\r\n")); err != nil || r.Need() <= 0 {
		t.Errorf("%v, need %d", err, r.Need())
	}
}

// malformed is a row of testdata/malformed.json, recorded from a real Redis.
type malformed struct {
	In    string // Go syntax; a count in braces repeats: "x{70000}"
	Reply string // without the line end; empty: Redis waits for more
	Why   string // set where we answer otherwise, on purpose
	Ours  string
}

func loadMalformed(t testing.TB) (list []malformed) {
	text, err := os.ReadFile("testdata/malformed.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Redis string
		Rows  []malformed
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if file.Redis == "" || len(file.Rows) < 20 {
		t.Fatalf("%d rows of Redis %q", len(file.Rows), file.Redis)
	}
	return file.Rows
}

// Malformed input gets the very text that Redis sends.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, m := range loadMalformed(t) {
		in, err := expand(m.In)
		if err != nil {
			t.Fatalf("%s: %v", m.In, err)
		}
		want := m.Reply
		if m.Why != "" {
			want = m.Ours
		}
		_, _, err = parse(in, newReader())
		got := ""
		if err != nil {
			var w Writer
			w.Error(err.Error())
			got = fmt.Sprintf("%+q", strings.TrimSuffix(string(w.Buf), "\r\n"))
		}
		if got != want {
			t.Errorf("%s: %s, want %s", m.In, got, want)
		}
	}
}

// What was parsed must not depend on how the input was cut, and nothing may
// panic or read behind what is there.
func FuzzReader(f *testing.F) {
	for _, m := range loadMalformed(f) {
		if in, err := expand(m.In); err == nil && len(in) < 1000 {
			f.Add(in, uint64(1), true)
		}
	}
	for _, s := range []string{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n", "SET k \"a b\"\r\n*1\r\n$4\r\nPING\r\n", "*1\r\n$40000\r\nx"} {
		f.Add([]byte(s), uint64(7), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, auth bool) {
		fresh := func() *Reader { return &Reader{MaxBulk: 1 << 20, Authenticated: auth} }
		Peek(slices.Clip(slices.Clone(in)))
		whole, left, err := parse(in, fresh())
		var cuts []int
		for at := 0; at < len(in); {
			seed = seed*6364136223846793005 + 1442695040888963407
			at += 1 + int(seed>>33%7)
			if at < len(in) {
				cuts = append(cuts, at)
			}
		}
		pieces, left2, err2 := parse(in, fresh(), cuts...)
		if fmt.Sprintf("%q", whole) != fmt.Sprintf("%q", pieces) {
			t.Fatalf("whole %q, in pieces %q", whole, pieces)
		}
		if fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("whole %v, in pieces %v", err, err2)
		}
		if err == nil && !bytes.Equal(left, left2) {
			t.Fatalf("left %q, in pieces %q", left, left2)
		}
		// Whatever was parsed can be sent again.
		var w Writer
		for _, cmd := range whole {
			w.Array(len(cmd))
			for _, a := range cmd {
				w.BulkString(a)
			}
		}
		r := newReader()
		again, _, err := parse(w.Buf, r)
		if err != nil || fmt.Sprintf("%q", again) != fmt.Sprintf("%q", whole) {
			t.Fatalf("%q became %q, %v", whole, again, err)
		}
	})
}

func TestPeek(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, name, first string }{
		{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "GET", "k"},
		{"*3\r\n$3\r\nSET\r\n$2\r\nkk\r\n$1", "SET", "kk"},
		{"*1\r\n$4\r\nPING\r\n", "PING", ""},
		{"*2\r\n$3\r\nGET\r\n$1\r\nk", "GET", ""},
		{"*2\r\n$3\r\nGET\r\n$99999999999999999999\r\nk\r\n", "GET", ""},
		{"*2\r\n$3\r\nGE", "", ""},
		{"GET k\r\n", "", ""},
		{"*", "", ""},
		{"\n", "", ""},
	} {
		if name, first := Peek([]byte(test.in)); string(name) != test.name || string(first) != test.first {
			t.Errorf("%q: %q %q", test.in, name, first)
		}
	}
}

// A Reader that was told to forget what it began starts again with the same
// result.
func TestReset(t *testing.T) {
	t.Parallel()
	in := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n")
	for cut := range in {
		r := newReader()
		if _, n, err := r.Next(in[:cut]); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		r.Reset()
		args, n, err := r.Next(in)
		if n != len(in) || err != nil || len(args) != 3 {
			t.Errorf("cut at %d: %q, %d, %v", cut, args, n, err)
		}
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	r := newReader()
	many := []byte("*5000\r\n" + strings.Repeat("$1\r\nx\r\n", 5000))
	args, _, err := r.Next(many)
	if err != nil || len(args) != 5000 {
		t.Fatal(err)
	}
	r.Forget()
	if cap(r.args) > maxArgsPrealloc || cap(r.bounds) > 2*maxArgsPrealloc {
		t.Errorf("%d and %d are kept", cap(r.args), cap(r.bounds))
	}
	// In the midst of a frame it must not forget that one.
	if _, _, err := r.Next([]byte("*2\r\n$1\r\na\r\n")); err != nil {
		t.Fatal(err)
	}
	r.Forget()
	if args, _, err := r.Next([]byte("*2\r\n$1\r\na\r\n$1\r\nb\r\n")); err != nil || fmt.Sprintf("%s", args) != "[a b]" {
		t.Errorf("%s, %v", args, err)
	}
}

// A command that would be too large is refused before its bytes have come, however they are
// cut.
func TestMaxFrame(t *testing.T) {
	in := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\n"
	size := int64(len(in) + 1000 + 2)
	for cut := range len(in) {
		r := Reader{MaxBulk: 1 << 20, Authenticated: true, MaxFrame: size - 1}
		if _, n, err := r.Next([]byte(in[:cut])); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if _, _, err := r.Next([]byte(in)); err != (TooLarge{size, size - 1}) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		r = Reader{MaxBulk: 1 << 20, Authenticated: true, MaxFrame: size}
		if _, n, err := r.Next([]byte(in)); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}
}
