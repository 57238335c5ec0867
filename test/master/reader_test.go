package master

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
)

// patience is how long a test waits for something that is about to happen. It serves only to
// show where a test hangs.
const patience = 15 * time.Second

// reader is a replica that keeps nothing: it reads the stream as it is.
type reader struct {
	t      testing.TB
	conn   net.Conn
	in     *bufio.Reader
	id     string
	offset int64 // of what was read
	rdb    []byte
	psync  string // the answer to PSYNC
	direct bool   // the snapshot came without its length
}

// connect connects to a master and tells what the reader is able to.
func connect(t testing.TB, addr string, about ...string) *reader {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &reader{t: t, conn: conn, in: bufio.NewReader(conn)}
	r.expire()
	r.send(append([]string{"REPLCONF"}, about...)...)
	if line := r.line(); line != "+OK" {
		t.Fatalf("REPLCONF: %s", line)
	}
	return r
}

func (r *reader) expire() { _ = r.conn.SetDeadline(time.Now().Add(patience)) }

func (r *reader) send(args ...string) {
	r.t.Helper()
	if _, err := r.conn.Write(respclient.AppendCommand(nil, args...)); err != nil {
		r.t.Fatal(err)
	}
}

// line reads a line that is not empty.
func (r *reader) line() string {
	r.t.Helper()
	for {
		line, err := r.in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("reading the master's answer: %v", err)
		}
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			return line
		}
	}
}

// full makes the reader a replica and reads the snapshot.
func (r *reader) full() {
	r.t.Helper()
	r.send("PSYNC", "?", "-1")
	r.psync = r.line()
	f := strings.Fields(r.psync)
	if len(f) != 3 || f[0] != "+FULLRESYNC" {
		r.t.Fatalf("PSYNC: %s", r.psync)
	}
	r.id = f[1]
	r.offset, _ = strconv.ParseInt(f[2], 10, 64)
	r.snapshot()
	r.ack()
}

// snapshot reads an RDB file in either form.
func (r *reader) snapshot() {
	r.t.Helper()
	head := r.line()
	if mark, ok := strings.CutPrefix(head, "$EOF:"); ok {
		r.direct = true
		for !strings.HasSuffix(string(r.rdb[max(0, len(r.rdb)-len(mark)):]), mark) {
			b, err := r.in.ReadByte()
			if err != nil {
				r.t.Fatalf("reading a snapshot: %v", err)
			}
			r.rdb = append(r.rdb, b)
		}
		r.rdb = r.rdb[:len(r.rdb)-len(mark)]
		return
	}
	n, err := strconv.Atoi(strings.TrimPrefix(head, "$"))
	if err != nil {
		r.t.Fatalf("the head of a snapshot: %q", head)
	}
	r.rdb = make([]byte, n)
	if _, err := io.ReadFull(r.in, r.rdb); err != nil {
		r.t.Fatalf("reading a snapshot: %v", err)
	}
}

func (r *reader) ack() { r.send("REPLCONF", "ACK", strconv.FormatInt(r.offset, 10)) }

// next reads a command of the stream.
func (r *reader) next() ([]string, error) {
	head, err := r.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(head, "*"), "\r\n"))
	if err != nil || head[0] != '*' {
		return nil, fmt.Errorf("no command: %q", head)
	}
	read := int64(len(head))
	args := make([]string, n)
	for i := range args {
		if head, err = r.in.ReadString('\n'); err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(head, "$"), "\r\n"))
		if err != nil {
			return nil, fmt.Errorf("no argument: %q", head)
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r.in, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
		read += int64(len(head)) + int64(len(b))
	}
	r.offset += read
	if len(args) == 3 && args[0] == "REPLCONF" && args[1] == "GETACK" {
		r.ack()
	}
	return args, nil
}

// until reads commands up to SET with a key, which is left out, as are PING and REPLCONF.
func (r *reader) until(key string) (list [][]string) {
	r.t.Helper()
	r.expire()
	for {
		args, err := r.next()
		if err != nil {
			r.t.Fatalf("reading the stream up to SET %s: %v, after %q", key, err, list)
		}
		switch {
		case len(args) > 1 && args[0] == "SET" && args[1] == key:
			return list
		case args[0] == "PING" || args[0] == "REPLCONF":
		default:
			list = append(list, args)
		}
	}
}
