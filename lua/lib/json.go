package lib

import (
	"fmt"
	"math"

	"redoubt/lua"
)

// settings are shared by the functions of one cjson table. cjson.new makes a
// table with settings of its own.
type settings struct {
	sparseConvert   bool // an array with too many holes becomes an object
	sparseRatio     int32
	sparseSafe      int32
	encodeDepth     int32
	decodeDepth     int32
	encodeNonFinite nonFinite
	decodeLoose     bool // numbers that are not JSON's
	keepBuffer      bool // changes nothing but what it says
	precision       int32

	spare []byte // for the next result
}

// nonFinite says what becomes of infinities and NaN.
type nonFinite int

const (
	nonFiniteError nonFinite = iota
	nonFiniteText
	nonFiniteNull
)

func defaultSettings() settings {
	return settings{
		sparseRatio: 2, sparseSafe: 10, encodeDepth: 1000, decodeDepth: 1000,
		decodeLoose: true, keepBuffer: true, precision: 14,
	}
}

func (set *settings) reset() {
	spare := set.spare
	*set = defaultSettings()
	set.spare = spare
}

func openJSON(s *lua.State) *settings {
	t := s.NewTable(0, 0)
	set := fillJSON(s, t)
	publish(s, "cjson", t)
	return set
}

// fillJSON makes a cjson table of an empty one. The order in which it is filled
// is Redis's, too: it decides in which order a script sees it.
func fillJSON(s *lua.State, t *lua.Table) *settings {
	set := new(settings)
	set.reset()
	s.Register(t, "encode", set.encode)
	s.Register(t, "decode", set.decode)
	s.Register(t, "encode_sparse_array", set.encodeSparseArray)
	s.Register(t, "encode_max_depth", limit(&set.encodeDepth, 1, math.MaxInt32))
	s.Register(t, "decode_max_depth", limit(&set.decodeDepth, 1, math.MaxInt32))
	s.Register(t, "encode_number_precision", limit(&set.precision, 1, 14))
	s.Register(t, "encode_keep_buffer", toggle(&set.keepBuffer))
	s.Register(t, "encode_invalid_numbers", set.encodeInvalidNumbers)
	s.Register(t, "decode_invalid_numbers", toggle(&set.decodeLoose))
	s.Register(t, "new", newJSON)
	// A string is a valid key, and a limit of memory shows with the next allocation.
	_ = t.SetStr("null", lua.Null)
	_ = t.SetStr("_NAME", lua.String("cjson"))
	_ = t.SetStr("_VERSION", lua.String("2.1.0"))
	return set
}

// jsonSize is about what the functions of a cjson table take.
const jsonSize = 2 << 10

// newJSON is cjson.new. A table that it makes may be changed.
func newJSON(c *lua.Call) error {
	if err := c.State().Alloc(jsonSize); err != nil {
		return err
	}
	t, err := newTable(c.State())
	if err != nil {
		return err
	}
	fillJSON(c.State(), t)
	c.Return(t.Value())
	return nil
}

func tooMany(c *lua.Call, most int) error {
	if c.Len() > most {
		return c.ArgError(most, "found too many arguments")
	}
	return nil
}

// limit returns the function that shows and sets a number.
func limit(at *int32, lowest, highest int32) lua.Func {
	return func(c *lua.Call) error {
		if err := tooMany(c, 1); err != nil {
			return err
		}
		return setLimit(c, 0, at, lowest, highest)
	}
}

func setLimit(c *lua.Call, arg int, at *int32, lowest, highest int32) error {
	if !c.Arg(arg).IsNil() {
		n, err := c.CheckInt(arg)
		if err != nil {
			return err
		}
		v := int32(n) // cut, as a C int is
		if v < lowest || v > highest {
			// Redis says argument 1, whichever it was.
			return c.ArgError(0, fmt.Sprintf("expected integer between %d and %d", lowest, highest))
		}
		*at = v
	}
	c.Return(lua.Number(float64(*at)))
	return nil
}

// toggle returns the function that shows and sets a switch.
func toggle(at *bool) lua.Func {
	return func(c *lua.Call) error {
		if err := tooMany(c, 1); err != nil {
			return err
		}
		return setToggle(c, 0, at)
	}
}

func setToggle(c *lua.Call, arg int, at *bool) error {
	n := 0
	if *at {
		n = 1
	}
	if err := choose(c, arg, &n, "off", "on"); err != nil {
		return err
	}
	*at = n == 1
	return nil
}

// choose shows and sets one of several words, of which the first two may also
// be given as false and true, and are shown so.
func choose(c *lua.Call, arg int, at *int, words ...string) error {
	switch v := c.Arg(arg); {
	case v.IsNil():
	case v.Kind() == lua.KindBool:
		*at = 0
		if v.Truth() {
			*at = 1
		}
	default:
		word, err := c.CheckString(arg)
		if err != nil {
			return err
		}
		word = cString(word)
		found := -1
		for i, w := range words {
			if w == word {
				found = i
			}
		}
		if found < 0 {
			return c.ArgError(arg, "invalid option '"+word+"'")
		}
		*at = found
	}
	if *at < 2 {
		c.Return(lua.Bool(*at == 1))
	} else {
		c.Return(lua.String(words[*at]))
	}
	return nil
}

func (set *settings) encodeSparseArray(c *lua.Call) error {
	if err := tooMany(c, 3); err != nil {
		return err
	}
	if err := setToggle(c, 0, &set.sparseConvert); err != nil {
		return err
	}
	if err := setLimit(c, 1, &set.sparseRatio, 0, math.MaxInt32); err != nil {
		return err
	}
	return setLimit(c, 2, &set.sparseSafe, 0, math.MaxInt32)
}

func (set *settings) encodeInvalidNumbers(c *lua.Call) error {
	if err := tooMany(c, 1); err != nil {
		return err
	}
	n := int(set.encodeNonFinite)
	if err := choose(c, 0, &n, "off", "on", "null"); err != nil {
		return err
	}
	set.encodeNonFinite = nonFinite(n)
	return nil
}
