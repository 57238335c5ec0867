package command

import (
	"strings"

	"redoubt/number"
)

// KeySpec says which arguments of a command are keys, in Redis's terms: where the first one is,
// and how the others follow.
type KeySpec struct {
	Flags KeyFlags
	Begin Begin
	Find  Find
	Notes string
	// Search finds the keys of a spec whose Begin is Unknown, as far as the arguments name them.
	Search func(args [][]byte, visit func(i int))
	// Vary returns what a call does with the keys of a spec with VariableFlags.
	Vary func(args [][]byte) KeyFlags
}

// FlagsOf returns what a call does with the keys of the spec.
func (s *KeySpec) FlagsOf(args [][]byte) KeyFlags {
	if s.Vary != nil {
		return s.Vary(args)
	}
	return s.Flags &^ (Incomplete | VariableFlags)
}

// Begin is where the search for keys begins: at an index, or behind a keyword
// that is looked for from an index on (negative: backwards from the end).
type Begin struct {
	Index   int
	Keyword string
	From    int
	Unknown bool
}

// Find is how the other keys follow the first one: a range (last relative to the first, negative
// from the end; step; limit 2 means half of the arguments), or a number of keys that an argument
// has.
type Find struct {
	Last, Step, Limit   int
	KeyNum              bool // then the next three count
	NumIdx, First, Hops int
	Unknown             bool
}

// KeyFlags say what the command does with the keys.
type KeyFlags uint16

const (
	RW KeyFlags = 1 << iota
	RO
	OW
	RM
	Access
	Update
	Insert
	Delete
	NotKey
	Incomplete
	VariableFlags
)

// KeyFlagNames are the names of the flags, in Redis's order.
var KeyFlagNames = []struct {
	Flag KeyFlags
	Name string
}{
	{RO, "RO"}, {RW, "RW"}, {OW, "OW"}, {RM, "RM"}, {Access, "access"}, {Update, "update"}, {Insert, "insert"},
	{Delete, "delete"}, {NotKey, "not_key"}, {Incomplete, "incomplete"}, {VariableFlags, "variable_flags"},
}

// OneKey is a single key at an index.
func OneKey(index int, flags KeyFlags) []KeySpec { return KeyRange(index, 0, 1, flags) }

// KeyRange is keys from an index to a last one, which counts from the first or,
// when negative, from the end of the arguments.
func KeyRange(first, last, step int, flags KeyFlags) []KeySpec {
	return []KeySpec{{Flags: flags, Begin: Begin{Index: first}, Find: Find{Last: last, Step: step}}}
}

// KeyNum is keys whose number is given by the argument at an index.
func KeyNum(index int, flags KeyFlags) []KeySpec {
	return []KeySpec{{Flags: flags, Begin: Begin{Index: index}, Find: Find{KeyNum: true, First: 1, Hops: 1}}}
}

// OneKeyAt returns the index of the command's only key, if the command has just
// one and always at the same place: the common case, without a closure.
func (c *Command) OneKeyAt() (index int, one bool) {
	if len(c.Keys) != 1 {
		return 0, false
	}
	s := &c.Keys[0]
	fixed := s.Search == nil && s.Begin.Keyword == "" && !s.Begin.Unknown && s.Flags&NotKey == 0 &&
		!s.Find.KeyNum && !s.Find.Unknown && s.Find.Last == 0
	return s.Begin.Index, fixed
}

// EachKey calls visit with the index of every key argument. It returns false if the arguments do
// not match the specs, as with a number of keys that is no number.
func (c *Command) EachKey(args [][]byte, visit func(i int, s *KeySpec)) bool {
	for k := range c.Keys {
		s := &c.Keys[k]
		if s.Flags&NotKey != 0 {
			continue
		}
		if s.Search != nil {
			s.Search(args, func(i int) { visit(i, s) })
			continue
		}
		first, ok := s.begin(args)
		if !ok {
			if !s.Begin.Unknown { // they may be left out, as those of PFMERGE
				continue
			}
			return false
		}
		if !s.find(args, first, visit) {
			return false
		}
	}
	return true
}

func (s *KeySpec) begin(args [][]byte) (first int, ok bool) {
	b := s.Begin
	switch {
	case b.Unknown:
		return 0, false
	case b.Keyword == "":
		return b.Index, b.Index < len(args)
	case b.From > 0:
		for i := b.From; i < len(args)-1; i++ {
			if strings.EqualFold(string(args[i]), b.Keyword) {
				return i + 1, true
			}
		}
	default:
		for i := len(args) + b.From; i > 0; i-- {
			if strings.EqualFold(string(args[i]), b.Keyword) {
				return i + 1, i+1 < len(args)
			}
		}
	}
	return 0, false
}

func (s *KeySpec) find(args [][]byte, first int, visit func(int, *KeySpec)) bool {
	f := s.Find
	last, step := 0, max(1, f.Step)
	switch {
	case f.Unknown:
		return false
	case f.KeyNum:
		at := first + f.NumIdx
		if at >= len(args) {
			return false
		}
		n, ok := number.ParseInt(args[at])
		if !ok || n < 0 || n > int64(len(args)) {
			return false
		}
		first, step = first+f.First, max(1, f.Hops)
		last = first + (int(n)-1)*step
	case f.Last >= 0:
		last = first + f.Last
	default:
		last = len(args) + f.Last
		if f.Limit > 1 {
			last = first + (len(args)-first)/f.Limit + f.Last
		}
	}
	if last >= len(args) {
		return false
	}
	for i := first; i <= last; i += step {
		visit(i, s)
	}
	return true
}

// Legacy returns the first key, last key and step that COMMAND reports, which are older than key
// specs: those of the ranges that follow each other without a gap. Further keys are what the flag
// movablekeys stands for.
func (c *Command) Legacy() (first, last, step int) {
	for _, s := range c.Keys {
		if s.Begin.Keyword != "" || s.Begin.Unknown || s.Find.KeyNum || s.Find.Unknown {
			continue
		}
		end := s.Find.Last
		if end >= 0 {
			end += s.Begin.Index
		}
		switch {
		case first == 0 && (len(c.Keys) == 1 || s.Find.Step == 1):
			first, last, step = s.Begin.Index, end, s.Find.Step
		case first > 0 && s.Find.Step == 1 && last == s.Begin.Index-1:
			last = end
		}
	}
	return first, last, step
}

// varying makes the flags of the first spec depend on the call.
func varying(specs []KeySpec, vary func(args [][]byte) KeyFlags) []KeySpec {
	specs[0].Flags |= VariableFlags
	specs[0].Vary = vary
	return specs
}

// ChannelSpec says which arguments of a command are channels, and what the command does with
// them. Without flags there are none: to unsubscribe needs no permission.
type ChannelSpec struct {
	First, Last int // Last counts from First or, when negative, from the end of the arguments
	Flags       ChannelFlags
}

// ChannelFlags say what a command does with channels.
type ChannelFlags uint8

const (
	Publish ChannelFlags = 1 << iota
	Subscribe
	ChannelPattern // the arguments are patterns of channels
	ShardChannel
)

// Range returns the channels of a call with n arguments: those from one index to
// before another.
func (s *ChannelSpec) Range(n int) (from, to int) {
	if s.Flags == 0 {
		return 0, 0
	}
	to = s.First + s.Last + 1
	if s.Last < 0 {
		to = n + s.Last + 1
	}
	return s.First, min(to, n)
}
