// Package channel is the channel type: messages in the order in which they were
// published, each with an id of its own, and subscribers, each with a read position.
//
// A channel is always stored in rows. The body of its meta row is the Ref, whose size
// is the number of readable messages, keyspace.FieldTimes, and after them:
//
//	last:8 first:8 chain:8 rows:8 bytes:8 latest:8 end:8 expire:8 maxlen:8 maxbytes:8
//	subscribers:4 buckets:4 flags:1 secret:16
//
// Its sub rows, by their first byte:
//
//	00 position:8     message: flags:1 born:8 death:8 length:1 id content
//	01 bucket:4       ids: (hash:4 position:8)*
//	02 name           subscriber: position:8 death:8 page:2
//
// Its score rows, an index by time of death:
//
//	time:8 00 position:8    a message that does not die in the order of positions
//	time:8 01 page:2        subscribers: (length:1 name)*
//
// # Positions and clocks
//
// Each message has the position after that of the message before it. Positions only
// grow; the clock that clients see is the position folded into -(2^53-1) .. 2^53-1, so
// the clock wraps from the largest to the smallest value. Code that compares positions
// instead of clocks needs no care for the wrap. See Clock.
//
// # Death
//
// Messages and subscribers expire for every reader at their time of death; their rows
// are removed later, some by each publish, the others by the sweeper. Most messages live
// as long as their predecessors, so they die in the order of positions, and the first to
// die is found at chain. A message with a time of its own, or that dies before an older
// one because the setting was changed, has a score row instead. So dead messages are
// found without a scan. Subscribers die at rounded times, so that many share a score row;
// many names at one time are divided among pages.
//
// A message that MAXLEN or MAXBYTES trims keeps its row, without content, until its time
// of death: its id is still known. The rows of trimmed messages are those below first.
//
// A channel without messages and subscribers does not exist, unless it has settings or
// its clock was set.
//
//	c, err := channel.Open(tx, key, rules)
//	... c.Publish, c.Subscribe ...
//	c.Save()
//	c.Release()
package channel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types"
)

// Errors of channels. The texts that clients see are in package command.
var (
	// ErrNoSubscriber: there is no such subscriber, or its time is over.
	ErrNoSubscriber = errors.New("no such subscriber")
	// ErrHandle: a handle is malformed, or was not made for this channel and subscriber.
	ErrHandle = errors.New("invalid handle")
	// ErrHandleBeyond: a handle is of a message that the channel does not have yet.
	ErrHandleBeyond = errors.New("handle is beyond the clock")
	// ErrNotEmpty: the clock of a channel with subscribers or known ids cannot be set.
	ErrNotEmpty = errors.New("the channel is not empty")
)

// The kinds of sub rows, and of score rows (the byte after the time). The numbers are on disk.
const (
	rowMessage    = 0x00
	rowBucket     = 0x01
	rowSubscriber = 0x02

	dueMessage    = 0x00
	dueSubscriber = 0x01
)

// flagKept: the clock was set, so the channel is kept even when it is empty.
const flagKept = 0x01

// Channel is a channel as one execution sees it. A missing key is a channel without
// messages. A Channel must not be used after Release.
type Channel struct {
	tx    *keyspace.Tx
	key   []byte
	old   keyspace.Meta
	ref   keyspace.Ref
	rules Rule
	dirty bool // the meta row is to be written

	last, first int64 // positions: of the newest message, and of the first that can be read
	chain       int64 // no message below this one dies in the order of positions
	rows        int64 // messages with a row: those that can be read, and the trimmed
	bytes       int64 // ids and contents of the messages that can be read
	latest      int64 // death of the newest message that dies in the order of positions
	next        int64 // see keyspace.FieldTimes
	end         int64 // no message or subscriber dies later
	settings    Settings
	subscribers uint32
	buckets     uint32
	flags       byte
	secret      [secretSize]byte

	key1, key2 []byte // scratch for row keys
	val        []byte // scratch for values
	page       []byte // scratch for walks
	body       [bodySize]byte
}

// Settings are what CHCONFIG sets; 0 stands for none.
type Settings struct {
	Expire   int64 // lifetime of messages and subscribers, in milliseconds
	MaxLen   int64 // the most readable messages
	MaxBytes int64 // the most bytes of readable messages, ids included
}

const (
	tailAt     = keyspace.RefSize + keyspace.FieldTimesSize
	secretSize = 16
	bodySize   = tailAt + 10*8 + 4 + 4 + 1 + secretSize
)

var idle = sync.Pool{New: func() any { return new(Channel) }}

// Open opens a channel that is about to be changed.
func Open(tx *keyspace.Tx, key []byte, rules Rules) (*Channel, error) {
	return Of(tx, key, tx.Find(key), rules)
}

// Read opens a channel for reading: the lookup counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte, rules Rules) (*Channel, error) {
	return Of(tx, key, tx.Read(key), rules)
}

// Of returns the Channel of a meta row that Find returned.
func Of(tx *keyspace.Tx, key []byte, m keyspace.Meta, rules Rules) (*Channel, error) {
	if m.Type != keyspace.Channel && m.Exists() {
		return nil, types.ErrWrongType
	}
	c := idle.Get().(*Channel)
	c.tx, c.key, c.old = tx, key, m
	if rules != nil {
		c.rules = rules.Match(tx.DB, key)
	}
	if !m.Exists() {
		c.first, c.chain, c.buckets = 1, 1, 1
		return c, nil
	}
	if len(m.Body) != bodySize {
		tx.Fail(corrupt("a meta row has a body of %d bytes", len(m.Body)))
		return c, nil
	}
	c.decode(m)
	return c, nil
}

func (c *Channel) decode(m keyspace.Meta) {
	c.ref = m.Ref()
	c.next = m.FieldTimes().Next
	b := m.Body[tailAt:]
	for i, p := range [...]*int64{
		&c.last, &c.first, &c.chain, &c.rows, &c.bytes, &c.latest, &c.end, &c.settings.Expire, &c.settings.MaxLen, &c.settings.MaxBytes,
	} {
		*p = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	b = b[80:]
	c.subscribers, c.buckets, c.flags = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), b[8]
	copy(c.secret[:], b[9:])
	if c.buckets == 0 {
		c.tx.Fail(corrupt("a channel has no buckets"))
		c.buckets = 1
	}
}

func (c *Channel) encode() []byte {
	b := keyspace.AppendRef(c.body[:0], c.ref)
	times := keyspace.FieldTimes{Next: c.next, End: c.end}
	if c.keptWhenEmpty() {
		times.End = 0
	}
	b = keyspace.AppendFieldTimes(b, times)
	for _, n := range [...]int64{
		c.last, c.first, c.chain, c.rows, c.bytes, c.latest, c.end, c.settings.Expire, c.settings.MaxLen, c.settings.MaxBytes,
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = binary.BigEndian.AppendUint32(b, c.subscribers)
	b = binary.BigEndian.AppendUint32(b, c.buckets)
	return append(append(b, c.flags), c.secret[:]...)
}

// Release returns the Channel and its buffers to a pool.
func (c *Channel) Release() {
	keep := func(b []byte) []byte {
		if cap(b) > maxScratch {
			return nil
		}
		return b[:0]
	}
	*c = Channel{key1: keep(c.key1), key2: keep(c.key2), val: keep(c.val), page: keep(c.page)}
	idle.Put(c)
}

// maxScratch is the largest buffer that is kept for the next Channel.
const maxScratch = 64 << 10

// Exists reports whether the channel exists.
func (c *Channel) Exists() bool { return c.ref.ID != 0 }

// Len is the number of readable messages, including dead ones that are not removed yet:
// see Dead.
func (c *Channel) Len() int64 { return c.ref.Size }

// Last is the position of the newest message, First that of the first readable one, or
// the position after Last if there is none.
func (c *Channel) Last() int64  { return c.last }
func (c *Channel) First() int64 { return c.first }

// Bytes is the size of the readable messages in bytes, and IDs the number of known ids.
func (c *Channel) Bytes() int64 { return c.bytes }
func (c *Channel) IDs() int64   { return c.rows }

// Subscribers is the number of subscribers, including dead ones that are not removed
// yet.
func (c *Channel) Subscribers() int64 { return int64(c.subscribers) }

// Settings returns what CHCONFIG has set.
func (c *Channel) Settings() Settings { return c.settings }

// keptWhenEmpty reports whether the channel exists even without messages and subscribers.
func (c *Channel) keptWhenEmpty() bool { return c.settings != Settings{} || c.flags&flagKept != 0 }

// create creates the channel if it does not exist. seed, a random number of the
// execution, goes into the secret.
func (c *Channel) create(seed uint64) {
	if c.Exists() {
		return
	}
	c.ref = c.tx.NewRef(c.key, 0)
	c.secret = newSecret(seed, c.ref.ID, c.tx.NowMicros)
	c.dirty = true
}

// Configure changes the settings, and trims messages beyond them.
func (c *Channel) Configure(s Settings, seed uint64) {
	c.create(seed)
	c.expire(purgeStep)
	c.settings, c.dirty = s, true
	c.trim()
}

// SetClock sets the position after which the channel continues. It fails with
// ErrNotEmpty if the channel has subscribers or known ids.
func (c *Channel) SetClock(position int64, seed uint64) error {
	if c.rows > 0 || c.subscribers > 0 {
		return ErrNotEmpty
	}
	c.create(seed)
	c.last, c.first, c.chain = position, position+1, position+1
	c.flags |= flagKept
	c.dirty = true
	return nil
}

// Save stores the changes. It returns true if it removed the channel, which was empty.
func (c *Channel) Save() (gone bool) {
	if !c.dirty || c.tx.Err() != nil {
		return false
	}
	c.dirty = false
	if c.rows == 0 && c.subscribers == 0 && !c.keptWhenEmpty() {
		if c.old.Exists() {
			c.tx.Remove(c.key, c.old)
		}
		c.ref = keyspace.Ref{}
		return c.old.Exists()
	}
	m := keyspace.Meta{Type: keyspace.Channel, Encoding: keyspace.RowsTimed, Expire: c.old.Expire, Body: c.encode()}
	c.tx.Store(c.key, c.old, m)
	return false
}

// life is the lifetime of a new message or subscriber without one of its own.
func (c *Channel) life() int64 {
	switch {
	case c.settings.Expire > 0:
		return c.settings.Expire
	case c.rules.Expire > 0:
		return c.rules.Expire
	}
	return DefaultExpire
}

// Expire is the lifetime of new messages and subscribers, in milliseconds.
func (c *Channel) Expire() int64 { return c.life() }

// noteDeath updates the times of the meta row for a message or subscriber that dies at at.
func (c *Channel) noteDeath(at int64) {
	if at > c.end {
		c.end, c.dirty = at, true
	}
	if at += c.delay(); c.next == 0 || at < c.next {
		c.next, c.dirty = at, true
	}
}

// delay is the time from the first death to the sweep, so that one sweep removes several
// parts, and the row that schedules it is seldom written.
func (c *Channel) delay() int64 { return min(maxDelay, c.life()/16) }

// maxDelay is the longest delay, in milliseconds.
const maxDelay = 1000

// part starts the key of a row of kind k in the buffer b.
func (c *Channel) part(b []byte, k keyspace.Kind) []byte {
	return keyspace.AppendRowKey(b[:0], c.ref, k)
}

// messageRow is the key of a message's row, in scratch.
func (c *Channel) messageRow(position int64) []byte {
	c.key1 = appendPosition(append(c.part(c.key1, keyspace.SubRow), rowMessage), position)
	return c.key1
}

// messagesFrom appends the part of a message's key after the prefix of the value.
func messagesFrom(b []byte, position int64) []byte {
	return appendPosition(append(b, rowMessage), position)
}

// appendPosition appends a position so that bytes sort as positions do.
func appendPosition(b []byte, position int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(position)^1<<63)
}

func decodePosition(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

// dueRow is the key of a score row up to the kind, in scratch.
func (c *Channel) dueRow(at int64, kind byte) []byte {
	c.key2 = append(binary.BigEndian.AppendUint64(c.part(c.key2, keyspace.ScoreRow), uint64(at)), kind)
	return c.key2
}

func (c *Channel) dueMessageRow(at, position int64) []byte {
	c.key2 = appendPosition(c.dueRow(at, dueMessage), position)
	return c.key2
}

func (c *Channel) dueSubscriberRow(at int64, page uint16) []byte {
	c.key2 = binary.BigEndian.AppendUint16(c.dueRow(at, dueSubscriber), page)
	return c.key2
}

// rest is the part of a row's key after the prefix that all rows of a value share.
func rest(key []byte) []byte { return key[min(len(key), keyspace.RowKeyHead):] }

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: channel: %s", engine.ErrCorrupt, fmt.Sprintf(format, args...))
}
