package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// An RDB file is a head, items, and a checksum of everything before it:
//
//	"REDIS" version:4 digits  item*  ff crc64:8
//
// An item is a key, or begins with an opcode:
//
//	fa name value          something about the file
//	f5 source              a library of functions
//	fe database            the keys that follow are in this database
//	fb keys volatile       how many there are, about
//	f4 slot keys volatile  how many there are in a slot of a cluster, about
//	f7 module ...          something of a module's own
//	fd seconds:4, fc milliseconds:8, f8 idle, f9 frequency:1    about the key that follows
//	type:1 key value       a key
//
// Numbers without a width are lengths. A checksum of zero means that there is none. Files of
// versions 1 to 4, which Redis before 2.6 wrote, have no checksum, and are not read.

// The opcodes.
const (
	opSlotInfo  = 244
	opModuleAux = 247
	opIdle      = 248
	opFreq      = 249
	opAux       = 250
	opResize    = 251
	opMillis    = 252
	opSeconds   = 253
	opSelect    = 254
	opEnd       = 255
)

const (
	magic           = "REDIS"
	fileHead        = len(magic) + 4
	versionChecksum = 5 // the first version with a checksum, and the oldest that is read
)

// Errors of a File, besides those of Open. All but ErrVersion wrap ErrFormat. Errors of the
// stream are passed on.
var (
	// ErrNoFile: the stream does not begin as an RDB file.
	ErrNoFile = fmt.Errorf("%w: it does not begin with %s", ErrFormat, magic)
	// ErrVersion: the file is of a version that this package does not read.
	ErrVersion = errors.New("unknown version of the RDB format")
	// ErrChecksum: the checksum at the end is not that of the bytes before it.
	ErrChecksum = fmt.Errorf("%w: the checksum of the file is wrong", ErrFormat)
)

// FileError says where in a file something is wrong.
type FileError struct {
	Offset int64 // approximate
	DB     int
	Key    []byte // nil: not in a key
	Err    error
}

func (e *FileError) Error() string {
	if e.Key == nil {
		return fmt.Sprintf("at byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("at byte %d, in key %s of database %d: %v", e.Offset, strconv.Quote(string(e.Key[:min(len(e.Key), 128)])), e.DB, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// What is the kind of an Item.
type What byte

// The kinds of items.
const (
	Key       What = 1 + iota
	Aux            // Name and Text
	Library        // Text is the source
	Size           // Keys and Volatile of database DB, approximate
	ModuleAux      // Name is the module; its data was skipped
)

// Item is a part of a file. Its bytes are valid until the next call of Next.
type Item struct {
	What   What
	Offset int64 // where it begins

	DB     int
	Key    []byte
	Expire int64  // in Unix milliseconds; 0: never
	Idle   int64  // for how many seconds the key was not used; -1: unknown
	Freq   int    // its access counter; -1: unknown
	Value  *Value // to be read by the method of its kind before the next call, or not at all

	Name, Text     []byte
	Keys, Volatile uint64
}

// File reads an RDB file from a stream.
//
//	f, err := rdb.NewFile(stream, rdb.Options{})
//	for {
//		item, err := f.Next() // io.EOF behind the checksum, when that is right
//	}
//
// A value is decoded as it is read: memory holds a piece of a string or an element of a
// collection that is not packed, one part of a packed collection or of a stream's nodes, and
// the pending entries of one consumer group. A length that a damaged file announces and does
// not have costs no memory.
type File struct {
	// Version is that of the file.
	Version int
	// Unchecked is set at the end if the file has no checksum.
	Unchecked bool

	in    reader
	item  Item
	value Value
	key   []byte
	text  []byte
	db    int
	err   error

	unchecked bool
}

// NewFile reads the head of a file.
func NewFile(in io.Reader, o Options) (*File, error) {
	if o.MaxString == 0 {
		o.MaxString = 512 << 20
	}
	f := &File{in: newSource(in, o.MaxString), unchecked: o.SkipChecksum}
	b, err := f.in.take(uint64(fileHead), "its head")
	if err != nil {
		if errors.Is(err, ErrFormat) {
			err = ErrNoFile
		}
		return nil, err
	}
	version, err := strconv.ParseUint(string(b[len(magic):]), 10, 16)
	switch {
	case string(b[:len(magic)]) != magic || err != nil || version == 0:
		return nil, ErrNoFile
	case version < versionChecksum:
		return nil, fmt.Errorf("%w: it has version %d, of Redis before 2.6: have a newer Redis load it and write it anew", ErrVersion, version)
	case version > Version:
		return nil, fmt.Errorf("%w: it has version %d, and those up to %d, of Redis 7.4 and 8, are known", ErrVersion, version, Version)
	}
	f.Version = int(version)
	return f, nil
}

// Offset is how many bytes of the file were read so far.
func (f *File) Offset() int64 { return f.in.offset() }

// Rest returns the rest of the stream, which begins with the bytes that this File has buffered.
func (f *File) Rest() io.Reader {
	return io.MultiReader(&window{&f.in}, f.in.src.in)
}

// window is an io.Reader of the bytes that a reader has buffered.
type window struct{ r *reader }

func (w *window) Read(b []byte) (int, error) {
	n := copy(b, w.r.b[w.r.at:])
	if w.r.at += n; n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Next returns the next item. A value that was not read is skipped. After an error, Next
// returns this error again.
func (f *File) Next() (*Item, error) {
	if f.err != nil {
		return nil, f.err
	}
	if f.item.What == Key && !f.value.read {
		if err := f.item.Value.Skip(); err != nil && !errors.Is(err, ErrEmpty) {
			return nil, f.Failed(err)
		}
	}
	what, err := f.next()
	switch {
	case err == io.EOF:
		f.err = err
		return nil, err
	case err != nil:
		if what != Key {
			f.item.Key = nil
		}
		return nil, f.Failed(err)
	}
	f.item.What = what
	return &f.item, nil
}

// Failed wraps an error that a caller met in the present item with its place in the file.
// Next then returns this error.
func (f *File) Failed(err error) error {
	f.err = &FileError{Offset: f.Offset(), DB: f.item.DB, Key: f.item.Key, Err: err}
	return f.err
}

// next reads one item.
func (f *File) next() (What, error) {
	f.item = Item{Idle: -1, Freq: -1, DB: f.db, Offset: f.Offset()}
	i, in := &f.item, &f.in
	about := false // an opcode about the key that follows was read
	for {
		b, err := in.take(1, "the items of the file")
		if err != nil {
			return 0, err
		}
		op := b[0]
		if about && op >= opSlotInfo && (op < opIdle || op > opSeconds || op == opAux || op == opResize) {
			return 0, fmt.Errorf("%w: no key follows what is said about one", ErrFormat)
		}
		switch op {
		case opSeconds:
			var n int64
			n, err = in.integer(4)
			i.Expire, about = expiry(n, 1000), true
		case opMillis:
			var n int64
			n, err = in.integer(8)
			i.Expire, about = expiry(n, 1), true
		case opIdle:
			var n uint64
			n, err = in.length()
			i.Idle, about = int64(min(n, 1<<62)), true
		case opFreq:
			if b, err = in.take(1, "a frequency"); err == nil {
				i.Freq, about = int(b[0]), true
			}
		case opSelect:
			var n uint64
			if n, err = in.length(); err == nil && n >= 1<<31 {
				err = fmt.Errorf("%w: a database of number %d", ErrFormat, n)
			}
			f.db = int(n)
			i.DB = f.db
		case opResize:
			if i.Keys, err = in.length(); err == nil {
				i.Volatile, err = in.length()
			}
			return Size, err
		case opSlotInfo:
			for k := 0; k < 3 && err == nil; k++ {
				_, err = in.length()
			}
		case opAux:
			if i.Name, err = in.str(&f.key); err == nil {
				i.Text, err = in.str(&f.text)
			}
			return Aux, err
		case opFunction:
			i.Text, err = in.str(&f.text)
			return Library, err
		case opFunctionEarly:
			return 0, fmt.Errorf("%w: %w", ErrFormat, ErrEarlyFunction)
		case opModuleAux:
			return ModuleAux, f.moduleAux()
		case opEnd:
			return 0, f.end()
		default:
			return Key, f.begin(op)
		}
		if err != nil {
			return 0, err
		}
	}
}

// expiry converts a file's expiry time to Unix milliseconds: -1, which stands for none, to 0,
// and times before 1 to 1.
func expiry(n, unit int64) int64 {
	if n == -1 {
		return 0
	}
	return max(1, n*unit)
}

// begin reads a key, up to its value.
func (f *File) begin(code byte) (err error) {
	i := &f.item
	if i.Key, err = f.in.str(&f.key); err != nil {
		i.Key = nil
		return err
	}
	if i.Key == nil {
		i.Key = []byte{}
	}
	blob := f.value.blob
	if cap(blob) > maxScratch {
		blob = nil
	}
	if cap(f.in.src.packed) > maxScratch {
		f.in.src.packed = nil
	}
	f.value = Value{Version: f.Version, code: code, in: &f.in, blob: blob}
	i.Value = &f.value
	switch {
	case int(code) < len(kinds) && kinds[code] != 0:
		f.value.Kind = kinds[code]
	case code == typeModuleEarly:
		return fmt.Errorf("%w: a module's value as Redis before 4.0 wrote it, which cannot be passed over", ErrFormat)
	default:
		return fmt.Errorf("%w: type %d, which Redis up to 7.4 does not have", ErrFormat, code)
	}
	if f.value.Kind != Module {
		return nil
	}
	if f.value.module, err = f.in.length(); err == nil && f.value.module>>10 == 0 {
		err = fmt.Errorf("%w: a module without a name", ErrFormat)
	}
	return err
}

// typeModuleEarly is a module's value of which only the module knows where it ends.
const typeModuleEarly = 6

// end reads what follows the last item.
func (f *File) end() error {
	is := f.in.sum()
	b, err := f.in.take(8, "its checksum")
	if err != nil {
		return err
	}
	switch said := binary.LittleEndian.Uint64(b); said {
	case 0:
		f.Unchecked = true
	case is:
	default:
		if !f.unchecked {
			return ErrChecksum
		}
	}
	return io.EOF
}

// ModuleName returns the name and the version of a module's value in a file.
func (v *Value) ModuleName() (name string, version int) {
	return moduleName(v.module), int(v.module & (1<<10 - 1))
}

// moduleName returns the name in a number made by moduleID.
func moduleName(id uint64) string {
	var b [9]byte
	for i := range b {
		b[i] = moduleChars[id>>(10+6*(8-i))&63]
	}
	return string(b[:])
}

// Skip skips a value. It checks what it reads, except that duplicates may go unnoticed.
func (v *Value) Skip() error {
	switch v.Kind {
	case String:
		return v.String(func(int64, []byte) error { return nil })
	case List:
		return v.List(func([]byte) error { return nil })
	case Set:
		return v.Set(func([]byte) error { return nil })
	case ZSet:
		return v.ZSet(func([]byte, float64) error { return nil })
	case Hash:
		return v.Hash(func(_, _ []byte, _ int64) error { return nil })
	case Stream:
		return v.Stream(ignore{})
	}
	if v.module == 0 {
		if _, err := v.in.length(); err != nil {
			return err
		}
	}
	if err := v.in.skipModule(); err != nil {
		return err
	}
	return v.end()
}

// ignore is a visitor of a stream.
type ignore struct{}

func (ignore) Entry(ID, [][]byte) error            { return nil }
func (ignore) Info(StreamInfo) error               { return nil }
func (ignore) Group([]byte, ID, int64) error       { return nil }
func (ignore) Consumer([]byte, int64, int64) error { return nil }
func (ignore) Pending(ID, int64, uint64) error     { return nil }

// moduleAux skips data of a module that belongs to no key.
//
//	module (02 when) (what value)* 00
func (f *File) moduleAux() error {
	id, err := f.in.length()
	if err != nil {
		return err
	}
	f.item.Name = append(f.key[:0], moduleName(id)...)
	for k := 0; k < 2 && err == nil; k++ {
		_, err = f.in.length()
	}
	if err == nil {
		err = f.in.skipModule()
	}
	return err
}

// skipModule skips the parts of a module's value.
func (r *reader) skipModule() error {
	for {
		what, err := r.length()
		if err != nil {
			return err
		}
		switch what {
		case moduleEnd:
			return nil
		case moduleInt, moduleUint:
			_, err = r.length()
		case moduleFloat:
			_, err = r.take(4, "a module's value")
		case moduleDouble:
			_, err = r.take(8, "a module's value")
		case moduleString:
			err = r.skipString()
		default:
			err = fmt.Errorf("%w: a module's value has a part of sort %d", ErrFormat, what)
		}
		if err != nil {
			return err
		}
	}
}

// skipString skips a string.
func (r *reader) skipString() error {
	n, encoded, err := r.head()
	switch {
	case err != nil:
		return err
	case encoded && n == stringLZF:
		if n, _, err = r.lzfHead(); err != nil {
			return err
		}
	case encoded && n > stringLZF:
		return fmt.Errorf("%w: a string in encoding %d", ErrFormat, n)
	case encoded:
		n = 1 << n
	}
	if r.src == nil {
		_, err = r.take(n, "a string")
		return err
	}
	return r.discard(n, "a string")
}
