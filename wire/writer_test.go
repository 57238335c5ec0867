package wire_test

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/wire"
)

func TestWriter(t *testing.T) {
	t.Parallel()
	huge, _ := new(big.Int).SetString("-123456789012345678901234567890", 10)
	for _, test := range []struct {
		write        func(*wire.Writer)
		resp2, resp3 string // the second only where it differs
	}{
		{func(w *wire.Writer) { w.Status("PONG") }, "+PONG\r\n", ""},
		{func(w *wire.Writer) { w.OK() }, "+OK\r\n", ""},
		{func(w *wire.Writer) { w.Error("ERR a\r\nb\n") }, "-ERR a  b \r\n", ""},
		{func(w *wire.Writer) { w.Int(0) }, ":0\r\n", ""},
		{func(w *wire.Writer) { w.Int(1) }, ":1\r\n", ""},
		{func(w *wire.Writer) { w.Int(-1) }, ":-1\r\n", ""},
		{func(w *wire.Writer) { w.Int(10) }, ":10\r\n", ""},
		{func(w *wire.Writer) { w.Int(math.MinInt64) }, ":-9223372036854775808\r\n", ""},
		{func(w *wire.Writer) { w.Int(math.MaxInt64) }, ":9223372036854775807\r\n", ""},
		{func(w *wire.Writer) { w.Bulk(nil) }, "$0\r\n\r\n", ""},
		{func(w *wire.Writer) { w.Bulk([]byte("a\r\n\x00")) }, "$4\r\na\r\n\x00\r\n", ""},
		{func(w *wire.Writer) { w.BulkString(strings.Repeat("x", 100)) }, "$100\r\n" + strings.Repeat("x", 100) + "\r\n", ""},
		{func(w *wire.Writer) { w.BulkHead(2); w.Buf = append(w.Buf, "ab"...); w.BulkEnd() }, "$2\r\nab\r\n", ""},
		{func(w *wire.Writer) { w.BulkInt(-12) }, "$3\r\n-12\r\n", ""},
		{func(w *wire.Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{func(w *wire.Writer) { w.NullArray() }, "*-1\r\n", "_\r\n"},
		{func(w *wire.Writer) { w.Array(0) }, "*0\r\n", ""},
		{func(w *wire.Writer) { w.Array(12) }, "*12\r\n", ""},
		{func(w *wire.Writer) { w.Map(6) }, "*12\r\n", "%6\r\n"},
		{func(w *wire.Writer) { w.Set(3) }, "*3\r\n", "~3\r\n"},
		{func(w *wire.Writer) { w.Push(3) }, "*3\r\n", ">3\r\n"},
		{func(w *wire.Writer) { w.Bool(true) }, ":1\r\n", "#t\r\n"},
		{func(w *wire.Writer) { w.Bool(false) }, ":0\r\n", "#f\r\n"},
		{func(w *wire.Writer) { w.Double(1.5) }, "$3\r\n1.5\r\n", ",1.5\r\n"},
		{func(w *wire.Writer) { w.Double(3) }, "$1\r\n3\r\n", ",3\r\n"},
		{func(w *wire.Writer) { w.Double(math.Inf(1)) }, "$3\r\ninf\r\n", ",inf\r\n"},
		{func(w *wire.Writer) { w.Double(math.Inf(-1)) }, "$4\r\n-inf\r\n", ",-inf\r\n"},
		{func(w *wire.Writer) { w.BigNumber(huge) }, "$31\r\n-123456789012345678901234567890\r\n", "(-123456789012345678901234567890\r\n"},
		{func(w *wire.Writer) { w.Verbatim("txt", "a\nb") }, "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"},
	} {
		for proto, want := range map[int]string{2: test.resp2, 3: test.resp3} {
			if want == "" {
				want = test.resp2
			}
			w := wire.Writer{Buf: []byte("before"), Proto: proto}
			test.write(&w)
			if got := string(w.Buf); got != "before"+want {
				t.Errorf("RESP%d: got %q, want %q", proto, got, want)
			}
		}
	}
}

// What the writer writes, a client reads.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("a"), int64(5), 1.5, uint8(9))
	f.Add([]byte("\r\n"), int64(math.MinInt64), math.Inf(-1), uint8(255))
	f.Fuzz(func(t *testing.T, text []byte, n int64, x float64, shape uint8) {
		if math.IsNaN(x) {
			return
		}
		for _, proto := range []int{2, 3} {
			w := wire.Writer{Proto: proto}
			var want []string
			w.Array(8)
			w.Bulk(text)
			want = append(want, respclient.Quote(string(text)))
			w.Int(n)
			want = append(want, fmt.Sprintf("(integer) %d", n))
			w.Error("ERR " + string(text))
			w.Null()
			w.Map(1)
			w.BulkInt(n)
			w.Verbatim("txt", string(text))
			w.Double(x)
			w.Set(int(shape % 3))
			for range shape % 3 {
				w.Bool(true)
			}
			w.NullArray()
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Write(w.Buf) // the reader may have failed
				theirs.Close()
			}()
			c := respclient.New(ours)
			c.Timeout = 5 * time.Second
			v, err := c.Read()
			c.Close()
			if err != nil {
				t.Fatalf("%q: %v", w.Buf, err)
			}
			if !bytes.Equal(c.Raw(), w.Buf) || len(v.Elems) != 8 || !v.Fits(proto) {
				t.Fatalf("%q is read as %s", w.Buf, v)
			}
			if len(text) <= 512 && v.Elems[0].String() != want[0] || v.Elems[1].String() != want[1] || !v.Elems[2].IsError() {
				t.Fatalf("%q is read as %s", w.Buf, v)
			}
		}
	})
}
