package lua

import (
	"errors"
	"fmt"
)

// ErrMemory ends a script that holds more memory than SetLimit allows. pcall
// does not catch it.
var ErrMemory = errors.New("not enough memory")

// Error is an error that a script can catch.
type Error struct {
	Value Value  // what was raised: mostly a string that begins with the place
	Chunk string // where it was raised; empty outside Lua code
	Line  int
}

func (e *Error) Error() string {
	if s, ok := e.Value.ToString(); ok {
		return s
	}
	return fmt.Sprintf("(error object is a %s value)", e.Value.TypeName())
}

// abortError passes through pcall.
type abortError struct{ err error }

func (e *abortError) Error() string { return e.err.Error() }
func (e *abortError) Unwrap() error { return e.err }

// Abort returns an error that pcall and xpcall do not catch. State.Call returns
// err itself.
func Abort(err error) error { return &abortError{err} }

// fatal reports whether an error passes through pcall, and returns what Call returns.
func fatal(err error) (error, bool) {
	if err == ErrMemory {
		return err, true
	}
	if a, ok := err.(*abortError); ok {
		return a.err, true
	}
	return err, false
}

// errorValue returns what pcall returns of an error.
func errorValue(err error) Value {
	if e, ok := err.(*Error); ok {
		return e.Value
	}
	return String(err.Error())
}
