package channel

import (
	"bytes"
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
)

// withMessages shows a channel that has three messages. Its secret is always the same.
func withMessages(t testing.TB, key string, visit func(c *Channel)) {
	t.Helper()
	typestest.New(t).Do(func(tx *keyspace.Tx) {
		c, err := Open(tx, []byte(key), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		for _, id := range []string{"m1", "m2", "m3"} {
			c.Publish([]byte(id), nil, 0, 1)
		}
		visit(c)
	})
}

// A handle is accepted only if it was made for this channel and subscriber, and is of a
// message that the channel has.
func FuzzHandle(f *testing.F) {
	for _, key := range []string{"c", "d"} {
		withMessages(f, key, func(c *Channel) {
			for _, at := range []int64{-1, 3, 4} {
				f.Add(c.AppendHandle(nil, []byte("s"), at), []byte("s"))
			}
			f.Add(c.AppendHandle(nil, []byte("other"), 2), []byte("s"))
		})
	}
	f.Add([]byte("AAAAAAAAAAMAAAAAAAAAAAAA"), []byte("s"))
	f.Add([]byte("AAAAAAAAAAMAAAAAAAAAAA\n\n"), []byte("s"))
	f.Fuzz(func(t *testing.T, handle, subscriber []byte) {
		withMessages(t, "c", func(c *Channel) {
			at, err := c.ParseHandle(handle, subscriber)
			if err == nil && (at > c.Last() || !bytes.Equal(c.AppendHandle(nil, subscriber, at), handle)) {
				t.Errorf("%q of %q is taken for %d", handle, subscriber, at)
			}
		})
	})
}
