// Package testmaster is a master of Redis's replication for tests: it answers the handshake,
// sends an RDB file and a stream, and can cut each connection at any byte, lie, or fail over.
package testmaster

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/rdb"
)

// Master is a master. Its fields may be changed by Set.
type Master struct {
	Addr string

	l     net.Listener
	mu    sync.Mutex
	conns map[*conn]bool
	o     Options
	log   []byte // the stream since the offset 0
	acked int64
	fulls int // full synchronizations
	goOns int
	seen  []string // commands of replicas, but for REPLCONF ACK
}

// Options of a Master.
type Options struct {
	ID, ID2  string // ID2 is accepted, too, up to the offset Second
	Second   int64
	File     []byte // the RDB file, which is the data at the offset Base
	Base     int64
	EOF      bool   // the transfer has a mark and no length
	Password string // AUTH is needed
	// Answer, if set, may answer a command with other bytes.
	Answer func(args []string) (reply []byte, ok bool)
	// Cut closes each connection after so many bytes; 0 does not.
	Cut int
	// Forgets: no replica may go on where it was.
	Forgets bool
}

// Start starts a master that is stopped at the end of the test.
func Start(t testing.TB, o Options) *Master {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.ID == "" {
		o.ID = strings.Repeat("a1", 20)
	}
	m := &Master{Addr: l.Addr().String(), l: l, o: o, conns: make(map[*conn]bool), log: make([]byte, o.Base)}
	go m.accept()
	t.Cleanup(func() { l.Close(); m.CloseAll() })
	return m
}

// Host and Port are the arguments of REPLICAOF.
func (m *Master) Host() string { return "127.0.0.1" }
func (m *Master) Port() string { return m.Addr[strings.LastIndexByte(m.Addr, ':')+1:] }

// Set changes options, and closes all connections.
func (m *Master) Set(f func(*Options)) {
	m.mu.Lock()
	f(&m.o)
	m.mu.Unlock()
	m.CloseAll()
}

// CloseAll closes all connections.
func (m *Master) CloseAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		c.Close()
	}
}

// Send adds commands, one per line with words between spaces, to the stream.
func (m *Master) Send(lines ...string) {
	var b []byte
	for _, l := range lines {
		b = respclient.AppendCommand(b, strings.Fields(l)...)
	}
	m.Write(b)
}

// Write adds bytes to the stream.
func (m *Master) Write(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, b...)
	for c := range m.conns {
		if c.streams {
			c.write(b)
		}
	}
}

// Offset is that of the end of the stream.
func (m *Master) Offset() int64 { m.mu.Lock(); defer m.mu.Unlock(); return int64(len(m.log)) }

// End is Offset for a function that Set calls.
func (m *Master) End() int64 { return int64(len(m.log)) }

// Acked is the last offset that a replica has acknowledged.
func (m *Master) Acked() int64 { m.mu.Lock(); defer m.mu.Unlock(); return m.acked }

// Syncs is how many replicas got all data, and how many went on.
func (m *Master) Syncs() (fulls, goOns int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fulls, m.goOns
}

// Seen are the commands that replicas have sent.
func (m *Master) Seen() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.seen...)
}

type conn struct {
	net.Conn
	left    int // bytes until the cut, -1 for none
	streams bool
}

// write writes what may be written before the cut.
func (c *conn) write(b []byte) {
	if c.left >= 0 && len(b) >= c.left {
		c.Conn.Write(b[:c.left])
		c.left = 0
		c.Close()
		return
	}
	if c.left >= 0 {
		c.left -= len(b)
	}
	c.Conn.Write(b)
}

func (m *Master) accept() {
	for {
		raw, err := m.l.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		c := &conn{Conn: raw, left: -1}
		if m.o.Cut > 0 {
			c.left = m.o.Cut
		}
		m.conns[c] = true
		m.mu.Unlock()
		go m.serve(c)
	}
}

func (m *Master) serve(c *conn) {
	defer func() {
		m.mu.Lock()
		delete(m.conns, c)
		m.mu.Unlock()
		c.Close()
	}()
	in := bufio.NewReader(c)
	authenticated := false
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		if len(args) == 0 {
			continue
		}
		m.mu.Lock()
		m.answer(c, args, &authenticated)
		m.mu.Unlock()
	}
}

func (m *Master) answer(c *conn, args []string, authenticated *bool) {
	name := strings.ToLower(args[0])
	if name == "replconf" && strings.EqualFold(args[1], "ack") {
		m.acked, _ = strconv.ParseInt(args[2], 10, 64)
		return
	}
	m.seen = append(m.seen, strings.Join(args, " "))
	if m.o.Answer != nil {
		if b, ok := m.o.Answer(args); ok {
			c.write(b)
			return
		}
	}
	switch {
	case name == "auth" && args[len(args)-1] == m.o.Password:
		*authenticated = true
		c.write([]byte("+OK\r\n"))
	case name == "auth":
		c.write([]byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n"))
	case m.o.Password != "" && !*authenticated:
		c.write([]byte("-NOAUTH Authentication required.\r\n"))
	case name == "ping":
		c.write([]byte("+PONG\r\n"))
	case name == "replconf":
		c.write([]byte("+OK\r\n"))
	case name == "psync":
		m.psync(c, args)
	default:
		c.write([]byte("-ERR unknown command\r\n"))
	}
}

func (m *Master) psync(c *conn, args []string) {
	from, _ := strconv.ParseInt(args[2], 10, 64)
	from--
	known := args[1] == m.o.ID || args[1] == m.o.ID2 && from <= m.o.Second
	if known && !m.o.Forgets && from >= m.o.Base && from <= int64(len(m.log)) {
		m.goOns++
		c.write([]byte("+CONTINUE " + m.o.ID + "\r\n"))
		c.streams = true
		c.write(m.log[from:])
		return
	}
	m.fulls++
	c.write(fmt.Appendf(nil, "+FULLRESYNC %s %d\r\n\n\n", m.o.ID, m.o.Base))
	mark := strings.Repeat("0123456789", 4)
	if m.o.EOF {
		c.write([]byte("$EOF:" + mark + "\r\n"))
		c.write(m.o.File)
		c.write([]byte(mark))
	} else {
		c.write(fmt.Appendf(nil, "$%d\r\n", len(m.o.File)))
		c.write(m.o.File)
	}
	c.streams = true
	c.write(m.log[m.o.Base:])
}

// readCommand reads a command; an empty line is none.
func readCommand(in *bufio.Reader) ([]string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" || line[0] != '*' {
		return nil, nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		head, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(strings.TrimRight(head[1:], "\r\n"))
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		for at := 0; at < len(b); {
			k, err := in.Read(b[at:])
			if err != nil {
				return nil, err
			}
			at += k
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

// File makes an RDB file of strings in database 0.
func File(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := rdb.NewWriter(&b, rdb.VersionRedis70)
	w.Aux("redis-ver", "7.0.15")
	w.Database(0, int64(len(pairs)/2), 0)
	for i := 0; i < len(pairs); i += 2 {
		w.Key([]byte(pairs[i]), 0).String([]byte(pairs[i+1]))
		if err := w.EndKey(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Wait waits until ok reports true.
func Wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
