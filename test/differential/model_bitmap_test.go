package differential

import (
	"math/big"
	"strings"
)

const (
	badBit       = "ERR bit is not an integer or out of range"
	badBitOffset = "ERR bit offset is not an integer or out of range"
	badBitType   = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
)

// bitOffset parses an offset; width > 0 allows the form #n.
func bitOffset(s string, width int64) (int64, bool) {
	times := int64(1)
	if rest, ok := strings.CutPrefix(s, "#"); ok && width > 0 {
		s, times = rest, width
	}
	n, ok := integer(s)
	n *= times // wraps, as it does in Redis
	return n, ok && n >= 0 && n>>3 < maxBulk
}

func bitAt(s string, i int64) int64 {
	if i>>3 >= int64(len(s)) {
		return 0
	}
	return int64(s[i>>3]>>(7-i&7)) & 1
}

func withBit(b []byte, i, bit int64) {
	mask := byte(1) << (7 - i&7)
	b[i>>3] &^= mask
	if bit == 1 {
		b[i>>3] |= mask
	}
}

func padded(s string, n int64) []byte {
	b := []byte(s)
	if grow := n - int64(len(b)); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	return b
}

func (m *model) setBit(_ string, a []string) string {
	at, ok := bitOffset(a[1], 0)
	if !ok {
		return fail(badBitOffset)
	}
	bit, ok := integer(a[2])
	if !ok || bit != 0 && bit != 1 {
		return fail(badBit)
	}
	e, _ := m.get(a[0])
	old := bitAt(e.val, at)
	b := padded(e.val, at/8+1)
	withBit(b, at, bit)
	m.put(a[0], entry{val: string(b), exp: e.exp, enc: "raw"})
	return num(old)
}

func (m *model) getBit(_ string, a []string) string {
	at, ok := bitOffset(a[1], 0)
	if !ok {
		return fail(badBitOffset)
	}
	e, _ := m.get(a[0])
	return num(bitAt(e.val, at))
}

// unit reads BIT or BYTE.
func unit(s string) (bits, ok bool) {
	return strings.EqualFold(s, "bit"), strings.EqualFold(s, "bit") || strings.EqualFold(s, "byte")
}

func (m *model) bitCount(_ string, a []string) string {
	e, found := m.get(a[0])
	if !found {
		return num(0)
	}
	lo, hi := int64(0), int64(len(e.val))*8-1
	switch len(a) {
	case 1:
	case 3, 4:
		x, ok1 := integer(a[1])
		y, ok2 := integer(a[2])
		if !ok1 || !ok2 {
			return fail(notInt)
		}
		if x < 0 && y < 0 && x > y {
			return num(0)
		}
		bits := false
		if len(a) == 4 {
			var ok bool
			if bits, ok = unit(a[3]); !ok {
				return fail(syntax)
			}
		}
		lo, hi = bitSpan(x, y, int64(len(e.val)), bits)
	default:
		return fail(syntax)
	}
	n := int64(0)
	for i := lo; i <= hi; i++ {
		n += bitAt(e.val, i)
	}
	return num(n)
}

// bitSpan is span in bits.
func bitSpan(x, y, bytes int64, bits bool) (int64, int64) {
	if bits {
		return span(x, y, bytes*8)
	}
	if x, y = span(x, y, bytes); x > y {
		return 1, 0
	}
	return x * 8, y*8 + 7
}

func (m *model) bitPos(_ string, a []string) string {
	bit, ok := integer(a[1])
	if !ok {
		return fail(notInt)
	}
	if bit != 0 && bit != 1 {
		return fail("ERR The bit argument must be 1 or 0.")
	}
	e, found := m.get(a[0])
	if !found {
		return num(-bit)
	}
	n := int64(len(e.val))
	lo, hi, open := int64(0), n*8-1, true
	if len(a) > 5 {
		return fail(syntax)
	}
	if len(a) > 2 {
		x, ok := integer(a[2])
		if !ok {
			return fail(notInt)
		}
		y, bits := n-1, false
		if len(a) == 5 {
			if bits, ok = unit(a[4]); !ok {
				return fail(syntax)
			}
		}
		if len(a) > 3 {
			if y, ok = integer(a[3]); !ok {
				return fail(notInt)
			}
			open = false
		}
		lo, hi = bitSpan(x, y, n, bits)
	}
	if lo > hi {
		return num(-1)
	}
	for i := lo; i <= hi; i++ {
		if bitAt(e.val, i) == bit {
			return num(i)
		}
	}
	if bit == 0 && open {
		return num(hi + 1)
	}
	return num(-1)
}

func (m *model) bitOp(_ string, a []string) string {
	op := strings.ToLower(a[0])
	switch op {
	case "and", "or", "xor", "one":
	case "diff", "diff1", "andor":
		if len(a) < 4 {
			return fail("ERR BITOP %s must be called with at least two source keys.", strings.ToUpper(op))
		}
	case "not":
		if len(a) != 3 {
			return fail("ERR BITOP NOT must be called with a single source key.")
		}
	default:
		return fail(syntax)
	}
	longest := 0
	var vals []string
	for _, k := range a[2:] {
		e, _ := m.get(k)
		vals = append(vals, e.val)
		longest = max(longest, len(e.val))
	}
	if longest == 0 {
		m.del(a[1])
		return num(0)
	}
	out := make([]byte, longest)
	for i := range out {
		at := func(s string) byte {
			if i < len(s) {
				return s[i]
			}
			return 0
		}
		first, all, any, odd := at(vals[0]), byte(0xff), byte(0), byte(0)
		rest, twice := byte(0), byte(0) // in another than the first; in more than one
		for j, v := range vals {
			c := at(v)
			twice |= any & c
			all, any, odd = all&c, any|c, odd^c
			if j > 0 {
				rest |= c
			}
		}
		switch op {
		case "and":
			out[i] = all
		case "or":
			out[i] = any
		case "xor":
			out[i] = odd
		case "not":
			out[i] = ^first
		case "one":
			out[i] = any &^ twice
		case "diff":
			out[i] = first &^ rest
		case "diff1":
			out[i] = rest &^ first
		case "andor":
			out[i] = first & rest
		}
	}
	m.put(a[1], entry{val: string(out), enc: "raw"})
	return num(int64(longest))
}

// field is one operation of BITFIELD.
type field struct {
	op, overflow string
	signed       bool
	width, at    int64
	arg          int64
}

func parseFields(a []string) (fields []field, err string) {
	overflow := "wrap"
	for i := 0; i < len(a); {
		f := field{op: strings.ToLower(a[i]), overflow: overflow}
		need := map[string]int{"get": 2, "set": 3, "incrby": 3, "overflow": 1}[f.op]
		if need == 0 || i+need >= len(a) {
			return nil, fail(syntax)
		}
		args := a[i+1 : i+1+need]
		i += 1 + need
		if f.op == "overflow" {
			overflow = strings.ToLower(args[0])
			if overflow != "wrap" && overflow != "sat" && overflow != "fail" {
				return nil, fail("ERR Invalid OVERFLOW type specified")
			}
			continue
		}
		f.signed = strings.HasPrefix(args[0], "i")
		ok := f.signed || strings.HasPrefix(args[0], "u")
		if ok {
			f.width, ok = integer(args[0][1:])
		}
		if !ok || f.width < 1 || f.width > 64 || f.width == 64 && !f.signed {
			return nil, fail(badBitType)
		}
		if f.at, ok = bitOffset(args[1], f.width); !ok {
			return nil, fail(badBitOffset)
		}
		if need == 3 {
			if f.arg, ok = integer(args[2]); !ok {
				return nil, fail(notInt)
			}
		}
		fields = append(fields, f)
	}
	return fields, ""
}

func (m *model) bitField(name string, a []string) string {
	fields, err := parseFields(a[1:])
	if err != "" {
		return err
	}
	e, _ := m.get(a[0])
	end := int64(0) // bytes that writes need
	for _, f := range fields {
		if f.op != "get" {
			end = max(end, (f.at+f.width-1)/8+1)
		}
	}
	if end > 0 && name == "bitfield_ro" {
		return fail("ERR BITFIELD_RO only supports the GET subcommand")
	}
	b := padded(e.val, end)
	var replies []string
	for _, f := range fields {
		old := f.read(string(b))
		if f.op == "get" {
			replies = append(replies, ":"+old.String()+"\r\n")
			continue
		}
		// SET takes its argument as a 64-bit word: unsigned fields see a
		// negative one as a very large number.
		want := big.NewInt(f.arg)
		if f.op == "incrby" {
			want.Add(want, old)
		} else if !f.signed && f.arg < 0 {
			want.Add(want, new(big.Int).Lsh(big.NewInt(1), 64))
		}
		fit, over := f.fit(want)
		if over && f.overflow == "fail" {
			replies = append(replies, m.null())
			continue
		}
		for i := range f.width {
			withBit(b, f.at+i, int64(fit.Bit(int(f.width-1-i))))
		}
		if f.op == "incrby" {
			old = f.read(string(b))
		}
		replies = append(replies, ":"+old.String()+"\r\n")
	}
	if end > 0 {
		m.put(a[0], entry{val: string(b), exp: e.exp, enc: "raw"})
	}
	return array(replies...)
}

func (f *field) read(s string) *big.Int {
	n := new(big.Int)
	for i := range f.width {
		n.Lsh(n, 1).Or(n, big.NewInt(bitAt(s, f.at+i)))
	}
	if f.signed && n.Bit(int(f.width-1)) == 1 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(f.width)))
	}
	return n
}

// fit makes a number one that the field can hold; its low bits count.
func (f *field) fit(n *big.Int) (*big.Int, bool) {
	lo, hi := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(f.width))
	if f.signed {
		hi.Rsh(hi, 1)
		lo.Neg(hi)
	}
	hi.Sub(hi, big.NewInt(1))
	switch {
	case n.Cmp(lo) >= 0 && n.Cmp(hi) <= 0:
		return n, false
	case f.overflow != "sat":
		return n, true
	case n.Cmp(lo) < 0 && f.op == "set" && !new(big.Int).Sub(hi, n).IsInt64():
		return hi, true // an oddity of Redis: it computes that difference in 64 bits
	case n.Cmp(lo) < 0:
		return lo, true
	}
	return hi, true
}
