//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strconv"
)

// reply is one reply of RESP2.
type reply struct {
	kind byte   // + - : $ or *
	body []byte // what stands behind the kind; of a bulk its bytes, nil for the null; of an array all of it
}

// nextReply takes the first reply off b and says how long it is, or 0 if it has
// not come in whole.
func nextReply(b []byte) (r reply, n int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return reply{}, 0, nil
	}
	if end < 2 || b[end-1] != '\r' {
		return reply{}, 0, fmt.Errorf("malformed reply %.40q", b)
	}
	line := b[1 : end-1]
	switch b[0] {
	case '+', '-', ':':
		return reply{b[0], line}, end + 1, nil
	case '*':
		return nextArray(b, end+1, string(line))
	case '$':
		if string(line) == "-1" {
			return reply{'$', nil}, end + 1, nil
		}
		size := 0
		for _, c := range line {
			if c < '0' || c > '9' || size > 1<<29 {
				return reply{}, 0, fmt.Errorf("malformed reply %.40q", b)
			}
			size = size*10 + int(c-'0')
		}
		n := end + 1 + size + 2
		if len(b) < n {
			return reply{}, 0, nil
		}
		if b[n-2] != '\r' || b[n-1] != '\n' || len(line) == 0 {
			return reply{}, 0, fmt.Errorf("malformed reply %.40q", b)
		}
		return reply{'$', b[end+1 : n-2]}, n, nil
	}
	return reply{}, 0, fmt.Errorf("unexpected reply %.40q", b)
}

// nextArray is nextReply for an array whose elements begin at an offset. An error
// among them counts as one of the whole.
func nextArray(b []byte, at int, count string) (r reply, n int, err error) {
	elements, err := strconv.Atoi(count)
	if err != nil {
		return reply{}, 0, fmt.Errorf("malformed reply %.40q", b)
	}
	r.kind = '*'
	for range elements {
		e, n, err := nextReply(b[at:])
		if err != nil || n == 0 {
			return reply{}, 0, err
		}
		if at += n; e.kind == '-' {
			r.kind = '-'
		}
	}
	r.body = b[:at]
	return r, at, nil
}

// elements are the replies in an array.
func (r reply) elements() (list []reply, err error) {
	if r.kind != '*' {
		return nil, fmt.Errorf("not an array: %.40q", r.body)
	}
	at := bytes.IndexByte(r.body, '\n') + 1
	for at < len(r.body) {
		e, n, err := nextReply(r.body[at:])
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, fmt.Errorf("malformed array %.40q", r.body)
		}
		list = append(list, e)
		at += n
	}
	return list, nil
}
