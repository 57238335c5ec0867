package respclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Kind is the first byte of a reply on the wire.
type Kind byte

// The kinds of replies. The null of RESP2 has the kind that its bytes have.
const (
	Status   Kind = '+'
	Error    Kind = '-'
	Int      Kind = ':'
	Bulk     Kind = '$'
	Array    Kind = '*'
	Null     Kind = '_'
	Bool     Kind = '#'
	Double   Kind = ','
	BigNum   Kind = '('
	BulkErr  Kind = '!'
	Verbatim Kind = '='
	Map      Kind = '%'
	Set      Kind = '~'
	Push     Kind = '>'
)

// Value is a reply.
type Value struct {
	Kind Kind
	// Str is the text of everything that is not an aggregate. A verbatim
	// string has its format in front, as in "txt:hello".
	Str string
	// Elems are the elements of an aggregate; those of a map are key, value,
	// key, value.
	Elems []Value
	// IsNull marks the null bulk and the null array of RESP2, and the null of
	// RESP3.
	IsNull bool
}

// IsError reports whether the reply is an error.
func (v Value) IsError() bool { return v.Kind == Error || v.Kind == BulkErr }

// Int returns the reply as a number, 0 if it is none.
func (v Value) Int() int64 {
	n, _ := strconv.ParseInt(v.Str, 10, 64)
	return n
}

// String returns the reply in the form of command scripts.
func (v Value) String() string { return strings.Join(v.Lines(), "\n") }

var errMalformed = errors.New("malformed reply")

const maxDepth = 64

func (c *Client) value(depth int) (Value, error) {
	line, err := c.line()
	if err != nil {
		return Value{}, err
	}
	if line == "" || depth > maxDepth {
		return Value{}, errMalformed
	}
	v := Value{Kind: Kind(line[0]), Str: line[1:]}
	per := 1
	switch v.Kind {
	case Status, Error, Double, BigNum:
		return v, nil
	case Int:
		if _, err := strconv.ParseInt(v.Str, 10, 64); err != nil {
			return v, fmt.Errorf("%w: %q", errMalformed, line)
		}
		return v, nil
	case Bool:
		if v.Str != "t" && v.Str != "f" {
			return v, fmt.Errorf("%w: %q", errMalformed, line)
		}
		return v, nil
	case Null:
		v.IsNull = true
		return v, nil
	case Bulk, BulkErr, Verbatim:
		return c.bulk(v)
	case Map:
		per = 2
	case Array, Set, Push:
	default:
		return v, fmt.Errorf("%w: %q", errMalformed, line)
	}
	n, err := strconv.Atoi(v.Str)
	if err != nil || n < -1 || (n < 0 && v.Kind != Array) {
		return v, fmt.Errorf("%w: %q", errMalformed, line)
	}
	v.Str, v.IsNull = "", n < 0
	for range n * per {
		e, err := c.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.Elems = append(v.Elems, e)
	}
	return v, nil
}

func (c *Client) bulk(v Value) (Value, error) {
	n, err := strconv.Atoi(v.Str)
	if err != nil || n < -1 || (n < 0 && v.Kind != Bulk) {
		return v, fmt.Errorf("%w: length %q", errMalformed, v.Str)
	}
	if v.Str = ""; n < 0 {
		v.IsNull = true
		return v, nil
	}
	at := len(c.raw)
	c.raw = append(c.raw, make([]byte, n+2)...)
	if _, err := io.ReadFull(c.r, c.raw[at:]); err != nil {
		return v, err
	}
	if string(c.raw[at+n:]) != "\r\n" {
		return v, fmt.Errorf("%w: no line end behind a string", errMalformed)
	}
	v.Str = string(c.raw[at : at+n])
	return v, nil
}

func (c *Client) line() (string, error) {
	b, err := c.r.ReadSlice('\n')
	at := len(c.raw)
	c.raw = append(c.raw, b...)
	for err != nil && len(b) > 0 && errors.Is(err, bufio.ErrBufferFull) {
		b, err = c.r.ReadSlice('\n')
		c.raw = append(c.raw, b...)
	}
	if err != nil {
		return "", err
	}
	text, ok := strings.CutSuffix(string(c.raw[at:]), "\r\n")
	if !ok || strings.ContainsRune(text, '\r') {
		return "", fmt.Errorf("%w: line %q", errMalformed, c.raw[at:])
	}
	return text, nil
}

// Fits reports whether the reply is valid in a protocol version: no kind of RESP3 in RESP2,
// no null of RESP2 in RESP3.
func (v Value) Fits(proto int) bool {
	switch v.Kind {
	case Status, Error, Int:
		return true
	case Bulk, Array:
		if v.IsNull && proto == 3 {
			return false
		}
	default:
		if proto == 2 {
			return false
		}
	}
	for _, e := range v.Elems {
		if !e.Fits(proto) {
			return false
		}
	}
	return true
}
