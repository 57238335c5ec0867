package lib

import (
	"encoding/binary"
	"math"
	"strings"

	"redoubt/lua"
)

// The struct library packs numbers and strings as C would lay them out, by a
// format of one letter each:
//
//	b B h H l L T   signed and unsigned integers of 1, 2, 8 bytes; T is 8, unsigned
//	i I             integers of 4 bytes, or as many as a number says, up to 32
//	f d             floats of 4 and 8 bytes
//	x               a byte of padding
//	c               as many characters as a number says, 1 without; c0 is the whole
//	                string, or reading, as many as the number read before
//	s               a string that a zero byte ends
//	< > !           little endian, big endian, alignment
//
// Sizes are those of a 64-bit machine, native order is little endian.

const (
	maxIntSize = 32
	maxAlign   = 8
)

func openStruct(s *lua.State) {
	t := s.NewTable(0, 3)
	s.Register(t, "pack", structPack)
	s.Register(t, "unpack", structUnpack)
	s.Register(t, "size", structSize)
	publish(s, "struct", t)
}

// layout walks through a format.
type layout struct {
	c     *lua.Call
	rest  string // of the format
	big   bool
	align int
}

// newLayout begins a format, which a zero byte ends.
func newLayout(c *lua.Call) (layout, error) {
	format, err := c.CheckString(0)
	if err != nil {
		return layout{}, err
	}
	format, _, _ = strings.Cut(format, "\x00")
	return layout{c: c, rest: format, align: 1}, nil
}

// next returns the next option and its size. An option that has none, be it a
// control or a mistake, has size 0.
func (l *layout) next() (opt byte, size int, err error) {
	opt = l.rest[0]
	l.rest = l.rest[1:]
	switch opt {
	case 'b', 'B', 'x':
		size = 1
	case 'h', 'H':
		size = 2
	case 'f':
		size = 4
	case 'l', 'L', 'T', 'd':
		size = 8
	case 'c':
		size, err = l.number(1)
	case 'i', 'I':
		if size, err = l.number(4); err == nil && size > maxIntSize {
			err = l.c.Errorf("integral size %d is larger than limit of %d", size, maxIntSize)
		}
	}
	return opt, size, err
}

// number reads the number that may follow an option.
func (l *layout) number(missing int) (int, error) {
	if l.rest == "" || !isDigit(l.rest[0]) {
		return missing, nil
	}
	n := 0
	for l.rest != "" && isDigit(l.rest[0]) {
		n = n*10 + int(l.rest[0]-'0')
		if n > math.MaxInt32 {
			return 0, l.c.Errorf("integral size overflow")
		}
		l.rest = l.rest[1:]
	}
	return n, nil
}

// padding says how many bytes go before an option of this size at this place.
// For a size that is no power of two it is an odd number, but Redis's.
func (l *layout) padding(at uint64, opt byte, size int) uint64 {
	if size == 0 || opt == 'c' {
		return 0
	}
	unit := uint64(min(size, l.align))
	return (unit - at&(unit-1)) & (unit - 1)
}

// control obeys an option that moves no data.
func (l *layout) control(opt byte) error {
	switch opt {
	case ' ':
	case '>':
		l.big = true
	case '<':
		l.big = false
	case '!':
		n, err := l.number(maxAlign)
		if err != nil {
			return err
		}
		if n <= 0 || n&(n-1) != 0 {
			return l.c.Errorf("alignment %d is not a power of 2", n)
		}
		l.align = n
	default:
		return l.c.ArgError(0, "invalid format option '"+string([]byte{opt})+"'")
	}
	return nil
}

func structPack(c *lua.Call) error {
	l, err := newLayout(c)
	if err != nil {
		return err
	}
	out := buffer{s: c.State()}
	var total uint64
	for arg := 1; l.rest != ""; {
		opt, size, err := l.next()
		if err != nil {
			return err
		}
		pad := l.padding(total, opt, size)
		if err := out.room(int(pad) + maxIntSize); err != nil {
			return err
		}
		total += pad
		for range pad {
			out.b = append(out.b, 0)
		}
		switch opt {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			f, err := packNumber(c, arg)
			if err != nil {
				return err
			}
			out.b = appendInt(out.b, packedInt(f), size, l.big)
			arg++
		case 'x':
			out.b = append(out.b, 0)
		case 'f', 'd':
			f, err := packNumber(c, arg)
			if err != nil {
				return err
			}
			if opt == 'f' {
				out.b = appendInt(out.b, uint64(math.Float32bits(float32(f))), size, l.big)
			} else {
				out.b = appendInt(out.b, math.Float64bits(f), size, l.big)
			}
			arg++
		case 'c', 's':
			s, ok := c.Arg(arg).ToString()
			if !ok {
				return packType(c, arg, "string")
			}
			arg++
			if size == 0 {
				size = len(s)
			}
			if len(s) < size {
				return c.ArgError(arg, "string too short") // one too far, as Redis counts
			}
			if err := out.room(size + 1); err != nil {
				return err
			}
			out.b = append(out.b, s[:size]...)
			if opt == 's' {
				out.b = append(out.b, 0)
				size++
			}
		default:
			if err := l.control(opt); err != nil {
				return err
			}
		}
		total += uint64(size)
	}
	return out.result(c)
}

func packNumber(c *lua.Call, i int) (float64, error) {
	f, ok := c.Arg(i).ToNumber()
	if !ok {
		return 0, packType(c, i, "number")
	}
	return f, nil
}

// packType is a TypeError, except that a missing argument counts as nil.
func packType(c *lua.Call, i int, expected string) error {
	return c.ArgError(i, expected+" expected, got "+c.Arg(i).TypeName())
}

// packedInt returns the two's complement of a number, cut to 64 bits.
func packedInt(f float64) uint64 {
	if f < 0 {
		return uint64(truncate(f))
	}
	return truncateUnsigned(f)
}

// appendInt appends the lowest bytes of v, and zeros beyond its eight.
func appendInt(b []byte, v uint64, size int, big bool) []byte {
	start := len(b)
	b = append(b, make([]byte, size)...)
	for i := range min(size, 8) {
		at := start + i
		if big {
			at = start + size - 1 - i
		}
		b[at] = byte(v)
		v >>= 8
	}
	return b
}

func structSize(c *lua.Call) error {
	l, err := newLayout(c)
	if err != nil {
		return err
	}
	var total uint64
	for l.rest != "" {
		opt, size, err := l.next()
		if err != nil {
			return err
		}
		total += l.padding(total, opt, size)
		switch {
		case opt == 's':
			return c.ArgError(0, "option 's' has no fixed size")
		case opt == 'c' && size == 0:
			return c.ArgError(0, "option 'c0' has no fixed size")
		case !isAlnum(opt): // letters that are no option pass here, unlike in pack
			if err := l.control(opt); err != nil {
				return err
			}
		}
		total += uint64(size)
	}
	c.Return(lua.Number(float64(int64(total))))
	return nil
}

func structUnpack(c *lua.Call) error {
	l, err := newLayout(c)
	if err != nil {
		return err
	}
	data, err := c.CheckString(1)
	if err != nil {
		return err
	}
	begin, err := c.OptInt(2, 1)
	if err != nil {
		return err
	}
	if begin == 0 {
		return c.ArgError(2, "offset must be 1 or greater")
	}
	// A negative place is a very large one.
	pos, end := uint64(begin)-1, uint64(len(data))
	fits := func(size uint64) bool { return size <= end && pos <= end-size }
	var out []lua.Value
	for l.rest != "" {
		opt, n, err := l.next()
		if err != nil {
			return err
		}
		size := uint64(n)
		pos += l.padding(pos, opt, n)
		if !fits(size) {
			return c.ArgError(1, "data string too short")
		}
		if c.Len()+len(out)+2 > maxStack {
			return c.Errorf("stack overflow (too many results)")
		}
		switch opt {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			out = append(out, lua.Number(readInt(data[pos:pos+size], l.big, opt >= 'a')))
		case 'x':
		case 'f':
			f := math.Float32frombits(uint32(readUint(data[pos:pos+4], l.big)))
			out = append(out, lua.Number(float64(f)))
		case 'd':
			out = append(out, lua.Number(math.Float64frombits(readUint(data[pos:pos+8], l.big))))
		case 'c':
			if size == 0 {
				before := lua.Nil
				if len(out) > 0 {
					before = out[len(out)-1]
				}
				f, ok := before.ToNumber()
				if !ok {
					return c.Errorf("format 'c0' needs a previous size")
				}
				out = out[:len(out)-1]
				if size = truncateUnsigned(f); !fits(size) {
					return c.ArgError(1, "data string too short")
				}
			}
			if out, err = appendString(c.State(), out, data[pos:pos+size]); err != nil {
				return err
			}
		case 's':
			n := strings.IndexByte(data[pos:], 0)
			if n < 0 {
				return c.Errorf("unfinished string in data")
			}
			size = uint64(n) + 1
			if out, err = appendString(c.State(), out, data[pos:pos+size-1]); err != nil {
				return err
			}
		default:
			if err := l.control(opt); err != nil {
				return err
			}
		}
		pos += size
	}
	c.Return(out...)
	c.Return(lua.Number(float64(int64(pos + 1))))
	return nil
}

// readUint reads an unsigned integer: the eight bytes of least weight.
func readUint(data string, big bool) uint64 {
	var b [8]byte
	for i := range min(len(data), 8) {
		if big {
			b[i] = data[len(data)-1-i]
		} else {
			b[i] = data[i]
		}
	}
	return binary.LittleEndian.Uint64(b[:])
}

// readInt reads an integer as a number. The sign of one of more than eight
// bytes is looked for where a 64-bit shift by its width ends up, modulo 64.
func readInt(data string, big, signed bool) float64 {
	v := readUint(data, big)
	if !signed {
		return float64(v)
	}
	mask := ^uint64(0) << ((len(data)*8 - 1) & 63)
	if v&mask != 0 {
		v |= mask
	}
	return float64(int64(v))
}
