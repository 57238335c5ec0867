package migrate

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"
)

// target is a connection to a server that takes keys. Errors of writing stay until
// flush.
type target struct {
	conn    net.Conn
	r       *bufio.Reader
	w       *bufio.Writer
	timeout time.Duration // for each step
	db      int64         // the selected database, -1 if unknown
	err     error
	idle    *time.Timer // closes a kept connection
}

// sendSize is how much is sent in one step.
const sendSize = 64 << 10

func newTarget(conn net.Conn, timeout time.Duration) *target {
	t := &target{conn: conn, timeout: timeout, db: -1, r: bufio.NewReaderSize(conn, 4<<10)}
	t.w = bufio.NewWriterSize(t, sendSize)
	return t
}

// Write sends b in parts of sendSize, with the timeout for each part.
func (t *target) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		if err = t.conn.SetWriteDeadline(time.Now().Add(t.timeout)); err == nil {
			k, err = t.conn.Write(b[n:min(len(b), n+sendSize)])
		}
		n += k
	}
	return n, err
}

func (t *target) begin(args int) { t.head('*', args) }

func (t *target) arg(b []byte) {
	t.head('$', len(b))
	t.put(b)
	t.put([]byte("\r\n"))
}

func (t *target) head(kind byte, n int) {
	var b [32]byte
	t.put(append(strconv.AppendInt(append(b[:0], kind), int64(n), 10), '\r', '\n'))
}

func (t *target) put(b []byte) {
	if t.err == nil {
		_, t.err = t.w.Write(b)
	}
}

func (t *target) flush() error {
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return errors.Join(errWrite, t.err)
	}
	return nil
}

// line reads a reply of one line, which is not empty.
func (t *target) line() (string, error) {
	err := t.conn.SetReadDeadline(time.Now().Add(t.timeout))
	var b []byte
	if err == nil {
		b, err = t.r.ReadSlice('\n')
	}
	if err == nil && (len(b) < 3 || b[len(b)-2] != '\r') {
		err = errors.New("malformed reply")
	}
	if err != nil {
		return "", errors.Join(errRead, err)
	}
	return string(b[:len(b)-2]), nil
}

func (t *target) close() {
	_ = t.conn.Close() // an error has no consequence
}

// targets are connections kept for the next migration to the same server.
type targets struct {
	mu   sync.Mutex
	list map[string]*target
}

const (
	maxTargets = 64
	keepTarget = 10 * time.Second
)

// take removes and returns a kept connection, or nil.
func (s *targets) take(addr string) *target {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.list[addr]
	if t != nil {
		t.idle.Stop()
		delete(s.list, addr)
	}
	return t
}

// keep keeps a connection for a while.
func (s *targets) keep(addr string, t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list[addr] != nil || len(s.list) >= maxTargets {
		t.close()
		return
	}
	if s.list == nil {
		s.list = make(map[string]*target)
	}
	s.list[addr] = t
	t.idle = time.AfterFunc(keepTarget, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.list[addr] == t {
			delete(s.list, addr)
			t.close()
		}
	})
}

// count returns how many connections are kept.
func (s *targets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

// close closes the kept connections.
func (s *targets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, t := range s.list {
		t.idle.Stop()
		t.close()
		delete(s.list, addr)
	}
}
