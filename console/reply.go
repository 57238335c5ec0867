package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
	"unicode/utf8"
)

// RESP3 and its form as JSON: a bulk string is a string, or {"bytes": base64} if it is no
// UTF-8; an integer is a number, or {"int": "..."} if a browser could not keep it exactly; a
// null is null, an array an array, a boolean a boolean. All others are objects with one
// member that names their kind: status, error, double, big, verbatim, map, set, push.

// Value is a reply.
type Value struct {
	Kind byte    // the first byte of its form in RESP3
	Text []byte  // of strings, errors and numbers
	List []Value // of aggregates; of a map keys and values in turn
}

const (
	maxReply    = 16 << 20 // bytes of the replies to one request
	maxElements = 1 << 20  // their number
	maxDepth    = 64
	exact       = 1 << 53 // integers below this are exact in a browser
)

var (
	errTooLarge  = errors.New("The reply has more than 16 MB or a million elements, too much for the console. Ask for a part of it.") //nolint:staticcheck // people read it
	errForm      = errors.New("malformed reply")
	errNoAnswer  = errors.New("The server has closed the connection.")             //nolint:staticcheck // people read it
	errTimeIsOut = errors.New("The command took too long; its client was closed.") //nolint:staticcheck // people read it
)

// talk is a conversation on a connection.
type talk struct {
	conn     net.Conn
	in       *bufio.Reader
	left     int64 // bytes that the replies of this request may still have
	elements int
}

func newTalk(conn net.Conn) *talk { return &talk{conn: conn, in: bufio.NewReaderSize(conn, 16<<10)} }

// ask sends commands, and returns as many replies, or as many as there are before an error.
// Messages that come between go to push. The connection is closed if the context ends.
func (t *talk) ask(ctx context.Context, commands []Args) ([]Value, error) {
	return t.askWith(ctx, commands, func(Value) {})
}

func (t *talk) askWith(ctx context.Context, commands []Args, push func(Value)) ([]Value, error) {
	t.left, t.elements = maxReply, maxElements
	stop := context.AfterFunc(ctx, func() { t.conn.Close() })
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- t.send(commands) }()
	replies := make([]Value, 0, min(len(commands), 1024))
	for len(replies) < len(commands) {
		v, err := t.read(0)
		if err != nil {
			t.conn.Close() // what follows could not be told apart
			<-sent
			switch {
			case errors.Is(ctx.Err(), context.DeadlineExceeded):
				err = errTimeIsOut
			case ctx.Err() != nil:
				err = ctx.Err()
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, io.ErrUnexpectedEOF):
				err = errNoAnswer
			}
			return replies, err
		}
		if v.Kind == '>' {
			push(v)
			continue
		}
		replies = append(replies, v)
	}
	return replies, <-sent
}

// send sends commands.
func (t *talk) send(commands []Args) error {
	w := bufio.NewWriterSize(t.conn, 16<<10)
	for _, args := range commands {
		args.send(w)
	}
	return w.Flush()
}

// read reads a reply.
func (t *talk) read(depth int) (v Value, err error) {
	if t.elements--; t.elements < 0 {
		return v, errTooLarge
	}
	line, err := t.in.ReadSlice('\n')
	if err == nil && (len(line) < 3 || line[len(line)-2] != '\r') || errors.Is(err, bufio.ErrBufferFull) {
		return v, errForm
	}
	if err != nil {
		return v, err
	}
	if t.left -= int64(len(line)); t.left < 0 {
		return v, errTooLarge
	}
	v.Kind = line[0]
	rest := line[1 : len(line)-2]
	switch v.Kind {
	case '+', '-', ':', ',', '(', '#', '_':
		v.Text = bytes.Clone(rest)
		return v, nil
	case '$', '=':
		return t.readBulk(v.Kind, rest)
	case '*', '~', '>', '%':
	default:
		return v, errForm
	}
	n, err := strconv.Atoi(string(rest))
	switch {
	case err != nil || depth >= maxDepth:
		return v, errForm
	case n < 0:
		return Value{Kind: '_'}, nil
	case v.Kind == '%':
		n *= 2
	}
	v.List = make([]Value, 0, min(n, 1024))
	for range n {
		e, err := t.read(depth + 1)
		if err != nil {
			return v, err
		}
		v.List = append(v.List, e)
	}
	return v, nil
}

func (t *talk) readBulk(kind byte, rest []byte) (v Value, err error) {
	n, err := strconv.Atoi(string(rest))
	if err != nil {
		return v, errForm
	}
	if n < 0 {
		return Value{Kind: '_'}, nil
	}
	if t.left -= int64(n); t.left < 0 {
		return v, errTooLarge
	}
	v = Value{Kind: kind, Text: make([]byte, n+2)}
	if _, err := io.ReadFull(t.in, v.Text); err != nil {
		return v, err
	}
	v.Text = v.Text[:n]
	return v, nil
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) { return v.appendJSON(nil), nil }

func (v Value) appendJSON(b []byte) []byte {
	object := func(name string, value []byte) []byte {
		b = append(b, `{"`+name+`":`...)
		return append(append(b, value...), '}')
	}
	switch v.Kind {
	case '$':
		if !utf8.Valid(v.Text) {
			return object("bytes", quoted([]byte(base64.StdEncoding.EncodeToString(v.Text))))
		}
		return append(b, quoted(v.Text)...)
	case ':':
		if n, err := strconv.ParseInt(string(v.Text), 10, 64); err != nil || n > exact || n < -exact {
			return object("int", quoted(v.Text))
		}
		return append(b, bytes.TrimPrefix(v.Text, []byte("+"))...)
	case '*':
		return v.appendList(b)
	case '#':
		return strconv.AppendBool(b, string(v.Text) == "t")
	case '+':
		return object("status", quoted(v.Text))
	case '-':
		return object("error", quoted(v.Text))
	case ',':
		return object("double", quoted(v.Text))
	case '(':
		return object("big", quoted(v.Text))
	case '=':
		return object("verbatim", quoted(v.Text[min(4, len(v.Text)):]))
	case '%':
		return object("map", v.appendList(nil))
	case '~':
		return object("set", v.appendList(nil))
	case '>':
		return object("push", v.appendList(nil))
	}
	return append(b, "null"...)
}

func (v Value) appendList(b []byte) []byte {
	b = append(b, '[')
	for i, e := range v.List {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.appendJSON(b)
	}
	return append(b, ']')
}

// quoted returns a text as JSON. What is no UTF-8 is replaced.
func quoted(text []byte) []byte {
	b, _ := json.Marshal(string(text)) // a string always has a JSON form
	return b
}

// size is about the memory that a reply takes, its JSON included.
func (v Value) size() int64 {
	n := int64(80 + 2*len(v.Text))
	for _, e := range v.List {
		n += e.size()
	}
	return n
}

// Args are the arguments of a command. In JSON each is a string, or {"bytes": base64}.
type Args [][]byte

// UnmarshalJSON implements json.Unmarshaler.
func (a *Args) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return errors.New("a command must be an array")
	}
	if len(list) == 0 {
		return errors.New("a command must not be empty")
	}
	*a = make(Args, len(list))
	for i, raw := range list {
		if err := (*binary)(&(*a)[i]).UnmarshalJSON(raw); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
	}
	return nil
}

// binary is a text of any bytes.
type binary []byte

// UnmarshalJSON implements json.Unmarshaler.
func (t *binary) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		*t = []byte(text)
		return nil
	}
	var object struct {
		Bytes *[]byte `json:"bytes"`
	}
	if err := json.Unmarshal(raw, &object); err != nil || object.Bytes == nil {
		return errors.New(`not a string, nor {"bytes": base64}`)
	}
	*t = *object.Bytes
	return nil
}

// send writes a command. Errors stay in w.
func (a Args) send(w *bufio.Writer) {
	fmt.Fprintf(w, "*%d\r\n", len(a))
	for _, arg := range a {
		fmt.Fprintf(w, "$%d\r\n", len(arg))
		w.Write(arg)
		w.WriteString("\r\n")
	}
}

// within returns a context that ends after a time, or with the login.
func (l *login) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	go func() {
		select {
		case <-l.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
