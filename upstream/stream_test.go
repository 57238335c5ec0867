package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"redoubt/internal/respclient"
)

// text is a stream as text, up to its error.
func text(s *Stream) (string, error) {
	var b strings.Builder
	for {
		units, err := s.Next()
		if err != nil {
			return b.String(), err
		}
		for _, u := range units {
			if u.Atomic {
				b.WriteString("multi ")
			}
			for _, args := range u.Commands {
				fmt.Fprintf(&b, "%q ", args)
			}
			fmt.Fprintf(&b, "%d\n", u.End)
		}
	}
}

func command(words ...string) []byte { return respclient.AppendCommand(nil, words...) }

// However a stream is cut into reads, its units and their offsets are the same.
func TestStream(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 300_000)
	var in []byte
	var want strings.Builder
	add := func(shown string, parts ...[]byte) {
		in = append(in, bytes.Join(parts, nil)...)
		fmt.Fprintf(&want, "%s %d\n", shown, 100+len(in))
	}
	add(`["set" "a" "1"]`, command("set", "a", "1"))
	add(fmt.Sprintf(`multi ["incr" "n"] ["set" "large" %q]`, large), command("MULTI"), command("incr", "n"), command("set", "large", large), command("exec"))
	in = append(in, "\n\r\n*0\r\n"...)
	add("multi", command("Multi"), command("EXEC"))
	add(fmt.Sprintf(`["set" "b" %q]`, large), command("set", "b", large))
	add(`["ping"]`, command("ping"))
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(in), "halves": iotest.HalfReader(bytes.NewReader(in)), "with its end": iotest.DataErrReader(bytes.NewReader(in)),
	} {
		got, err := text(NewStream(r, 100))
		if got != want.String() || !errors.Is(err, errClosed) {
			t.Errorf("%s: %d bytes, want %d, %v", name, len(got), want.Len(), err)
			if len(got) < 2000 {
				t.Error(got)
			}
		}
	}
	small := append(command("set", "a", "1"), command("incr", "n")...)
	if got, _ := text(NewStream(iotest.OneByteReader(bytes.NewReader(small)), 0)); got != "[\"set\" \"a\" \"1\"] 27\n[\"incr\" \"n\"] 48\n" {
		t.Errorf("byte by byte: %s", got)
	}
}

// A stream that ends within a command or a transaction does not pass on its part.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	whole := bytes.Join([][]byte{command("set", "a", "1"), command("multi"), command("incr", "n"), command("exec")}, nil)
	for n := range len(whole) {
		got, err := text(NewStream(bytes.NewReader(whole[:n]), 0))
		if strings.Contains(got, "incr") || (n >= 27) != strings.Contains(got, "set") {
			t.Errorf("after %d bytes: %s", n, got)
		}
		if clean := n == 0 || n == 27; clean != errors.Is(err, errClosed) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// FuzzStream: what a master may send ends with an error, costs memory in proportion to its
// length, and gives the same units however it is cut into reads.
func FuzzStream(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nping\r\n"), uint8(3))
	f.Add(bytes.Join([][]byte{command("multi"), command("set", "a", "1"), command("exec")}, nil), uint8(1))
	f.Add([]byte("*1048576\r\n$1073741824\r\n"), uint8(0))
	f.Add([]byte("\n*0\r\n*-1\r\nset a 1\r\n"), uint8(7))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, err := text(NewStream(bytes.NewReader(in), 5))
		cut, cutErr := text(NewStream(&chunks{in, int(size)%16 + 1}, 5))
		if whole != cut || (err == nil) != (cutErr == nil) {
			t.Fatalf("%q, %v\n%q, %v", whole, err, cut, cutErr)
		}
	})
}

// chunks reads n bytes at a time.
type chunks struct {
	b []byte
	n int
}

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.b[:min(c.n, len(c.b))])
	c.b = c.b[n:]
	return n, nil
}
