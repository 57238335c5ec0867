// Package types holds what all data types share: the errors they return. Each
// type has a package below this one. A type knows rows through keyspace; it
// knows no wire, no command and no engine.
package types

import "errors"

// Errors of the types. The texts that clients see are in command/errors.go.
var (
	// ErrWrongType: the key holds a value of another type.
	ErrWrongType = errors.New("wrong type")
	// ErrNotInteger: a value or an argument is not a 64-bit integer.
	ErrNotInteger = errors.New("not an integer")
	// ErrNotFloat: a value or an argument is not a floating point number.
	ErrNotFloat = errors.New("not a float")
	// ErrOverflow: an increment or decrement would overflow.
	ErrOverflow = errors.New("increment overflows")
	// ErrNaN: an increment would produce NaN or infinity.
	ErrNaN = errors.New("result is not a finite number")
	// ErrTooLong: a string would become longer than proto-max-bulk-len.
	ErrTooLong = errors.New("string too long")
)
