package lua

import (
	"errors"
	"math"
	"math/bits"
	"unsafe"
)

// A table has an array for the keys 1..n and a hash for the rest. The hash is a
// chained scatter table with Brent's variation, in which every entry lies in
// one array of nodes: a key that collides with one that is not in its main position
// moves that one away. Sizes, hashes and positions are those of Lua 5.1 as Redis builds
// it, for one reason: pairs, and so cjson.encode, walks the nodes in their order, and
// clients of scripts have come to depend on that order.
//
// An entry that is set to nil stays in its node, so that next can go on from
// it, until the table is rebuilt because it has no free node left.

// Errors of Table.Set and Table.Next; the VM adds the place.
var (
	errNilIndex   = errors.New("table index is nil")
	errNaNIndex   = errors.New("table index is NaN")
	errReadonly   = errors.New("Attempt to modify a readonly table")
	errOverflow   = errors.New("table overflow")
	errInvalidKey = errors.New("invalid key to 'next'")
)

type node struct {
	key, val Value
	next     int32 // the next node of the chain, -1 at its end
	hash     uint32
}

// Table is Lua's table. Its methods are raw: they call no metamethods.
type Table struct {
	arr   []Value
	nodes []node // a power of two, or none
	free  int32  // no node from here on is free
	flags uint8  // bit set: the metamethod is known to be absent, see events
	ro    bool
	mark  uint32
	id    uint32
	meta  *Table
	st    *State // the state that the memory is counted for
}

const (
	tableSize = int64(unsafe.Sizeof(Table{}))
	nodeSize  = int64(unsafe.Sizeof(node{}))
	valueSize = int64(unsafe.Sizeof(Value{}))
	maxBits   = 26
)

// Value returns the table as a value.
func (t *Table) Value() Value { return Value{unsafe.Pointer(t), uint64(KindTable)} }

// Meta returns the metatable, or nil.
func (t *Table) Meta() *Table { return t.meta }

// SetMeta sets the metatable; nil removes it.
func (t *Table) SetMeta(m *Table) { t.meta = m }

// SetReadonly makes every later change of the table an error, or allows it again.
func (t *Table) SetReadonly(b bool) { t.ro = b }

// Readonly reports whether the table refuses changes.
func (t *Table) Readonly() bool { return t.ro }

// hashString is the hash of Redis's Lua, which reads all bytes, from the end.
func hashString(s string) uint32 {
	h := uint32(len(s))
	for i := len(s) - 1; i >= 0; i-- {
		h ^= h<<5 + h>>2 + uint32(s[i])
	}
	return h
}

// charge counts the work to hash a long string, whose hash is not cached.
func (t *Table) charge(n int) {
	if n > 256 && t.st != nil {
		t.st.left -= n >> 3
	}
}

func hashFloat(f float64) uint32 {
	b := math.Float64bits(f)
	return uint32(b) + uint32(b>>32)
}

// hash returns the hash of a key. The main position is the hash masked for strings and
// booleans, and a remainder for others.
func (v Value) hash() uint32 {
	switch v.Kind() {
	case KindNumber:
		return hashFloat(v.float())
	case KindString:
		return hashString(v.str())
	case KindBool:
		return uint32(v.n >> 8)
	case KindTable:
		return address(v.table().id)
	case KindFunction:
		return address(v.fn().id)
	case KindUserdata:
		if v.p != nil {
			return address(v.userdata().id)
		}
		return 0
	default:
		return address(v.thread().id)
	}
}

// address returns the low half of the address that tostring shows.
func address(id uint32) uint32 { return 0x4000_0000 + id*64 }

// place returns the node where a key belongs.
func (t *Table) place(k Value, hash uint32) int32 {
	mask := uint32(len(t.nodes) - 1)
	if k.isNumber() {
		if k.float() == 0 { // 0 and -0 are one key
			return 0
		}
		return int32(hash % (mask | 1))
	}
	if kind := Kind(k.n); kind == KindString || kind == KindBool {
		return int32(hash & mask)
	}
	return int32(hash % (mask | 1))
}

// arrayIndex returns a key as an integer, if an array could have that index.
func arrayIndex(f float64) (int, bool) {
	i := int(int32(f))
	return i, float64(i) == f
}

// Get returns the value of a key, or nil.
func (t *Table) Get(k Value) Value {
	if k.isNumber() {
		f := k.float()
		if i, ok := arrayIndex(f); ok {
			if uint(i-1) < uint(len(t.arr)) {
				return t.arr[i-1]
			}
		}
		return t.getFloat(f)
	}
	if k.isString() {
		s := k.str()
		t.charge(len(s))
		return t.getHashed(k, hashString(s))
	}
	if n := t.find(k); n != nil {
		return n.val
	}
	return Nil
}

// GetInt is Get of an integer.
func (t *Table) GetInt(i int) Value {
	if uint(i-1) < uint(len(t.arr)) {
		return t.arr[i-1]
	}
	return t.getFloat(float64(i))
}

// GetStr is Get of a string.
func (t *Table) GetStr(s string) Value {
	if len(t.nodes) == 0 {
		return Nil
	}
	return t.getHashed(String(s), hashString(s))
}

func (t *Table) getFloat(f float64) Value {
	if n := t.findFloat(f); n != nil {
		return n.val
	}
	return Nil
}

func (t *Table) findFloat(f float64) *node {
	if len(t.nodes) == 0 {
		return nil
	}
	i := int32(0)
	if f != 0 {
		i = int32(hashFloat(f) % (uint32(len(t.nodes)-1) | 1))
	}
	for i >= 0 {
		n := &t.nodes[i]
		if n.key.isNumber() && n.key.float() == f {
			return n
		}
		i = n.next
	}
	return nil
}

// getHashed returns the value of a string key whose hash is known.
func (t *Table) getHashed(k Value, hash uint32) Value {
	if n := t.findHashed(k, hash); n != nil {
		return n.val
	}
	return Nil
}

func (t *Table) findHashed(k Value, hash uint32) *node {
	if len(t.nodes) == 0 {
		return nil
	}
	i := int32(hash & uint32(len(t.nodes)-1))
	for steps := 0; ; steps++ {
		n := &t.nodes[i]
		if n.key.n == k.n && (n.key.p == k.p || n.hash == hash && !n.key.isNumber() && n.key.str() == k.str()) {
			return n
		}
		if i = n.next; i < 0 {
			if steps > 8 && t.st != nil {
				t.st.left -= steps // a script may have chosen colliding keys
			}
			return nil
		}
	}
}

// find returns the node of a key, whatever kind it has, or nil.
func (t *Table) find(k Value) *node {
	switch {
	case len(t.nodes) == 0 || k.IsNil():
		return nil
	case k.isNumber():
		return t.findFloat(k.float())
	case k.isString():
		return t.findHashed(k, hashString(k.str()))
	}
	for i := t.place(k, k.hash()); i >= 0; {
		n := &t.nodes[i]
		if n.key == k {
			return n
		}
		i = n.next
	}
	return nil
}

// Set sets a key; nil removes it.
func (t *Table) Set(k, v Value) error {
	if t.ro {
		return errReadonly
	}
	return t.set(k, v)
}

// SetInt is Set of an integer.
func (t *Table) SetInt(i int, v Value) error {
	if t.ro {
		return errReadonly
	}
	if uint(i-1) < uint(len(t.arr)) {
		t.arr[i-1] = v
		t.flags = 0
		return nil
	}
	return t.set(Number(float64(i)), v)
}

// SetStr is Set of a string.
func (t *Table) SetStr(s string, v Value) error {
	return t.Set(String(s), v)
}

// set is Set without the check whether the table is read-only.
func (t *Table) set(k, v Value) error {
	slot, err := t.slot(k)
	if err != nil {
		return err
	}
	*slot = v
	return nil
}

// slot returns where the value of a key is stored, and makes it if need be. It
// is valid until the next key is made.
func (t *Table) slot(k Value) (*Value, error) {
	t.flags = 0
	if k.isNumber() {
		f := k.float()
		if i, ok := arrayIndex(f); ok && uint(i-1) < uint(len(t.arr)) {
			return &t.arr[i-1], nil
		}
		if n := t.findFloat(f); n != nil {
			return &n.val, nil
		}
		if f != f {
			return nil, errNaNIndex
		}
		return t.insert(k, hashFloat(f))
	}
	if k.IsNil() {
		return nil, errNilIndex
	}
	hash := k.hash()
	if k.isString() {
		t.charge(len(k.str()))
		if n := t.findHashed(k, hash); n != nil {
			return &n.val, nil
		}
	} else if n := t.find(k); n != nil {
		return &n.val, nil
	}
	return t.insert(k, hash)
}

// insert makes a node for a key that the table does not have.
func (t *Table) insert(k Value, hash uint32) (*Value, error) {
	if len(t.nodes) == 0 {
		return t.grow(k)
	}
	at := t.place(k, hash)
	n := &t.nodes[at]
	if !n.val.IsNil() {
		spare := t.freeNode()
		if spare < 0 {
			return t.grow(k)
		}
		s := &t.nodes[spare]
		if home := t.place(n.key, n.hash); home != at {
			// The node's key is not in its main position: it moves to the free node.
			for t.nodes[home].next != at {
				home = t.nodes[home].next
			}
			t.nodes[home].next = spare
			*s = *n
			n.next = -1
			n.val = Nil
		} else {
			s.next = n.next
			n.next = spare
			n = s
		}
	}
	n.key, n.hash = k, hash
	return &n.val, nil
}

// freeNode returns a node without a key, from the end, or -1.
func (t *Table) freeNode() int32 {
	for t.free > 0 {
		t.free--
		if t.nodes[t.free].key.IsNil() {
			return t.free
		}
	}
	return -1
}

func ceilLog2(n int) int {
	if n <= 1 {
		return 0
	}
	return bits.Len(uint(n - 1))
}
