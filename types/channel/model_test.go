package channel_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types/channel"
	"redoubt/types/channel/channeltest"
	"redoubt/types/check"
)

// direct is a channeltest.Driver on the type itself.
type direct struct {
	t testing.TB
	s *typestest.Store
}

func (d *direct) with(key string, f func(c *channel.Channel, tx *keyspace.Tx)) {
	d.t.Helper()
	d.s.Do(func(tx *keyspace.Tx) {
		c, err := channel.Open(tx, []byte(key), nil)
		if err != nil {
			d.t.Fatal(err)
		}
		f(c, tx)
		c.Save()
		c.Release()
	})
}

const seed = 7

func (d *direct) Publish(key, id, content string, life int64) (clock int64, created bool) {
	d.with(key, func(c *channel.Channel, _ *keyspace.Tx) {
		clock, created = c.Publish([]byte(id), []byte(content), life, seed)
	})
	return channel.Clock(clock), created
}

func (d *direct) Subscribe(key, name, from string) (clock int64, created bool) {
	d.with(key, func(c *channel.Channel, _ *keyspace.Tx) {
		at := c.Last()
		if from == "first" {
			at = c.First() - 1
		} else if n, err := strconv.ParseInt(from, 10, 64); err == nil {
			at = max(c.PositionOf(n), c.First()-1)
		}
		var s channel.Subscriber
		s, created = c.Subscribe([]byte(name), at, seed)
		clock = channel.Clock(s.At)
	})
	return clock, created
}

func (d *direct) Unsubscribe(key, name string) (removed bool) {
	d.with(key, func(c *channel.Channel, _ *keyspace.Tx) { removed = c.Unsubscribe([]byte(name)) })
	return removed
}

func outcome(err error) channeltest.Outcome {
	switch {
	case err == nil:
		return channeltest.OK
	case errors.Is(err, channel.ErrNoSubscriber):
		return channeltest.NoSubscriber
	case errors.Is(err, channel.ErrHandle), errors.Is(err, channel.ErrHandleBeyond):
		return channeltest.BadHandle
	}
	return channeltest.Refused
}

func (d *direct) fetch(key, name string, count int, handle string, acks bool) (f channeltest.Fetched, o channeltest.Outcome) {
	d.with(key, func(c *channel.Channel, _ *keyspace.Tx) {
		s, err := c.Subscriber([]byte(name))
		after := s.At
		if err == nil && handle != "" {
			at, bad := c.ParseHandle([]byte(handle), s.Name)
			if err = bad; err == nil && acks {
				c.Ack(&s, at)
			}
			after = max(after, at)
		}
		if o = outcome(err); err != nil {
			return
		}
		c.Renew(&s)
		last, _, more := c.Fetch(after, count, func(m *channel.Message) {
			f.Messages = append(f.Messages, channeltest.Message{Clock: channel.Clock(m.Position), ID: string(m.ID), Content: string(m.Content)})
		})
		if f.More = more; last > after {
			f.Handle = string(c.AppendHandle(nil, s.Name, last))
		}
	})
	return f, o
}

func (d *direct) Fetch(key, name string, count int, after string) (channeltest.Fetched, channeltest.Outcome) {
	return d.fetch(key, name, count, after, false)
}

func (d *direct) Read(key, name string, count int, handle string) (channeltest.Fetched, channeltest.Outcome) {
	return d.fetch(key, name, count, handle, true)
}

func (d *direct) Ack(key, name, handle string) (moved bool, o channeltest.Outcome) {
	d.with(key, func(c *channel.Channel, _ *keyspace.Tx) {
		s, err := c.Subscriber([]byte(name))
		at := int64(0)
		if err == nil {
			at, err = c.ParseHandle([]byte(handle), s.Name)
		}
		if o = outcome(err); err == nil {
			moved = c.Ack(&s, at)
		}
	})
	return moved, o
}

func (d *direct) Configure(key string, s channeltest.Settings) {
	d.with(key, func(c *channel.Channel, _ *keyspace.Tx) {
		now := c.Settings()
		for _, f := range []struct {
			to   *int64
			from int64
		}{{&now.Expire, s.Expire}, {&now.MaxLen, s.MaxLen}, {&now.MaxBytes, s.MaxBytes}} {
			if f.from >= 0 {
				*f.to = f.from
			}
		}
		c.Configure(now, seed)
	})
}

func (d *direct) SetClock(key string, clock int64) (o channeltest.Outcome) {
	d.with(key, func(c *channel.Channel, _ *keyspace.Tx) { o = outcome(c.SetClock(clock, seed)) })
	return o
}

func (d *direct) Describe(key string) string {
	var b strings.Builder
	d.s.Do(func(tx *keyspace.Tx) {
		tx.Writable = false
		c, err := channel.Open(tx, []byte(key), nil)
		if err != nil {
			d.t.Fatal(err)
		}
		defer c.Release()
		if !c.Exists() {
			b.WriteString("none")
			return
		}
		dead, _ := c.Dead()
		s := c.Settings()
		fmt.Fprintf(&b, "clock %d, %d messages, expire %d maxlen %d maxbytes %d",
			channel.Clock(c.Last()), c.Len()-int64(len(dead)), c.Expire(), s.MaxLen, s.MaxBytes)
		c.EachSubscriber(func(s *channel.Subscriber) bool {
			fmt.Fprintf(&b, "\n%s at %d, %d behind, lives %d", s.Name, channel.Clock(s.At), c.Backlog(s.At, dead), s.Death()-tx.Now)
			return true
		})
	})
	return b.String()
}

// Disturb sweeps a part of what is dead, or puts a copy in the place of the channel.
func (d *direct) Disturb(key string, n int) {
	d.s.Do(func(tx *keyspace.Tx) {
		m := tx.Find([]byte(key))
		if !m.Exists() {
			return
		}
		if n%2 == 0 {
			channel.ExpireParts(tx, []byte(key), m, n/2%7)
			return
		}
		other := []byte("other-" + key)
		tx.Store(other, tx.Find(other), tx.Duplicate(other, m))
		tx.Remove([]byte(key), m)
		old := tx.Find(other)
		tx.Detach(other, old)
		tx.Store([]byte(key), keyspace.Meta{}, old)
	})
}

func (d *direct) Delete(key string) {
	d.s.Do(func(tx *keyspace.Tx) {
		if m := tx.Find([]byte(key)); m.Exists() {
			tx.Remove([]byte(key), m)
		}
	})
}

func (d *direct) Advance(ms int64) { d.s.Now += ms }
func (d *direct) Now() int64       { return d.s.Now }

// check holds the rows against what FORMAT.md says.
func (d *direct) check() {
	d.t.Helper()
	snap, err := d.s.Eng.Snapshot()
	if err != nil {
		d.t.Fatal(err)
	}
	defer snap.Close()
	keyspace.Check(snap, nil, check.Examine, func(kind, place, what string) {
		if kind != "counter" { // a snapshot does not have them
			d.t.Errorf("%s: %s: %s", kind, place, what)
		}
	}, nil)
}

// Random calls do what the model says, and leave rows that are in order.
func TestModel(t *testing.T) {
	t.Parallel()
	start := uint64(time.Now().UnixNano())
	for i := range uint64(60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			t.Log("seed", start+i)
			d := &direct{t: t, s: typestest.New(t)}
			channeltest.Run(t, rand.New(rand.NewPCG(start+i, 1)), d, 400)
			d.check()
		})
	}
}
