package rdb

import (
	"fmt"
	"strings"
)

// Values of modules: types that Redis itself does not have. Such a value is a name, a version
// and a sequence of numbers and strings, each with its kind, so that a Redis without the
// module can skip the value in a file; RESTORE refuses the value as bad data.
//
//	07 name-and-version (what value)* 00
//
// Parts that are not strings are numbers in the encoding of lengths.

// typeModule is the type of a module's value in a payload.
const typeModule = 7

// versionModule is the version of the format that introduced module values: Redis 4.0.
const versionModule = 8

// The kinds of parts of a module's value.
const (
	moduleEnd    = 0
	moduleInt    = 1
	moduleUint   = 2
	moduleFloat  = 3
	moduleDouble = 4
	moduleString = 5
)

// moduleChars are the characters of a module's name; each is coded in six bits.
const moduleChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// moduleID packs a name of nine characters and a version below 1024 into one number.
func moduleID(name string, version uint64) (id uint64) {
	for i := range len(name) {
		id = id<<6 | uint64(strings.IndexByte(moduleChars, name[i]))
	}
	return id<<10 | version
}

// BeginModule begins the value of a module; name has nine characters.
func (e *Encoder) BeginModule(name string, version uint64) {
	e.begin(typeModule, versionModule)
	e.length(moduleID(name, version))
}

// Uint gives a number of a module's value.
func (e *Encoder) Uint(n uint64) {
	e.length(moduleUint)
	e.length(n)
}

// Bytes gives a string of a module's value.
func (e *Encoder) Bytes(b []byte) {
	e.length(moduleString)
	e.str(b)
}

// EndModule ends the value of a module.
func (e *Encoder) EndModule() { e.length(moduleEnd) }

// ModuleReader reads the numbers and strings of a module's value, in their order. The
// first failure is kept; after it numbers are 0 and strings empty.
type ModuleReader struct {
	v       *Value
	scratch []byte
	err     error
}

// Module begins to read the value of a module, which must be of this name and version.
func (v *Value) Module(name string, version uint64) (*ModuleReader, error) {
	if v.Kind != Module {
		return nil, v.wrongKind()
	}
	id, err := v.module, error(nil)
	if id == 0 {
		id, err = v.in.length()
	}
	if err == nil && id != moduleID(name, version) {
		err = fmt.Errorf("%w: a module of another name or version", ErrFormat)
	}
	if err != nil {
		return nil, err
	}
	return &ModuleReader{v: v}, nil
}

// Err returns the first failure.
func (r *ModuleReader) Err() error { return r.err }

func (r *ModuleReader) expect(what uint64) bool {
	if r.err != nil {
		return false
	}
	got, err := r.v.in.length()
	if err == nil && got != what {
		err = fmt.Errorf("%w: a module's value has %d where there should be %d", ErrFormat, got, what)
	}
	r.err = err
	return err == nil
}

// Uint reads a number.
func (r *ModuleReader) Uint() (n uint64) {
	if r.expect(moduleUint) {
		n, r.err = r.v.in.length()
	}
	return n
}

// Bytes reads a string, which is valid until the next one is read.
func (r *ModuleReader) Bytes() (b []byte) {
	if r.expect(moduleString) {
		b, r.err = r.v.in.str(&r.scratch)
	}
	return b
}

// End reads the end.
func (r *ModuleReader) End() error {
	if r.expect(moduleEnd) {
		r.err = r.v.end()
	}
	return r.err
}
