// Package types holds what all data types share: the errors they return and the
// limits of their small forms. Each type has a package below this one. A type
// accesses rows through keyspace, and knows no wire, no command and no engine.
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

// Limits are the sizes up to which collections stay packed. The directives that set
// them have Redis's names.
type Limits struct {
	HashEntries, HashValue             int64 // hash-max-listpack-entries, -value
	SetIntegers                        int64 // set-max-intset-entries
	SetEntries, SetValue               int64 // set-max-listpack-entries, -value
	ZSetEntries, ZSetValue             int64 // zset-max-listpack-entries, -value
	ListSize                           int64 // list-max-listpack-size
	HyperLogLog                        int64 // hll-sparse-max-bytes
	StreamNodeEntries, StreamNodeBytes int64 // stream-node-max-entries, -bytes
}

// DefaultLimits are the limits of a server without a configuration.
var DefaultLimits = Limits{
	HashEntries: 512, HashValue: 64, SetIntegers: 512, SetEntries: 128, SetValue: 64, ZSetEntries: 128, ZSetValue: 64,
	ListSize: -2, HyperLogLog: 3000, StreamNodeEntries: 100, StreamNodeBytes: 4096,
}
