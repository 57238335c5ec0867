package comparer

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
	TLS                  *tls.Config // nil: no TLS
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
		return s, errors.New("it is not an address such as redis://host:port, without a database: all are compared")
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

// patience is how long a server may take for a reply.
const patience = time.Minute

// client is a connection. Requests are written into a buffer that is sent when a reply is read.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	out  *bufio.Writer
	stop func() bool
}

func dial(ctx context.Context, s Server) (*client, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	c := &client{stop: context.AfterFunc(ctx, func() { conn.Close() }), conn: conn}
	if s.TLS != nil {
		c.conn = tls.Client(conn, s.TLS)
	}
	c.in, c.out = bufio.NewReaderSize(c.conn, 64<<10), bufio.NewWriterSize(c.conn, 64<<10)
	if s.Password != "" {
		auth := []string{"AUTH", s.Password}
		if s.User != "" {
			auth = []string{"AUTH", s.User, s.Password}
		}
		if _, err = c.do(auth...); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *client) close() {
	c.stop()
	c.conn.Close()
}

// send adds a request.
func (c *client) send(words ...string) {
	fmt.Fprintf(c.out, "*%d\r\n", len(words)) // an error stays until Flush
	for _, w := range words {
		fmt.Fprintf(c.out, "$%d\r\n%s\r\n", len(w), w)
	}
}

// do sends a request and reads its reply.
func (c *client) do(words ...string) (value, error) {
	c.send(words...)
	return c.read()
}

// value is a reply.
type value struct {
	text string
	list []value
	null bool
	fail bool // an error of the server
}

// texts are the strings of a list.
func (v value) texts() []string {
	list := make([]string, len(v.list))
	for i := range v.list {
		list[i] = v.list[i].text
	}
	return list
}

// number is a reply that is an integer.
func (v value) number() int64 {
	n, _ := strconv.ParseInt(v.text, 10, 64)
	return n
}

var errReply = errors.New("the reply is not one of Redis")

// serverError is an error that the server has answered.
type serverError string

func (e serverError) Error() string { return "the server answers: " + string(e) }

// read reads a reply; an error of the server is an error.
func (c *client) read() (value, error) {
	v, err := c.readAny()
	if err == nil && v.fail {
		err = serverError(v.text)
	}
	return v, err
}

func (c *client) readAny() (value, error) {
	if err := c.out.Flush(); err != nil {
		return value{}, err
	}
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return value{}, err
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

func (c *client) parse(depth int) (v value, err error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return v, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" || depth > maxDepth {
		return v, errReply
	}
	v.text = line[1:]
	switch line[0] {
	case '+', ':':
		return v, nil
	case '-':
		v.fail = true
		return v, nil
	case '$', '*':
	default:
		return v, errReply
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	v.text = ""
	switch {
	case err != nil || n < -1 || n > maxBulk || line[0] == '*' && n > maxItems:
		return v, errReply
	case n == -1:
		v.null = true
	case line[0] == '$':
		var b strings.Builder // grows with the bytes that come
		if _, err := io.CopyN(&b, c.in, n+2); err != nil {
			return v, err
		}
		v.text = b.String()[:n]
	default:
		for range n {
			e, err := c.parse(depth + 1)
			if err != nil {
				return v, err
			}
			v.list = append(v.list, e)
		}
	}
	return v, nil
}

// databases returns the databases that have keys.
func (c *client) databases() (list []int, err error) {
	v, err := c.do("INFO", "keyspace")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(v.text) {
		name, _, _ := strings.Cut(line, ":")
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil && strings.HasPrefix(name, "db") {
			list = append(list, n)
		}
	}
	return list, nil
}

// exist reports which keys exist.
func (c *client) exist(keys []string) ([]bool, error) {
	for _, k := range keys {
		c.send("EXISTS", k)
	}
	there := make([]bool, len(keys))
	for i := range keys {
		v, err := c.read()
		if err != nil {
			return nil, err
		}
		there[i] = v.text == "1"
	}
	return there, nil
}
