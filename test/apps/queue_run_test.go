package apps

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redoubt/internal/testserver"
)

// TestQueueScenario follows one message and the keys that it leaves, with their
// times, on a clock that the test moves.
func TestQueueScenario(t *testing.T) {
	t.Parallel()
	clock := testserver.NewClock(time.UnixMilli(1_700_000_000_000))
	c := connect(t, testserver.Start(t, testserver.Options{Clock: clock}).Addr)
	begin := clock.Now()
	queueScenario(t, c, func(second int) { clock.Set(begin.Add(time.Duration(second) * time.Second)) }, true)
}

// TestQueueScenarioOnRedis has no clock to move, and looks at the values only.
func TestQueueScenarioOnRedis(t *testing.T) {
	testserver.Oracle(t)
	t.Parallel()
	queueScenario(t, connect(t, testserver.StartRedis(t).Addr), func(int) {}, false)
}

func queueScenario(t *testing.T, c *redis.Client, at func(second int), times bool) {
	ctx := t.Context()
	ch := channel{c, "chX", 100 * time.Second}
	const text = `{"content":{"text":"hello!"},"id":"msg123"}`
	// expect compares keys, each with its value and the second it was last changed in.
	expect := func(now int, want map[string]struct {
		value string
		since int
	}) {
		t.Helper()
		keys, err := c.Keys(ctx, "*").Result()
		if err != nil || len(keys) != len(want) {
			t.Errorf("at %d: keys %v, %v; want %d", now, keys, err, len(want))
		}
		for key, w := range want {
			v, err := c.Get(ctx, key).Result()
			if key == "c.{chX}.m.1" {
				if err == nil && !strings.Contains(v, `"id":"msg123"`) || !strings.Contains(v, `"content":{"text":"hello!"}`) || len(v) != len(text) {
					t.Errorf("at %d: message %q", now, v)
				}
			} else if err != nil || v != w.value {
				t.Errorf("at %d: %s is %q, %v; want %q", now, key, v, err, w.value)
			}
			left, err := c.PTTL(ctx, key).Result()
			if err != nil || left <= 0 || left > ch.expire {
				t.Errorf("at %d: %s has %s left, %v", now, key, left, err)
			}
			if exact := ch.expire - time.Duration(now-w.since)*time.Second; times && left != exact {
				t.Errorf("at %d: %s has %s left, want %s", now, key, left, exact)
			}
		}
	}
	type keys = map[string]struct {
		value string
		since int
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	at(1)
	must(ch.subscribe(ctx, "sA"))
	at(2)
	must(ch.subscribe(ctx, "sB"))
	expect(2, keys{"c.{chX}.clock": {"0", 1}, "c.{chX}.r.sA": {"0", 1}, "c.{chX}.r.sB": {"0", 2}})

	at(3)
	fresh, n, err := ch.publish(ctx, "msg123", `{"text": "hello!"}`)
	must(err)
	if !fresh || n != 1 {
		t.Errorf("published as %d, fresh %v", n, fresh)
	}
	published := keys{
		"c.{chX}.clock": {"1", 3}, "c.{chX}.r.sA": {"0", 1}, "c.{chX}.r.sB": {"0", 2},
		"c.{chX}.m.1": {"", 3}, "c.{chX}.mid.msg123": {"1", 3},
	}
	expect(3, published)

	// The same message again changes nothing, not even times.
	at(4)
	fresh, n, err = ch.publish(ctx, "msg123", `{"text": "hello!"}`)
	must(err)
	if fresh || n != 1 {
		t.Errorf("published again as %d, fresh %v", n, fresh)
	}
	expect(4, published)

	all, receipt, err := ch.fetch(ctx, "sA", 10)
	must(err)
	if len(all) != 1 || all[0].ID != "msg123" || string(all[0].Content) != `{"text":"hello!"}` || receipt != 1 {
		t.Errorf("sA fetched %v, receipt %d", all, receipt)
	}
	for _, wrong := range []int64{-1, 2, lastClock, firstClock} {
		if err := ch.ack(ctx, "sA", wrong); !errors.Is(err, errReceipt) {
			t.Errorf("acknowledging %d: %v", wrong, err)
		}
	}
	must(ch.ack(ctx, "sA", receipt))
	published["c.{chX}.r.sA"] = struct {
		value string
		since int
	}{"1", 4}
	expect(4, published)

	if all, _, err := ch.fetch(ctx, "sA", 10); err != nil || len(all) != 0 {
		t.Errorf("sA fetched %v again, %v", all, err)
	}
	if all, _, err := ch.fetch(ctx, "sB", 10); err != nil || len(all) != 1 {
		t.Errorf("sB fetched %v, %v", all, err)
	}
	if !times {
		return
	}
	// The subscriber that was quiet longest goes first, then the message.
	at(102)
	if _, _, err := ch.fetch(ctx, "sB", 10); !errors.Is(err, errNoTarget) {
		t.Errorf("sB is still there: %v", err)
	}
	if err := ch.ack(ctx, "sB", 1); err == nil || !strings.HasPrefix(err.Error(), "GONE") {
		t.Errorf("acknowledging for sB: %v", err)
	}
	at(103)
	expect(103, keys{"c.{chX}.r.sA": {"1", 4}})
}

// TestQueueClockTurns goes over the end of the numbers one message at a time.
func TestQueueClockTurns(t *testing.T) {
	servers(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		ch := channel{c, "turn", time.Hour}
		if err := c.Set(ctx, ch.key("clock"), lastClock-2, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		if err := ch.subscribe(ctx, "s"); err != nil {
			t.Fatal(err)
		}
		want := []int64{lastClock - 1, lastClock, firstClock, firstClock + 1}
		for i, w := range want {
			fresh, n, err := ch.publish(ctx, strconv.Itoa(i), "1")
			if err != nil || !fresh || n != w {
				t.Fatalf("message %d got the number %d, %v; want %d", i, n, err, w)
			}
		}
		all, receipt, err := ch.fetch(ctx, "s", 10)
		if err != nil || receipt != firstClock+1 || len(all) != 4 {
			t.Fatalf("fetched %v, receipt %d, %v", all, receipt, err)
		}
		for i, m := range all {
			if m.clock != want[i] || m.ID != strconv.Itoa(i) {
				t.Errorf("message %d is %v", i, m)
			}
		}
		// A receipt is good if it lies in what is unread, on either side of the turn.
		for _, step := range []struct {
			receipt int64
			good    bool
		}{
			{lastClock - 3, false}, {0, false}, {firstClock + 2, false}, {lastClock - 1, true}, {lastClock - 2, false},
			{firstClock, true}, {lastClock, false}, {firstClock + 2, false}, {firstClock + 1, true}, {firstClock, false},
		} {
			err := ch.ack(ctx, "s", step.receipt)
			if step.good && err != nil || !step.good && !errors.Is(err, errReceipt) {
				t.Errorf("receipt %d: %v", step.receipt, err)
			}
		}
		if all, _, err := ch.fetch(ctx, "s", 10); err != nil || len(all) != 0 {
			t.Errorf("fetched %v, %v", all, err)
		}
	})
}

// TestQueue has publishers and subscribers at work at the same time, in the
// middle of the numbers and over their end. Publishers send everything twice,
// some subscribers forget to acknowledge, two share a name.
func TestQueue(t *testing.T) {
	for name, start := range map[string]int64{"middle": 0, "turn": lastClock - 150} {
		t.Run(name, func(t *testing.T) {
			servers(t, func(t *testing.T, c *redis.Client) {
				queueLoad(t, channel{c, "load", time.Hour}, start)
			})
		})
	}
}

func queueLoad(t *testing.T, ch channel, start int64) {
	const publishers, each = 4, 100
	first := seedOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := ch.db.Set(ctx, ch.key("clock"), start, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	names := []string{"steady", "forgetful", "shared"}
	for _, name := range names {
		if err := ch.subscribe(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	var work sync.WaitGroup
	var fresh atomic.Int64
	for p := range publishers {
		for twin := range 2 {
			work.Go(func() {
				for i := range each {
					ok, _, err := ch.publish(ctx, fmt.Sprintf("%d-%d", p, i), strconv.Itoa(i))
					if err != nil {
						t.Errorf("publisher %d, twin %d: %v", p, twin, err)
						cancel()
						return
					}
					if ok {
						fresh.Add(1)
					}
				}
			})
		}
	}
	seen := make([]received, 4)
	for i, name := range []string{"steady", "forgetful", "shared", "shared"} {
		r := &seen[i]
		r.at = make(map[string]int64)
		rng := rand.New(rand.NewPCG(first, uint64(i)))
		work.Go(func() {
			if err := r.consume(ctx, ch, name, publishers*each, start, rng); err != nil {
				t.Errorf("subscriber %d, %s: %v", i, name, err)
				cancel()
			}
		})
	}
	work.Wait()
	if t.Failed() {
		return
	}
	if n := fresh.Load(); n != publishers*each {
		t.Errorf("%d messages were new, want %d", n, publishers*each)
	}
	for id, clock := range seen[3].at {
		seen[2].at[id] = clock
	}
	for i, r := range seen[:3] {
		if len(r.at) != publishers*each {
			t.Errorf("%s got %d messages", names[i], len(r.at))
		}
		for id, clock := range seen[0].at {
			if r.at[id] != clock {
				t.Errorf("%s has message %s at %d, not at %d", names[i], id, r.at[id], clock)
			}
		}
	}
	// A publisher's messages keep their order: the turn counts as growing.
	for p := range publishers {
		last := int64(0)
		for i := range each {
			clock := seen[0].at[fmt.Sprintf("%d-%d", p, i)]
			distance := clock - start
			if clock < start { // beyond the turn
				distance = clock - firstClock + lastClock - start + 1
			}
			if distance <= last {
				t.Errorf("publisher %d: message %d has the number %d, after distance %d", p, i, clock, last)
			}
			last = distance
		}
	}
}

// received is what one consumer has got, by id.
type received struct{ at map[string]int64 }

// consume reads until the subscriber has read n messages. A message that was
// acknowledged must not come again, and none may be missing in between.
func (r *received) consume(ctx context.Context, ch channel, name string, n int, start int64, rng *rand.Rand) error {
	position := start // what this consumer knows to be acknowledged
	end := start
	for range n {
		end = after(end)
	}
	for position != end {
		all, receipt, err := ch.fetch(ctx, name, 1+rng.IntN(20))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			if name == "shared" {
				position = receipt // the other one has read
			} else if receipt != position {
				return fmt.Errorf("is at %d, was at %d", receipt, position)
			}
			continue
		}
		if name != "shared" && all[0].clock != after(position) {
			return fmt.Errorf("after %d comes %d", position, all[0].clock)
		}
		for i, m := range all {
			if i > 0 && m.clock != after(all[i-1].clock) {
				return fmt.Errorf("after %d comes %d", all[i-1].clock, m.clock)
			}
			if before, ok := r.at[m.ID]; ok && before != m.clock {
				return fmt.Errorf("message %s comes at %d and at %d", m.ID, before, m.clock)
			}
			r.at[m.ID] = m.clock
		}
		if name == "forgetful" && rng.IntN(3) == 0 {
			continue
		}
		switch err := ch.ack(ctx, name, receipt); {
		case err == nil:
			position = receipt
		case name == "shared" && errors.Is(err, errReceipt): // the other one is further
		default:
			return err
		}
	}
	return nil
}
