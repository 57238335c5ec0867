package command

import (
	"bytes"

	"redoubt/keyspace"
	"redoubt/rdb"
	"redoubt/types/channel"
)

// In a payload of DUMP a channel is the value of a module that no Redis has, so that Redis refuses
// it as bad data:
//
//	last expire maxlen maxbytes kept secret
//	(1 position flags born death id content)* 0
//	(1 name position death)* 0
//
// Numbers that may be negative are stored as their 64 bits.

const (
	channelModule  = "redoubtch"
	channelVersion = 1
	// The flags of a message.
	dumpTrimmed = 1
	dumpTimed   = 2
)

func dumpChannel(tx *keyspace.Tx, e *rdb.Encoder, key []byte, m keyspace.Meta, held func() bool) error {
	ch, err := channel.Of(tx, key, m, nil)
	if err != nil {
		return err
	}
	defer ch.Release()
	e.BeginModule(channelModule, channelVersion)
	i := ch.Image()
	for _, n := range []int64{i.Last, i.Expire, i.MaxLen, i.MaxBytes, bit(i.Kept)} {
		e.Uint(uint64(n))
	}
	e.Bytes(i.Secret[:])
	ch.Each(func(m *channel.Message) bool {
		flags := dumpTrimmed*bit(m.Trimmed()) | dumpTimed*bit(m.Timed())
		for _, n := range []int64{1, m.Position, flags, m.Born, m.Death} {
			e.Uint(uint64(n))
		}
		e.Bytes(m.ID)
		e.Bytes(m.Content)
		return held()
	})
	e.Uint(0)
	ch.EachSubscriber(func(s *channel.Subscriber) bool {
		e.Uint(1)
		e.Bytes(s.Name)
		e.Uint(uint64(s.At))
		e.Uint(uint64(s.Death()))
		return held()
	})
	e.Uint(0)
	e.EndModule()
	return nil
}

// visitChannel reads a channel from a payload.
func visitChannel(v *rdb.Value, begin func(channel.Image) bool, message func(position, born, death int64, id, content []byte, trimmed, timed bool) bool,
	subscriber func(name []byte, at, death int64) bool) error {
	r, err := v.Module(channelModule, channelVersion)
	if err != nil {
		return err
	}
	number := func() int64 { return int64(r.Uint()) }
	i := channel.Image{Last: number()}
	i.Expire, i.MaxLen, i.MaxBytes = number(), number(), number()
	i.Kept = number() == 1
	secret := r.Bytes()
	if r.Err() == nil && (len(secret) != len(i.Secret) || !begin(i.WithSecret(secret))) {
		return rdb.ErrFormat
	}
	var id []byte
	for more := number(); more != 0 && r.Err() == nil; more = number() {
		position, flags, born, death := number(), number(), number(), number()
		id = append(id[:0], r.Bytes()...)
		content := r.Bytes()
		if r.Err() != nil {
			return r.Err()
		}
		if more != 1 || flags&^(dumpTrimmed|dumpTimed) != 0 ||
			!message(position, born, death, id, content, flags&dumpTrimmed != 0, flags&dumpTimed != 0) {
			return rdb.ErrFormat
		}
	}
	for more := number(); more != 0 && r.Err() == nil; more = number() {
		name := bytes.Clone(r.Bytes())
		at, death := number(), number()
		if r.Err() != nil {
			return r.Err()
		}
		if more != 1 || !subscriber(name, at, death) {
			return rdb.ErrFormat
		}
	}
	return r.End()
}

// checkChannel checks a channel that is not stored.
func checkChannel(v *rdb.Value) error {
	return visitChannel(v, func(channel.Image) bool { return true },
		func(_, _, _ int64, _, _ []byte, _, _ bool) bool { return true }, func([]byte, int64, int64) bool { return true })
}

// restoreChannel makes a key, which does not exist, the channel of a payload.
func restoreChannel(c *Ctx, key []byte, v *rdb.Value) error {
	var b *channel.Builder
	ok := false
	err := visitChannel(v, func(i channel.Image) bool {
		b, ok = channel.NewBuilder(c.Tx, key, i)
		return ok
	}, func(position, born, death int64, id, content []byte, trimmed, timed bool) bool {
		return b.Message(position, born, death, id, content, trimmed, timed) && c.Tx.Err() == nil
	}, func(name []byte, at, death int64) bool {
		return b.Subscriber(name, at, death) && c.Tx.Err() == nil
	})
	if b != nil {
		defer b.Release()
	}
	if failed := c.Tx.Err(); failed != nil {
		return failed
	}
	if err == nil {
		b.Store()
	}
	return err
}
