package copier

import (
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types/channel"
)

// A channel that was copied has the same messages, ids, places of subscribers and handles, and
// goes on.
func TestCopyOfAChannel(t *testing.T) {
	t.Parallel()
	var from engine.Engine = mem.New()
	on := func(eng engine.Engine, f func(c *channel.Channel)) {
		t.Helper()
		typestest.On(t, eng, 4).Do(func(tx *keyspace.Tx) {
			c, err := channel.Open(tx, []byte("c"), nil)
			if err != nil {
				t.Fatal(err)
			}
			f(c)
			c.Save()
			c.Release()
		})
	}
	subscriber := func(c *channel.Channel) channel.Subscriber {
		t.Helper()
		s, err := c.Subscriber([]byte("s"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var handle []byte
	on(from, func(c *channel.Channel) {
		c.Subscribe([]byte("s"), 0, 1)
		for _, id := range []string{"m1", "m2", "m3"} {
			c.Publish([]byte(id), []byte("content of "+id), 0, 1)
		}
		s := subscriber(c)
		c.Ack(&s, 1)
		handle = c.AppendHandle(nil, s.Name, 2)
	})
	for _, to := range []engine.Engine{newLocal(t), openShared(t)} {
		if _, err := Run(t.Context(), source(t, from), to, Options{}); err != nil {
			t.Fatal(err)
		}
		sound(t, to)
		on(to, func(c *channel.Channel) {
			if _, created := c.Publish([]byte("m2"), []byte("other"), 0, 1); created {
				t.Error("an id was forgotten")
			}
			s := subscriber(c)
			at, err := c.ParseHandle(handle, s.Name)
			if err != nil || at != 2 || s.At != 1 {
				t.Errorf("the handle is of %d, the subscriber at %d: %v", at, s.At, err)
			}
			var got []string
			c.Fetch(s.At, 10, func(m *channel.Message) { got = append(got, string(m.ID)+": "+string(m.Content)) })
			if len(got) != 2 || got[0] != "m2: content of m2" || got[1] != "m3: content of m3" {
				t.Errorf("%q", got)
			}
			if at, created := c.Publish([]byte("m4"), []byte("new"), 0, 1); !created || at != 4 {
				t.Errorf("the next message is at %d", at)
			}
		})
	}
}
