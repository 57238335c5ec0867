package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// serve answers the commands of one link with the lines of a script, and then with rest.
func serve(t *testing.T, script []string, rest string) Options {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 4096)
		for _, line := range script {
			if _, err := c.Read(b); err != nil {
				return
			}
			if _, err := io.WriteString(c, line); err != nil {
				return
			}
		}
		if _, err := io.WriteString(c, rest); err == nil {
			_, _ = io.Copy(io.Discard, c) // until the link closes it
		}
	}()
	return Options{Addr: l.Addr().String(), Port: 1, Timeout: 10 * time.Second}
}

var id = strings.Repeat("0f", 20)

// A file with a mark may contain the mark's beginning; what is behind the mark is the stream.
func TestPayloadWithMark(t *testing.T) {
	t.Parallel()
	mark := strings.Repeat("m", 40)
	o := serve(t, []string{"+PONG\r\n", "+OK\r\n", "+OK\r\n", "\n\n+FULLRESYNC " + id + " 7\r\n"}, "\n\n$EOF:"+mark+"\r\nfile"+mark+"*1\r\n$4\r\nping\r\n")
	l, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := l.Sync("", 0)
	if err != nil || a != (Answer{true, id, 7}) {
		t.Fatalf("%+v, %v", a, err)
	}
	p, err := l.Payload()
	if err != nil || p.Size != -1 {
		t.Fatalf("%+v, %v", p, err)
	}
	b := make([]byte, 10) // the reader of the file has read too much
	if _, err := io.ReadFull(p, b); err != nil {
		t.Fatal(err)
	}
	if err := p.End(io.MultiReader(strings.NewReader(string(b[4:])), p)); err != nil {
		t.Fatal(err)
	}
	units, err := l.Stream(a.Offset).Next()
	if err != nil || len(units) != 1 || units[0].End != 21 {
		t.Errorf("%v, %v", units, err)
	}
}

// A master that says nothing, and a context that ends, end every wait.
func TestSilentMaster(t *testing.T) {
	t.Parallel()
	o := serve(t, nil, "")
	o.Timeout = 20 * time.Millisecond
	if _, err := Dial(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has sent nothing for 20ms") {
		t.Errorf("silence: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o = serve(t, []string{"+PONG\r\n"}, "")
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := Dial(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends: %v", err)
	}
}

// Nobody can be made to wait for what is not a number, nor take what is not an id.
func FuzzAnswer(f *testing.F) {
	f.Add("+FULLRESYNC " + id + " 1\r\n$3\r\nabc")
	f.Add("+CONTINUE\r\n")
	f.Add("-ERR\r\n")
	f.Add("$EOF:x\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			b := make([]byte, 4096)
			if _, err := there.Read(b); err == nil {
				_, _ = io.WriteString(there, text)
			}
		}()
		l := newLink(here, Options{Timeout: time.Minute})
		defer l.Close()
		a, err := l.Sync("", 0)
		if err != nil {
			return
		}
		if !validID(a.ID) || a.Offset < 0 {
			t.Fatalf("%+v", a)
		}
		p, err := l.Payload()
		if err == nil && p.Size == 0 {
			t.Fatal("an empty file")
		}
	})
}
