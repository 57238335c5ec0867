// Package client is a small client for servers that speak Redis (RESP2), for the tools of this
// program. It promises bounded memory whatever a server answers, and that an address with a
// password never appears in an error.
package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Server is a server as its address says: redis://user:password@host:port, or rediss:// with
// TLS.
type Server struct {
	Addr, User, Password string
	TLS                  *tls.Config   // nil: no TLS
	Patience             time.Duration // how long a reply may take; 0: a minute
}

func (s Server) String() string { return s.Addr }

// ParseServer reads the address of a server. secure is the TLS configuration of rediss.
func ParseServer(text string, secure *tls.Config) (s Server, err error) {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return s, errors.New("it is not an address such as redis://host:port") // the text may have a password
	}
	switch {
	case u.Scheme == "rediss":
		s.TLS = secure.Clone()
	case u.Scheme != "redis":
		return s, fmt.Errorf("its scheme is %q, not redis or rediss", u.Scheme)
	}
	if u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return s, errors.New("it is not an address such as redis://host:port, without a database")
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	s.Addr = net.JoinHostPort(u.Hostname(), port)
	if s.TLS != nil {
		s.TLS.ServerName = u.Hostname()
	}
	s.User = u.User.Username()
	s.Password, _ = u.User.Password()
	if s.Password == "" { // redis://password@host
		s.User, s.Password = "", s.User
	}
	return s, nil
}

// defaultPatience is how long a server may take for a reply if Server does not say.
const defaultPatience = time.Minute

// Client is a connection. Requests are written into a buffer that is sent when a reply is read.
type Client struct {
	conn     net.Conn
	in       *bufio.Reader
	out      *bufio.Writer
	stop     func() bool
	patience time.Duration
}

// Dial connects and logs in. The connection is closed when ctx ends.
func Dial(ctx context.Context, s Server) (*Client, error) {
	patience := s.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	d := net.Dialer{Timeout: min(patience, 10*time.Second)}
	conn, err := d.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	c := &Client{stop: context.AfterFunc(ctx, func() { conn.Close() }), conn: conn, patience: patience}
	if s.TLS != nil {
		c.conn = tls.Client(conn, s.TLS)
	}
	c.in, c.out = bufio.NewReaderSize(c.conn, 64<<10), bufio.NewWriterSize(c.conn, 64<<10)
	if s.Password != "" {
		auth := []string{"AUTH", s.Password}
		if s.User != "" {
			auth = []string{"AUTH", s.User, s.Password}
		}
		if _, err = c.Do(auth...); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close closes the connection.
func (c *Client) Close() {
	c.stop()
	c.conn.Close()
}

// Send adds a request.
func (c *Client) Send(words ...string) {
	c.out.Write(AppendRequest(nil, words...)) // an error stays until Flush
}

// Flush sends the requests that Send has added.
func (c *Client) Flush() error { return c.out.Flush() }

// Conn returns the connection, for who sends bytes as they are and sets deadlines.
func (c *Client) Conn() net.Conn { return c.conn }

// AppendRequest appends a request as it is sent.
func AppendRequest(b []byte, words ...string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(words)), 10), "\r\n"...)
	for _, w := range words {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(w)), 10), "\r\n"...)
		b = append(append(b, w...), "\r\n"...)
	}
	return b
}

// Skip reads a reply, keeps nothing of it, and sends nothing, so that another goroutine may
// send meanwhile. refused is the text of an error that the server answered.
func (c *Client) Skip() (refused string, err error) { return c.skip(0) }

func (c *Client) skip(depth int) (refused string, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = ErrReply
		}
		return "", err
	}
	if len(line) < 3 || depth > maxDepth {
		return "", ErrReply
	}
	rest := line[1 : len(line)-2]
	switch line[0] {
	case '+', ':':
		return "", nil
	case '-':
		return string(rest), nil
	case '$', '*':
	default:
		return "", ErrReply
	}
	n, err := strconv.ParseInt(string(rest), 10, 64)
	switch {
	case err != nil || n < -1 || n > maxBulk || line[0] == '*' && n > maxItems:
		return "", ErrReply
	case n == -1:
	case line[0] == '$':
		_, err = c.in.Discard(int(n) + 2)
	default:
		for i := int64(0); i < n && err == nil; i++ {
			_, err = c.skip(depth + 1)
		}
	}
	return "", err
}

// Do sends a request and reads its reply; an error of the server is an error.
func (c *Client) Do(words ...string) (Value, error) {
	c.Send(words...)
	return c.Read()
}

// Value is a reply.
type Value struct {
	Text string
	List []Value
	Null bool
	fail bool // an error of the server
}

// Texts returns the strings of a list.
func (v Value) Texts() []string {
	list := make([]string, len(v.List))
	for i := range v.List {
		list[i] = v.List[i].Text
	}
	return list
}

// Number returns a reply that is an integer.
func (v Value) Number() int64 {
	n, _ := strconv.ParseInt(v.Text, 10, 64)
	return n
}

// ErrReply: what came is no reply of a Redis.
var ErrReply = errors.New("the reply is not one of Redis")

// ServerError is an error that the server has answered.
type ServerError string

func (e ServerError) Error() string { return "the server answers: " + string(e) }

// Read reads a reply; an error of the server is an error.
func (c *Client) Read() (Value, error) {
	v, err := c.readAny()
	if err == nil && v.fail {
		err = ServerError(v.Text)
	}
	return v, err
}

func (c *Client) readAny() (Value, error) {
	if err := c.out.Flush(); err != nil {
		return Value{}, err
	}
	if err := c.conn.SetDeadline(time.Now().Add(c.patience)); err != nil {
		return Value{}, err
	}
	return c.parse(0)
}

// The largest replies that are read: pieces of values are asked for, so no reply is larger
// than an element.
const (
	maxBulk  = 1 << 30
	maxItems = 1 << 20
	maxDepth = 8
)

func (c *Client) parse(depth int) (v Value, err error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return v, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" || depth > maxDepth {
		return v, ErrReply
	}
	v.Text = line[1:]
	switch line[0] {
	case '+', ':':
		return v, nil
	case '-':
		v.fail = true
		return v, nil
	case '$', '*':
	default:
		return v, ErrReply
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	v.Text = ""
	switch {
	case err != nil || n < -1 || n > maxBulk || line[0] == '*' && n > maxItems:
		return v, ErrReply
	case n == -1:
		v.Null = true
	case line[0] == '$':
		var b strings.Builder // grows with the bytes that come
		if _, err := io.CopyN(&b, c.in, n+2); err != nil {
			return v, err
		}
		v.Text = b.String()[:n]
	default:
		for range n {
			e, err := c.parse(depth + 1)
			if err != nil {
				return v, err
			}
			v.List = append(v.List, e)
		}
	}
	return v, nil
}

// ParseInfo returns the fields of a reply to INFO.
func ParseInfo(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, v, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(line, "#") {
			fields[name] = v
		}
	}
	return fields
}
