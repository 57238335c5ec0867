package channel

import (
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
)

func TestPublishAndFetch(t *testing.T) {
	s := typestest.New(t)
	s.Do(func(tx *keyspace.Tx) {
		c, err := Open(tx, []byte("c"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		c.Subscribe([]byte("s"), c.Last(), 1)
		for _, id := range []string{"a", "b", "a", "c"} {
			c.Publish([]byte(id), []byte("content of "+id), 0, 1)
		}
		c.Save()
	})
	s.Do(func(tx *keyspace.Tx) {
		c, err := Open(tx, []byte("c"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		r, err := c.Subscriber([]byte("s"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		last, n, more := c.Fetch(r.At, 2, func(m *Message) { got += string(m.ID) + "=" + string(m.Content) + " " })
		if got != "a=content of a b=content of b " || last != 2 || n != 2 || !more {
			t.Fatalf("fetched %q up to %d, %d, more %v", got, last, n, more)
		}
	})
}
