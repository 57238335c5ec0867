// Package store is the gateway's interface to the database: commands and their replies, and
// the commands of channels as functions. It uses no socket and no engine.
package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Store runs commands. An error of a command is an Error.
type Store interface {
	// Run runs a command that does not wait for a key, and returns its reply once what the reply
	// depends on is durable. The reply belongs to the caller; args must not change until Run
	// returns.
	Run(ctx context.Context, args ...[]byte) (Reply, error)
	// Await runs a command that may wait. done is called once with the reply, when what the
	// reply depends on is durable: from inside Await, or later from any goroutine. done must not
	// wait. A command that timed out has the reply nil. args must not change. No goroutine waits
	// meanwhile. cancel drops the command: done is then not called, unless a call has begun.
	Await(args [][]byte, done func(Reply, error)) (cancel func())
}

// Reply is a reply: nil, an int64, []byte, or a []Reply.
type Reply any

// Error is an error reply, its code first.
type Error string

func (e Error) Error() string { return string(e) }

// Code returns the first word of the error.
func (e Error) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// ErrReply is returned for a reply of a form that its command does not have.
var ErrReply = errors.New("the reply has an unexpected form")

// Decode reads a reply of RESP 2. An error reply is returned as an Error.
func Decode(b []byte) (Reply, error) {
	r, rest, err := decode(b, 0)
	if err == nil && len(rest) > 0 {
		err = ErrReply
	}
	if e, ok := r.(Error); ok && err == nil {
		return nil, e
	}
	return r, err
}

// maxDepth bounds how deep a reply may be nested.
const maxDepth = 16

func decode(b []byte, depth int) (Reply, []byte, error) {
	end := 0
	for end+1 < len(b) && (b[end] != '\r' || b[end+1] != '\n') {
		end++
	}
	if end < 1 || end+1 >= len(b) || depth > maxDepth {
		return nil, nil, ErrReply
	}
	kind, line, rest := b[0], string(b[1:end]), b[end+2:]
	if kind == '+' {
		return []byte(line), rest, nil
	}
	if kind == '-' {
		return Error(line), rest, nil
	}
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrReply, err)
	}
	switch {
	case kind == ':':
		return n, rest, nil
	case (kind == '$' || kind == '*') && n == -1:
		return nil, rest, nil
	case kind == '$' && n >= 0 && n+2 <= int64(len(rest)):
		return rest[:n:n], rest[n+2:], nil
	case kind == '*' && n >= 0 && n <= int64(len(rest)):
		list := make([]Reply, n)
		for i := range list {
			if list[i], rest, err = decode(rest, depth+1); err != nil {
				return nil, nil, err
			}
		}
		return list, rest, nil
	}
	return nil, nil, ErrReply
}

// Args returns texts as the arguments of a command.
func Args(words ...string) [][]byte {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	return args
}
