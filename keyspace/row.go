// Package keyspace maps Redis keys to rows: their layout, databases, expiry,
// collection ids, and walking over keys. FORMAT.md draws every row.
//
// The package offers handlers a Tx: Redis keys on top of an engine's transaction. It
// has no commands and no replies.
package keyspace

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// FormatVersion is the version of the row layout in FORMAT.md. It changes when
// a row that an older version wrote would be read differently.
const FormatVersion = 1

// Slots is the number of hash slots.
const Slots = 16384

// The kinds of rows, second in a row's key behind the slot. The numbers are on
// disk: never reuse one.
const (
	kindMeta    = 0x01
	kindSub     = 0x02
	kindScore   = 0x03
	kindRank    = 0x04
	kindExpire  = 0x05
	kindGarbage = 0x06
)

// System rows begin with 0xff, which no slot does.
const (
	system = 0xff

	sysDatabase  = 0x01 // database:2 -> ks:4
	sysKeys      = 0x02 // counter: ks:4, how many keys
	sysVolatile  = 0x03 // counter: ks:4, how many keys with an expiry
	sysDead      = 0x04 // ks:4 -> empty: a keyspace to be cleared
	sysNextKS    = 0x05 // -> ks:4, the keyspace number given last
	sysWatermark = 0x06 // id:8 -> empty: every id in use is below the largest
	sysFormat    = 0x07 // -> version:4, FormatVersion of the program that made the store
	sysLibrary   = 0x08 // name -> source: a library of functions
	sysCatalog   = 0x09 // -> stamp:8, on shared stores: see catalog.go
	sysMember    = 0x0a // id:20 -> a process that uses a shared store
	sysSecret    = 0x0b // -> the secret by which those processes authenticate
	sysCopy      = 0x0c // -> mark of an unfinished copy or import into this store
	sysRole      = 0x0d // -> of which master the store is a replica
	sysPosition  = 0x0e // -> id:40 offset:8 database:4, up to where its stream is applied
)

// Type is the type of a key's value. The numbers are on disk.
type Type byte

const (
	None   Type = 0
	String Type = 1
	List   Type = 2
	Set    Type = 3
	ZSet   Type = 4
	Hash   Type = 5
	Stream Type = 6
	// Channel is a type that Redis does not have: messages, and subscribers with
	// their positions. Its encoding is always RowsTimed.
	Channel Type = 7
)

var typeNames = [...]string{"none", "string", "list", "set", "zset", "hash", "stream", "channel"}

// String returns the name that TYPE replies.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type-%d", byte(t))
}

// Encoding is how a value is laid out in its meta row. The meaning depends
// on the type; the numbers are on disk and at most 15.
type Encoding byte

// The encodings of a string. Int, Embedded and Raw have their bytes in the
// meta row and differ only in what OBJECT ENCODING says; Chunked has a Ref.
const (
	Int      Encoding = 0
	Embedded Encoding = 1
	Raw      Encoding = 2
	Chunked  Encoding = 3
)

// The encodings of collections. Packed, Integers and PackedTimed have their
// elements in the meta row; Rows and RowsTimed have a Ref. The timed ones are for
// hashes with fields that expire, and for channels: see Meta.FieldTimes.
const (
	Packed      Encoding = 0
	Rows        Encoding = 1
	Integers    Encoding = 2 // a set of integers, packed in their order
	PackedTimed Encoding = 3
	RowsTimed   Encoding = 4
)

// Meta is a key's meta row: what the key is. The zero Meta means no key.
type Meta struct {
	Type     Type
	Encoding Encoding
	// Expire is the time of death in Unix milliseconds, or 0.
	Expire int64
	// Body is what follows: a string's bytes, a packed collection, or a Ref
	// and what the type keeps behind it. The Body of a Meta that Find returned
	// stays valid until the end of the execution and must not be changed.
	Body []byte
}

// Exists reports whether the key exists.
func (m Meta) Exists() bool { return m.Type != None }

// External reports whether the value has rows of its own, named by a Ref.
func (m Meta) External() bool {
	if m.Type == String {
		return m.Encoding == Chunked
	}
	return m.Encoding == Rows || m.Encoding == RowsTimed
}

// Timed reports whether parts of the value have times of death of their own: the fields
// of a hash, the messages and subscribers of a channel.
func (m Meta) Timed() bool {
	return m.Type == Hash && m.Encoding >= PackedTimed || m.Type == Channel
}

// FieldTimes are the times in the body of a timed value, in front of its elements
// and behind the Ref if there is one.
type FieldTimes struct {
	// Next is when the sweep visits the value: a hash not after the first field
	// expires, a channel up to a second after its first part expires. 0 is never.
	Next int64
	// End is when the last part expires, and with it the key; 0 if a part never
	// does.
	End int64
}

// FieldTimesSize is the length of encoded FieldTimes.
const FieldTimesSize = 16

// AppendFieldTimes appends the FieldTimes to a body.
func AppendFieldTimes(b []byte, f FieldTimes) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(f.Next))
	return binary.BigEndian.AppendUint64(b, uint64(f.End))
}

// FieldTimes decodes the FieldTimes of a timed value; they are zero for other values.
func (m Meta) FieldTimes() (f FieldTimes) {
	if m.Timed() {
		b := m.Body[m.refLen():]
		f.Next, f.End = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
	}
	return f
}

func (m Meta) refLen() int {
	if m.External() {
		return refSize
	}
	return 0
}

// death returns when the key dies, of itself or with its last field; 0 is never.
func (m Meta) death() int64 {
	if !m.Timed() {
		return m.Expire
	}
	return earlier(m.Expire, m.FieldTimes().End)
}

// dead reports whether the key is past its time.
func (m Meta) dead(now int64) bool {
	at := m.death()
	return at != 0 && at <= now
}

// due returns when the sweep must visit the key: the time of its expire row.
func (m Meta) due() int64 {
	if !m.Timed() {
		return m.Expire
	}
	return earlier(m.Expire, m.FieldTimes().Next)
}

// earlier returns the earlier one of two times, of which 0 means never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

const metaHead = 9

func appendMetaHead(b []byte, m Meta) []byte {
	b = append(b, byte(m.Type)<<4|byte(m.Encoding))
	return binary.BigEndian.AppendUint64(b, uint64(m.Expire))
}

func decodeMeta(v []byte) (Meta, error) {
	if len(v) < metaHead {
		return Meta{}, fmt.Errorf("%w: meta row of %d bytes", engine.ErrCorrupt, len(v))
	}
	m := Meta{
		Type:     Type(v[0] >> 4),
		Encoding: Encoding(v[0] & 15),
		Expire:   int64(binary.BigEndian.Uint64(v[1:])),
		Body:     v[metaHead:],
	}
	if m.Type == None || int(m.Type) >= len(typeNames) || m.Expire < 0 {
		return Meta{}, fmt.Errorf("%w: meta row begins with % x", engine.ErrCorrupt, v[:metaHead])
	}
	if m.Type == Channel && m.Encoding != RowsTimed {
		return Meta{}, fmt.Errorf("%w: a channel has the encoding %d", engine.ErrCorrupt, m.Encoding)
	}
	need := m.refLen()
	if m.Timed() {
		need += FieldTimesSize
	}
	if len(m.Body) < need {
		return Meta{}, fmt.Errorf("%w: meta row has no room for its id or times", engine.ErrCorrupt)
	}
	return m, nil
}

// Ref names the rows of an external value: their id, the slot in which they lie, and
// how many elements or bytes the value has.
type Ref struct {
	ID   uint64
	Home uint16
	Size int64
}

const refSize = 18

// RefSize is the length of an encoded Ref.
const RefSize = refSize

// AppendRef appends the ref to a meta row's body.
func AppendRef(b []byte, r Ref) []byte {
	b = binary.BigEndian.AppendUint64(b, r.ID)
	b = binary.BigEndian.AppendUint16(b, r.Home)
	return binary.BigEndian.AppendUint64(b, uint64(r.Size))
}

// Ref decodes the ref at the start of the body of an external value.
func (m Meta) Ref() Ref {
	return Ref{
		ID:   binary.BigEndian.Uint64(m.Body),
		Home: binary.BigEndian.Uint16(m.Body[8:]),
		Size: int64(binary.BigEndian.Uint64(m.Body[10:])),
	}
}

// Kind is a kind of the own rows of an external value.
type Kind byte

const (
	SubRow   Kind = kindSub
	ScoreRow Kind = kindScore
	RankRow  Kind = kindRank
)

// AppendRowKey appends the start of the key of a value's row: the type appends the
// rest.
func AppendRowKey(b []byte, r Ref, k Kind) []byte { return appendPart(b, r.Home, byte(k), r.ID) }

// RowKeyHead is the length of what AppendRowKey appends.
const RowKeyHead = partHead

// appendMetaKey appends the key of a meta row.
func appendMetaKey(b []byte, slot uint16, ks uint32, key []byte) []byte {
	b = append(b, byte(slot>>8), byte(slot), kindMeta, byte(ks>>24), byte(ks>>16), byte(ks>>8), byte(ks))
	return append(b, key...)
}

const metaKeyHead = 7

// appendPart appends the common start of the keys of one kind of a value's
// rows.
func appendPart(b []byte, home uint16, kind byte, id uint64) []byte {
	b = append(b, byte(home>>8), byte(home), kind)
	return binary.BigEndian.AppendUint64(b, id)
}

// partHead is the length of what appendPart appends.
const partHead = 11

// RowGroup is the length of the key prefix by which a batch groups rows
// (engine.Batch.GroupBy): about the rows of one kind of a value. The last two bytes of the id
// are left out, so that a range up to the first key behind the value's rows lies in one group.
const RowGroup = partHead - 2

// expireGroup is how many slots share one ordered run of expire rows.
const expireGroup = 64

// appendExpireKey appends the key of an expire row.
func appendExpireKey(b []byte, slot uint16, at int64, ks uint32, key []byte) []byte {
	group := slot &^ (expireGroup - 1)
	b = append(b, byte(group>>8), byte(group), kindExpire)
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = append(b, byte(slot>>8), byte(slot), byte(ks>>24), byte(ks>>16), byte(ks>>8), byte(ks))
	return append(b, key...)
}

const expireKeyHead = 17

type expireRow struct {
	at   int64
	slot uint16
	ks   uint32
	key  []byte
}

func decodeExpireKey(k []byte) (expireRow, error) {
	if len(k) < expireKeyHead || k[2] != kindExpire {
		return expireRow{}, fmt.Errorf("%w: expire row % x", engine.ErrCorrupt, k)
	}
	return expireRow{
		at:   int64(binary.BigEndian.Uint64(k[3:])),
		slot: binary.BigEndian.Uint16(k[11:]),
		ks:   binary.BigEndian.Uint32(k[13:]),
		key:  k[expireKeyHead:],
	}, nil
}

func sysKey(what byte) []byte { return []byte{system, what} }

func sysKey16(what byte, n int) []byte {
	return []byte{system, what, byte(n >> 8), byte(n)}
}

func appendSysKey32(b []byte, what byte, n uint32) []byte {
	return append(b, system, what, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func appendSysKey64(b []byte, what byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, system, what), n)
}

// successor returns the smallest key above every key that begins with prefix;
// nil if there is none.
func successor(prefix []byte) []byte { return successorIn(append([]byte(nil), prefix...)) }

// successorIn is successor that overwrites the prefix.
func successorIn(s []byte) []byte {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i]++; s[i] != 0 {
			return s[:i+1]
		}
	}
	return nil
}

// Unit returns the length of the prefix that a row's key shares with the rows of
// its unit, for engines that track what they have in memory: the keys of a slot, or
// the rows of one kind of a value. key may be only the beginning of a row's key.
func Unit(key []byte) int {
	switch {
	case len(key) > 2 && key[0] != system && key[2] >= kindSub && key[2] <= kindRank:
		return partHead
	case len(key) > 0 && key[0] == system:
		return 2
	}
	return 3
}
