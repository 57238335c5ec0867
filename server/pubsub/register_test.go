package pubsub

import (
	"bytes"
	"runtime"
	"testing"

	"redoubt/budget"
	"redoubt/keyspace"
	"redoubt/server/output"
	"redoubt/wire"
)

// client is one with a subscription.
type client struct {
	out     output.Stream
	queue   output.Queue
	charged int64
}

// charge brings what the output is charged with up to date.
func (c *client) charge(a *budget.Account) {
	n := int64(c.out.Memory())
	a.Add(n - c.charged)
	c.charged = n
}

// mute is the owner of a queue that tells nobody.
type mute struct{}

func (mute) Pushed()            {}
func (mute) Overflowed()        {}
func (mute) QueueLimit() uint64 { return 0 }

// A message to many clients that do not read is neither copied nor allocated for each.
func TestMessageIsNotCopiedForEachSubscriber(t *testing.T) {
	const clients, messages, size = 100, 300, 1000
	mem := &output.Memory{Account: new(budget.Account), Over: func() {}}
	var p Register
	p.Init(mem)
	var all []*client
	for i := range clients {
		c := new(client)
		c.out.Init(mem)
		c.out.Proto = 2 + i%2
		c.queue.Init(mute{}, mem)
		c.queue.SetRESP3(c.out.Proto == 3)
		p.Subscribe(&c.queue).Add(Channels, []byte("news"))
		all = append(all, c)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	payload := bytes.Repeat([]byte("x"), size)
	for range messages {
		p.Deliver(&keyspace.Effects{Messages: []keyspace.Message{{Channel: []byte("news"), Payload: payload}}}, 0)
		for _, c := range all {
			c.out.Take(&c.queue)
			c.out.Settle(0, 0)
			c.charge(mem.Account)
		}
	}
	runtime.ReadMemStats(&after)
	const copied = clients * messages * size
	if n := after.TotalAlloc - before.TotalAlloc; n > copied/5 {
		t.Errorf("%d bytes were allocated for %d bytes of messages", n, copied)
	}
	if n := mem.Account.Used(); n > copied/10 || n < 2*messages*size {
		t.Errorf("%d bytes are charged for %d messages of %d bytes in two forms", n, messages, size)
	}
	var form wire.Writer
	for _, c := range all {
		o := &c.out
		if n := o.Pending(); n < messages*size || o.Memory()+o.Borrowed() < n {
			t.Fatalf("%d bytes are pending, and the client is said to hold %d", n, o.Memory()+o.Borrowed())
		}
		form.Buf = form.Buf[:0]
		var room [1][]byte
		for o.Pending() > 0 {
			for _, b := range o.Views(room[:0], 777) {
				form.Buf = append(form.Buf, b...)
				o.Advance(len(b))
			}
		}
		if n := bytes.Count(form.Buf, payload); n != messages || form.Buf[0] != "*>"[o.Proto-2] {
			t.Fatalf("%d messages, the first is %.20q", n, form.Buf)
		}
		c.charge(mem.Account)
	}
	if n := mem.Account.Used(); n > clients*1000 {
		t.Errorf("%d bytes are charged when all is sent", n)
	}
}
