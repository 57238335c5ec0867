package channel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types/channel"
)

// Many subscribers, so many that their times are on several pages: they are renewed, leave
// and come back, die when they should, and the rows are in order at all times.
func TestManySubscribers(t *testing.T) {
	t.Parallel()
	const all = 1500
	random := uint64(time.Now().UnixNano())
	t.Log("seed", random)
	rng := rand.New(rand.NewPCG(random, 2))
	d := &direct{t: t, s: typestest.New(t)}
	deaths := map[string]int64{}
	lives := func() (n int) {
		for _, at := range deaths {
			if at > d.Now() {
				n++
			}
		}
		return n
	}
	for step := range 40 {
		d.with("c", func(c *channel.Channel, tx *keyspace.Tx) {
			for range all / 8 {
				name := fmt.Sprintf("s-%d", rng.IntN(all))
				switch rng.IntN(4) {
				case 0:
					if c.Unsubscribe([]byte(name)) != (deaths[name] > tx.Now) {
						t.Errorf("%s is to leave", name)
					}
					delete(deaths, name)
				default:
					s, created := c.Subscribe([]byte(name), 0, seed)
					if created != (deaths[name] <= tx.Now) {
						t.Errorf("%s is new: %v", name, created)
					}
					deaths[name] = s.Death()
				}
			}
		})
		switch step % 4 {
		case 0:
			d.Advance(rng.Int64N(channel.DefaultExpire / 4))
		case 1:
			d.Disturb("c", 2*rng.IntN(7))
		case 2:
			d.Disturb("c", 1)
		}
		n := 0
		d.with("c", func(c *channel.Channel, _ *keyspace.Tx) {
			c.EachSubscriber(func(s *channel.Subscriber) bool {
				if n++; deaths[string(s.Name)] != s.Death() {
					t.Errorf("%s dies at %d, not %d", s.Name, s.Death(), deaths[string(s.Name)])
				}
				return true
			})
			if _, dead := c.Dead(); c.Subscribers()-dead != int64(n) {
				t.Errorf("%d subscribers, %d of them dead, and %d are seen", c.Subscribers(), dead, n)
			}
		})
		if n != lives() {
			t.Fatalf("step %d: %d subscribers live, want %d", step, n, lives())
		}
		d.check()
	}
	d.Advance(2 * channel.DefaultExpire)
	for range 2 * all {
		d.Disturb("c", 2)
	}
	if got := d.Describe("c"); got != "none" {
		t.Errorf("after all have died: %s", got)
	}
	d.check()
}

// Subscribers that come at about the same time share a row that tells when they die.
func TestSubscribersShareRows(t *testing.T) {
	t.Parallel()
	d := &direct{t: t, s: typestest.New(t)}
	const all = 1000
	for i := range all {
		d.Subscribe("c", fmt.Sprintf("s-%d", i), "now")
		d.Advance(1)
	}
	snap, err := d.s.Eng.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	rows := 0
	it := snap.Iter(nil, nil, false)
	defer it.Close()
	for it.Next() {
		rows++
	}
	if rows > all+50 {
		t.Errorf("%d subscribers have %d rows", all, rows)
	}
	d.check()
}
