// Package upstream speaks Redis's replication protocol as a replica: it dials a master,
// authenticates, asks to go on at an offset or for all data (PSYNC), reads the RDB file that
// comes then, and cuts the stream of commands into units that must be applied as one. It knows
// neither stores nor commands.
//
// The package promises: offsets count bytes exactly as the master does; a transaction is passed
// on as a whole or not at all; what a master sends costs memory as it arrives, not as it is
// announced; every wait ends after Options.Timeout or when the context ends.
package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/number"
)

// Options of a Link.
type Options struct {
	Addr string      // host:port
	TLS  *tls.Config // nil: no TLS
	// User and Password are sent if Password is not empty; without a User the master takes
	// the default one.
	User, Password string
	// Port is the port that the master shows for this replica, and Host its address; the
	// master finds the address out if Host is empty.
	Port int
	Host string
	// Timeout is how long the master may send nothing.
	Timeout time.Duration
	// Progress, if set, is called when the next stage begins.
	Progress func(Stage)
}

// Stage is a stage in the life of a Link.
type Stage string

// The stages, with the names of ROLE.
const (
	Connecting Stage = "connecting"
	Handshake  Stage = "handshake"
	Transfer   Stage = "sync"
	Connected  Stage = "connected"
)

// Link is a connection with a master. It is for one goroutine, but for Ack, KeepAlive, LastIO,
// Received and Close.
type Link struct {
	o    Options
	conn net.Conn
	in   io.Reader
	head *bufio.Reader // for lines, in front of the stream

	received atomic.Int64 // bytes
	lastIO   atomic.Int64 // when the master last sent something, in Unix nanoseconds

	writing sync.Mutex
	done    func() bool // ends the watch of the context
}

// Dial connects to a master and introduces this replica. The link is closed when ctx ends.
func Dial(ctx context.Context, o Options) (*Link, error) {
	if o.Progress != nil {
		o.Progress(Connecting)
	}
	dialer := net.Dialer{Timeout: o.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	l := newLink(conn, o)
	l.done = context.AfterFunc(ctx, func() { conn.Close() })
	if err := l.introduce(); err != nil {
		l.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return l, nil
}

func newLink(conn net.Conn, o Options) *Link {
	l := &Link{o: o, conn: conn, done: func() bool { return true }}
	if o.TLS != nil {
		l.conn = tls.Client(conn, o.TLS)
	}
	l.head = bufio.NewReaderSize(timed{l}, readBytes)
	l.in = l.head
	return l
}

// Close closes the connection.
func (l *Link) Close() {
	l.done()
	l.conn.Close()
}

func (l *Link) stage(s Stage) {
	if l.o.Progress != nil {
		l.o.Progress(s)
	}
}

// LastIO returns when the master last sent something.
func (l *Link) LastIO() time.Time { return time.Unix(0, l.lastIO.Load()) }

// Received returns how many bytes the master has sent.
func (l *Link) Received() int64 { return l.received.Load() }

const (
	readBytes = 64 << 10
	lineBytes = 16 << 10 // the longest line that a master may send
)

// timed reads from the connection, and gives up when nothing comes for a while.
type timed struct{ *Link }

func (t timed) Read(b []byte) (int, error) {
	if err := t.conn.SetReadDeadline(time.Now().Add(t.o.Timeout)); err != nil {
		return 0, err
	}
	n, err := t.conn.Read(b)
	if n > 0 {
		t.received.Add(int64(n))
		t.lastIO.Store(time.Now().UnixNano())
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		err = fmt.Errorf("the master has sent nothing for %s: %w", t.o.Timeout, err)
	}
	return n, err
}

// send sends a command.
func (l *Link) send(words ...string) error {
	b := append([]byte("*"), strconv.Itoa(len(words))...)
	for _, w := range words {
		b = append(b, "\r\n$"...)
		b = strconv.AppendInt(b, int64(len(w)), 10)
		b = append(append(b, "\r\n"...), w...)
	}
	return l.write(append(b, "\r\n"...))
}

func (l *Link) write(b []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.conn.SetWriteDeadline(time.Now().Add(l.o.Timeout)); err != nil {
		return err
	}
	if _, err := l.conn.Write(b); err != nil {
		return fmt.Errorf("send to the master: %w", err)
	}
	return nil
}

// line reads a line that is not empty: a master that has work to do first sends empty ones, so
// that the replica knows that it lives.
func (l *Link) line() (string, error) {
	var b []byte
	for {
		c, err := l.head.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return "", errClosed
		case err != nil:
			return "", err
		case c != '\n':
			if b = append(b, c); len(b) > lineBytes {
				return "", fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, lineBytes)
			}
			continue
		}
		if line := strings.TrimSuffix(string(b), "\r"); line != "" {
			return line, nil
		}
		b = b[:0]
	}
}

var errClosed = errors.New("the master has closed the connection")

// ErrProtocol: what a master has sent is not the protocol of Redis.
var ErrProtocol = errors.New("this is not the replication protocol of Redis")

// ErrMaster is the text of an error that a master has answered.
type ErrMaster string

func (e ErrMaster) Error() string { return fmt.Sprintf("the master answers: %.512s", string(e)) }

// ask sends a command and returns the line that the master answers.
func (l *Link) ask(words ...string) (string, error) {
	if err := l.send(words...); err != nil {
		return "", err
	}
	line, err := l.line()
	switch {
	case err != nil:
		return "", err
	case line[0] == '-':
		return "", ErrMaster(line[1:])
	case line[0] != '+':
		return "", fmt.Errorf("%w: the answer to %s is %.64q", ErrProtocol, words[0], line)
	}
	return line[1:], nil
}

// introduce is the part of the handshake before PSYNC.
func (l *Link) introduce() error {
	if t, ok := l.conn.(*tls.Conn); ok {
		if err := l.conn.SetDeadline(time.Now().Add(l.o.Timeout)); err != nil {
			return err
		}
		if err := t.Handshake(); err != nil {
			return fmt.Errorf("TLS with the master: %w", err)
		}
	}
	l.stage(Handshake)
	var refused ErrMaster
	// A master that wants a password may refuse PING; it lives all the same.
	if _, err := l.ask("PING"); err != nil && !(errors.As(err, &refused) && mayPing(string(refused))) {
		return fmt.Errorf("PING: %w", err)
	}
	if l.o.Password != "" {
		auth := []string{"AUTH", l.o.Password}
		if l.o.User != "" {
			auth = []string{"AUTH", l.o.User, l.o.Password}
		}
		if _, err := l.ask(auth...); err != nil {
			return fmt.Errorf("AUTH with masteruser and masterauth: %w", err)
		}
	}
	about := [][]string{{"listening-port", strconv.Itoa(l.o.Port)}, {"capa", "eof", "capa", "psync2"}}
	if l.o.Host != "" {
		about = append(about, []string{"ip-address", l.o.Host})
	}
	for _, words := range about {
		// Old masters do not know some of these, which does no harm.
		if _, err := l.ask(append([]string{"REPLCONF"}, words...)...); err != nil && (!errors.As(err, &refused) || denied(string(refused))) {
			return fmt.Errorf("REPLCONF %s: %w", words[0], err)
		}
	}
	return nil
}

func mayPing(text string) bool {
	return strings.HasPrefix(text, "NOAUTH") || strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "ERR operation not permitted")
}

func denied(text string) bool {
	return strings.HasPrefix(text, "NOAUTH") || strings.HasPrefix(text, "NOPERM")
}

// Answer is what a master answers to PSYNC.
type Answer struct {
	// Full: the master sends all of its data, see Payload. Else it goes on at the offset that
	// it was asked for.
	Full bool
	// ID is the replication id of the stream from now on. With Full, Offset is where the
	// stream begins behind the data.
	ID     string
	Offset int64
}

// Sync asks the master to go on behind the offset of the stream with the id, or for all data if
// id is empty.
func (l *Link) Sync(id string, offset int64) (a Answer, err error) {
	words := []string{"PSYNC", "?", "-1"}
	if id != "" {
		words = []string{"PSYNC", id, strconv.FormatInt(offset+1, 10)}
	}
	line, err := l.ask(words...)
	if err != nil {
		return a, fmt.Errorf("PSYNC: %w", err)
	}
	wrong := fmt.Errorf("%w: the answer to PSYNC is %.128q", ErrProtocol, line)
	f := strings.Fields(line)
	switch {
	case len(f) == 3 && f[0] == "FULLRESYNC" && validID(f[1]):
		n, ok := number.ParseInt([]byte(f[2]))
		if !ok || n < 0 {
			return a, wrong
		}
		l.stage(Transfer)
		return Answer{true, f[1], n}, nil
	case len(f) > 0 && f[0] == "CONTINUE" && id != "":
		if len(f) > 1 {
			id = f[1]
		}
		if !validID(id) {
			return a, wrong
		}
		l.stage(Connected)
		return Answer{false, id, offset}, nil
	}
	return a, wrong
}

// validID reports whether a replication id has the form of one.
func validID(id string) bool {
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(id) == 40
}

// Ack tells the master up to where the stream is applied, and up to where it is on disk, which
// is -1 if that is not known.
func (l *Link) Ack(offset, synced int64) error {
	words := []string{"REPLCONF", "ACK", strconv.FormatInt(offset, 10)}
	if synced >= 0 {
		words = append(words, "FACK", strconv.FormatInt(synced, 10))
	}
	return l.send(words...)
}

// KeepAlive tells the master during a transfer that this replica lives.
func (l *Link) KeepAlive() error { return l.write([]byte("\n")) }
