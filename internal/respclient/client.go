// Package respclient is a small Redis client for tests. It hides nothing: a
// reply keeps its exact kind, and its raw bytes can be compared with those of another
// server.
package respclient

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Timeout is how long a client waits for a reply by default. It serves only to show where a
// test hangs.
const Timeout = 30 * time.Second

// Client is one connection. It belongs to one goroutine at a time.
type Client struct {
	Timeout time.Duration

	conn net.Conn
	r    *bufio.Reader
	out  []byte
	raw  []byte
}

// Dial connects to a TCP address.
func Dial(addr string) (*Client, error) {
	conn, err := net.DialTimeout("tcp", addr, Timeout)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return New(conn), nil
}

// DialProto connects and switches to RESP3 if proto is 3.
func DialProto(addr string, proto int) (*Client, error) {
	c, err := Dial(addr)
	if err != nil || proto == 2 {
		return c, err
	}
	v, err := c.Do("HELLO", strconv.Itoa(proto))
	if err == nil && v.IsError() {
		err = fmt.Errorf("HELLO %d: %s", proto, v.Str)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// New makes a client of an open connection.
func New(conn net.Conn) *Client {
	return &Client{Timeout: Timeout, conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Conn returns the connection, for tests that send arbitrary bytes or break it.
func (c *Client) Conn() net.Conn { return c.conn }

// Do sends a command and reads its reply.
func (c *Client) Do(args ...string) (Value, error) {
	if err := c.Send(args...); err != nil {
		return Value{}, err
	}
	return c.Read()
}

// Send sends a command and reads nothing.
func (c *Client) Send(args ...string) error {
	c.out = AppendCommand(c.out[:0], args...)
	return c.Write(c.out)
}

// Write sends bytes as they are.
func (c *Client) Write(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	if _, err := c.conn.Write(b); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// AppendCommand appends a command in its wire form.
func AppendCommand(dst []byte, args ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
	}
	return dst
}

// Read reads one reply or push message.
func (c *Client) Read() (Value, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return Value{}, fmt.Errorf("set deadline: %w", err)
	}
	c.raw = c.raw[:0]
	v, err := c.value(0)
	if err != nil {
		return Value{}, fmt.Errorf("read reply: %w", err)
	}
	return v, nil
}

// Raw returns the bytes of the last reply, valid until the next Read.
func (c *Client) Raw() []byte { return c.raw }

// Unread returns how many received bytes no Read has taken.
func (c *Client) Unread() int { return c.r.Buffered() }
