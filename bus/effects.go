package bus

import (
	"encoding/binary"
	"fmt"
	"math"

	"redoubt/keyspace"
)

// The encoding of effects. A frame of effects is a sequence of items, each a tag and its
// fields; a number is an unsigned varint, a text is its length as a number and its bytes.
//
//	tag  fields
//	01   message: channel, payload
//	02   message of a shard channel: channel, payload
//	03   event: class, database, name, key
//	04   changed key: database, key
//	05   expired key: database, key
//	06   all keys of a database may have changed: database
//	07   any key may have changed
//	08   key that became ready: database, key
//	09   any key of a database may have become ready: database
//	0a   any key may have become ready
//
// Messages and events are in the order in which they were noted. Items beyond largeFrame
// go into the next frame.
const (
	itemMessage  = 0x01
	itemShard    = 0x02
	itemEvent    = 0x03
	itemTouched  = 0x04
	itemExpired  = 0x05
	itemReplaced = 0x06
	itemAny      = 0x07
	itemReady    = 0x08
	itemReadyDB  = 0x09
	itemReadyAny = 0x0a
)

// largeFrame is the size from which on a frame of effects gets no further item.
const largeFrame = 256 << 10

// encoder appends effects as frames.
type encoder struct {
	dst    []byte
	at     int // where the frame begins
	open   bool
	frames int
}

func (e *encoder) item(tag byte) {
	if e.open && len(e.dst)-e.at >= largeFrame {
		e.end()
	}
	if !e.open {
		e.open, e.at = true, len(e.dst)
		e.dst = beginFrame(e.dst, frameEffects)
		e.frames++
	}
	e.dst = append(e.dst, tag)
}

func (e *encoder) end() {
	if e.open {
		e.dst, e.open = endFrame(e.dst, e.at), false
	}
}

func (e *encoder) num(n int) { e.dst = binary.AppendUvarint(e.dst, uint64(n)) }

func (e *encoder) text(b []byte) {
	e.num(len(b))
	e.dst = append(e.dst, b...)
}

// appendEffects appends, as frames, the effects that an interest wants, and returns the
// number of frames.
func appendEffects(dst []byte, fx *keyspace.Effects, want Interest) ([]byte, int) {
	e := encoder{dst: dst}
	if want.Keys {
		e.touched(fx)
	}
	if want.Messages || want.Shard || want.Events != 0 {
		messages := fx.Messages
		for i := range fx.Events {
			n := 0
			for n < len(messages) && messages[n].Events <= i {
				n++
			}
			e.messages(messages[:n], want)
			messages = messages[n:]
			if ev := &fx.Events[i]; ev.Class&want.Events != 0 {
				e.item(itemEvent)
				e.num(int(ev.Class))
				e.num(ev.DB)
				e.num(len(ev.Name))
				e.dst = append(e.dst, ev.Name...)
				e.text(ev.Key)
			}
		}
		e.messages(messages, want)
	}
	if want.Waiting {
		e.ready(fx)
	}
	e.end()
	return e.dst, e.frames
}

func (e *encoder) touched(fx *keyspace.Effects) {
	if fx.UntrackedTouch || fx.Flushed {
		e.item(itemAny)
	}
	for i := range fx.Touched {
		switch t := &fx.Touched[i]; {
		case t.Key == nil:
			e.item(itemReplaced)
			e.num(t.DB)
		case t.Expired:
			e.item(itemExpired)
			e.num(t.DB)
			e.text(t.Key)
		default:
			e.item(itemTouched)
			e.num(t.DB)
			e.text(t.Key)
		}
	}
}

func (e *encoder) messages(list []keyspace.Message, want Interest) {
	for i := range list {
		m := &list[i]
		switch {
		case m.Shard && want.Shard:
			e.item(itemShard)
		case !m.Shard && want.Messages:
			e.item(itemMessage)
		default:
			continue
		}
		e.text(m.Channel)
		e.text(m.Payload)
	}
}

func (e *encoder) ready(fx *keyspace.Effects) {
	if fx.UntrackedReady {
		e.item(itemReadyAny)
		return // which covers all keys
	}
	for i := range fx.Woken {
		if r := &fx.Woken[i]; r.Key == nil {
			e.item(itemReadyDB)
			e.num(r.DB)
		} else {
			e.item(itemReady)
			e.num(r.DB)
			e.text(r.Key)
		}
	}
}

// decoder reads the items of a frame of effects.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) num(most uint64) int {
	n, used := binary.Uvarint(d.rest)
	if used <= 0 || n > most {
		d.bad = true
		d.rest = nil
		return 0
	}
	d.rest = d.rest[used:]
	return int(n)
}

// text reads a text. The result is never nil: a nil key in an effect means all keys.
func (d *decoder) text() []byte {
	n := d.num(uint64(len(d.rest)))
	if n > len(d.rest) { // the length itself took some of it
		d.bad, d.rest = true, nil
		return []byte{}
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	if b == nil {
		b = []byte{}
	}
	return b
}

func (d *decoder) db() int { return d.num(math.MaxInt32) }

// readEffects decodes a frame into fx, which is empty. The slices in fx point into body.
func readEffects(body []byte, fx *keyspace.Effects) error {
	d := decoder{rest: body}
	for len(d.rest) > 0 {
		tag := d.rest[0]
		d.rest = d.rest[1:]
		switch tag {
		case itemMessage, itemShard:
			fx.Messages = append(fx.Messages, keyspace.Message{
				Channel: d.text(), Payload: d.text(), Shard: tag == itemShard, Events: len(fx.Events),
			})
		case itemEvent:
			fx.Events = append(fx.Events, keyspace.Event{
				Class: keyspace.Class(d.num(maxClass)), DB: d.db(), Name: string(d.text()), Key: d.text(),
			})
		case itemTouched, itemExpired:
			fx.Touched = append(fx.Touched, keyspace.Touch{DB: d.db(), Key: d.text(), Expired: tag == itemExpired})
		case itemReplaced:
			fx.Touched = append(fx.Touched, keyspace.Touch{DB: d.db()})
		case itemAny:
			fx.UntrackedTouch = true
		case itemReady:
			fx.Woken = append(fx.Woken, keyspace.Ready{DB: d.db(), Key: d.text()})
		case itemReadyDB:
			fx.Woken = append(fx.Woken, keyspace.Ready{DB: d.db()})
		case itemReadyAny:
			fx.UntrackedReady = true
		default:
			return fmt.Errorf("effect %#x: %w", tag, errMalformed)
		}
		if d.bad {
			return fmt.Errorf("effect %#x: %w", tag, errMalformed)
		}
	}
	return nil
}
