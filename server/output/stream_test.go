package output

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"redoubt/budget"
)

// mute is the owner of a queue that tells nobody.
type mute struct{}

func (mute) Pushed()            {}
func (mute) Overflowed()        {}
func (mute) QueueLimit() uint64 { return 0 }

// client is a stream with its queue, and what they are charged to.
func client() (*Stream, *Queue, *Memory) {
	mem := &Memory{Account: new(budget.Account), Over: func() {}}
	o, q := new(Stream), new(Queue)
	o.Init(mem)
	q.Init(mute{}, mem)
	return o, q, mem
}

// Whatever is written, pushed, sent in part and taken back: the client gets the same bytes
// in the same order, and nothing is charged when all is sent.
func TestOutputKeepsOrder(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		o, q, mem := client()
		var want, got []byte // what was written and not taken back; what was sent
		next := byte(0)
		some := func(n int) []byte {
			next++
			b := bytes.Repeat([]byte{next}, n)
			b[0], b[n-1] = next^0x55, next^0xaa
			return b
		}
		size := func() int { return 1 + rnd.IntN([]int{8, 500, 5000, 60_000}[rnd.IntN(4)]) }
		for range 200 {
			switch rnd.IntN(6) {
			case 0: // replies of a turn
				o.Open(0)
				b := some(size())
				o.Buf = append(o.Buf, b...)
				o.Answers++
				want = append(want, b...)
			case 1, 2: // messages, some of which are shared
				b := some(size())
				q.mu.Lock()
				if rnd.IntN(2) == 0 {
					q.append(b, nil, 0)
				} else {
					m := newMessage(b, mem.Account)
					q.append(b, m, 0)
					m.release()
				}
				o.Take(q)
				want = append(want, b...)
			case 3: // the turn ends
				o.Answers, o.released = 0, o.End()
				if o.Pending() == 0 {
					o.Emptied()
				}
			case 4: // the socket takes something
				var room [5][]byte
				sent := 0
				for _, b := range o.Views(room[:0], size()) {
					got = append(got, b...)
					sent += len(b)
				}
				if o.Advance(sent); o.Pending() == 0 && o.Answers == 0 {
					o.Emptied()
				}
			case 5: // what is not released is taken back
				if o.Answers == 0 && rnd.IntN(4) == 0 {
					o.takeBack()
					want = want[:o.released]
				}
			}
			if o.Pending() != len(want)-len(got) || o.End() != int64(len(want)) {
				t.Fatalf("%d bytes are left, not %d", o.Pending(), len(want)-len(got))
			}
			before := &o.before
			owned, borrowed, left := 0, 0, -before.off
			for _, p := range before.list[before.head:] {
				if left += len(p.data); p.shared != nil {
					borrowed += len(p.shared.data)
				} else {
					owned += cap(p.data)
				}
			}
			if owned != before.owned || borrowed != before.borrowed || left != before.size {
				t.Fatalf("%d, %d and %d bytes, not %d, %d and %d", before.owned, before.borrowed, before.size, owned, borrowed, left)
			}
		}
		for o.Answers, o.released = 0, o.End(); o.Pending() > 0; {
			var room [3][]byte
			for _, b := range o.Views(room[:0], 10_000) {
				got = append(got, b...)
				o.Advance(len(b))
			}
		}
		o.Emptied()
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes have come, not these %d", len(got), len(want))
		}
		if n := mem.Account.Used(); n != 0 {
			t.Fatalf("%d bytes are charged", n)
		}
	}
}

// A reply of a command that is not committed can be taken back after messages have come.
func TestMessagesLeaveUncommittedRepliesInPlace(t *testing.T) {
	t.Parallel()
	o, q, mem := client()
	o.Open(0)
	w := &o.Writer
	at := len(w.Buf)
	w.OK()
	o.Answers++
	m := newMessage(bytes.Repeat([]byte("m"), 1000), mem.Account)
	q.mu.Lock()
	q.append(m.data, m, 0)
	m.release()
	o.Take(q)
	if got := w.Buf[at:]; !bytes.HasPrefix(got, []byte("+OK\r\nmmm")) || len(got) != 1005 {
		t.Errorf("%.20q", got)
	}
	if n := mem.Account.Used(); n != 0 {
		t.Errorf("%d bytes are charged for a message that was copied", n)
	}
}
