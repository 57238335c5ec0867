package differential

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// eventTarget is a server whose keyspace events are compared instead of its replies:
// those that each command caused, on both channels, in their order. A message behind
// each command tells where its events end.
type eventTarget struct{ serverTarget }

// fence is the channel of those messages.
const fence = "fence"

func (t *eventTarget) run(ops []op, proto int) ([]string, error) {
	t.reset()
	c, err := respclient.DialProto(t.addr, proto)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	events, err := respclient.Dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	fences, err := respclient.Dial(t.addr) // the other one may be in a transaction
	if err != nil {
		return nil, err
	}
	defer fences.Close()
	for _, args := range [][]string{{"FLUSHALL"}, {"CONFIG", "SET", "notify-keyspace-events", "KEAnm"}} {
		if v, err := c.Do(args...); err != nil || v.Str != "OK" {
			return nil, fmt.Errorf("%s: %v, %w", args[0], v, err)
		}
	}
	for _, args := range [][]string{{"PSUBSCRIBE", "__key*__:*"}, {"SUBSCRIBE", fence}} {
		if v, err := events.Do(args...); err != nil || v.IsError() {
			return nil, fmt.Errorf("%s: %v, %w", args[0], v, err)
		}
	}
	replies := make([]string, len(ops))
	for i, o := range ops {
		failed := false
		switch {
		case o.wait > 0:
			t.advance(o.wait)
		case o.scan:
			if _, err = scanAll(c, o.args); err != nil {
				return nil, err
			}
		default:
			v, err := c.Do(o.args...)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", show(o), err)
			}
			failed = v.IsError()
		}
		list, err := t.eventsOf(fences, events, i)
		if err != nil {
			return nil, fmt.Errorf("events of %s: %w", show(o), err)
		}
		if failed {
			// Whether Redis looks for the key first or at the arguments varies.
			list = slices.DeleteFunc(list, func(ev string) bool { return strings.Contains(ev, "keymiss") })
		}
		replies[i] = strings.Join(list, ", ")
	}
	return replies, nil
}

// eventsOf reads the events of the command that was just run. When a key is found to
// be past its time is not compared, and removes are told in the order of a table.
func (t *eventTarget) eventsOf(c, events *respclient.Client, i int) (list []string, err error) {
	if _, err := c.Do("PUBLISH", fence, strconv.Itoa(i)); err != nil {
		return nil, err
	}
	for {
		v, err := events.Read()
		if err != nil {
			return nil, err
		}
		last := len(v.Elems) - 1
		if v.Elems[0].Str == "message" {
			if v.Elems[last].Str != strconv.Itoa(i) {
				return nil, fmt.Errorf("message %s instead of %d", v.Elems[last].Str, i)
			}
			return list, nil
		}
		channel, text := v.Elems[last-1].Str, v.Elems[last].Str
		if strings.HasPrefix(channel, "__keyspace@") && text == "expired" || strings.HasSuffix(channel, "__:expired") {
			continue
		}
		list = append(list, fmt.Sprintf("%q %q", channel, text))
	}
}

// TestEventsAgainstRedis compares the events of commands with those of a real Redis.
func TestEventsAgainstRedis(t *testing.T) {
	testserver.Oracle(t)
	redis := redisTarget(t)
	targets := []target{&eventTarget{*redis}}
	for _, o := range []testserver.Options{{Engine: "mem"}, {Engine: "local"}} {
		targets = append(targets, &eventTarget{*redoubtTarget(t, o, true, 1)})
	}
	each(t, 300, true, slices.Clip(targets))
}
