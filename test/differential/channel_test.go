package differential

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/internal/testserver/ontikv"
	"redoubt/types/channel/channeltest"
)

// Channels, which Redis does not have, are held against a model of their own.

// channels is a channeltest.Driver over a connection.
type channels struct {
	t   testing.TB
	c   *respclient.Client
	clk *testserver.Clock
}

func (d *channels) do(args ...string) respclient.Value {
	d.t.Helper()
	v, err := d.c.Do(args...)
	if err != nil {
		d.t.Fatalf("%q: %v", args, err)
	}
	return v
}

// must is do for a call that is not refused.
func (d *channels) must(args ...string) respclient.Value {
	d.t.Helper()
	v := d.do(args...)
	if v.IsError() {
		d.t.Fatalf("%q: %s", args, v)
	}
	return v
}

func (d *channels) Publish(channel, id, content string, life int64) (int64, bool) {
	args := []string{"CHPUBLISH", channel, id, content}
	if life > 0 {
		args = append(args, "EXPIRE", strconv.FormatInt(life, 10))
	}
	v := d.must(args...)
	return v.Elems[0].Int(), v.Elems[1].Int() == 1
}

func (d *channels) Subscribe(channel, name, from string) (int64, bool) {
	args := []string{"CHSUBSCRIBE", channel, name}
	if from != "" {
		args = append(args, "FROM", from)
	}
	v := d.must(args...)
	return v.Elems[0].Int(), v.Elems[1].Int() == 1
}

func (d *channels) Unsubscribe(channel, name string) bool {
	return d.must("CHUNSUBSCRIBE", channel, name).Int() == 1
}

func (d *channels) outcome(v respclient.Value) channeltest.Outcome {
	switch {
	case !v.IsError():
		return channeltest.OK
	case strings.HasPrefix(v.Str, "NOSUBSCRIBER "):
		return channeltest.NoSubscriber
	case strings.HasPrefix(v.Str, "BADHANDLE "):
		return channeltest.BadHandle
	}
	return channeltest.Refused
}

func (d *channels) fetch(args ...string) (f channeltest.Fetched, o channeltest.Outcome) {
	v := d.do(args...)
	if o = d.outcome(v); o != channeltest.OK {
		return f, o
	}
	for _, m := range v.Elems[0].Elems {
		f.Messages = append(f.Messages, channeltest.Message{Clock: m.Elems[0].Int(), ID: m.Elems[1].Str, Content: m.Elems[2].Str})
	}
	f.More = v.Elems[1].Int() == 1
	f.Handle = v.Elems[2].Str
	return f, o
}

func (d *channels) Fetch(channel, name string, count int, after string) (channeltest.Fetched, channeltest.Outcome) {
	args := []string{"CHFETCH", channel, name, "COUNT", strconv.Itoa(count)}
	if after != "" {
		args = append(args, "AFTER", after)
	}
	return d.fetch(args...)
}

func (d *channels) Read(channel, name string, count int, handle string) (channeltest.Fetched, channeltest.Outcome) {
	return d.fetch("CHREAD", channel, name, "ACK", handle, "COUNT", strconv.Itoa(count))
}

func (d *channels) Ack(channel, name, handle string) (bool, channeltest.Outcome) {
	v := d.do("CHACK", channel, name, handle)
	o := d.outcome(v)
	return o == channeltest.OK && v.Int() == 1, o
}

func (d *channels) Configure(channel string, s channeltest.Settings) {
	args := []string{"CHCONFIG", channel}
	for name, n := range map[string]int64{"EXPIRE": s.Expire, "MAXLEN": s.MaxLen, "MAXBYTES": s.MaxBytes} {
		if n >= 0 {
			args = append(args, name, strconv.FormatInt(n, 10))
		}
	}
	d.must(args...)
}

func (d *channels) SetClock(channel string, clock int64) channeltest.Outcome {
	return d.outcome(d.do("CHCONFIG", channel, "CLOCK", strconv.FormatInt(clock, 10)))
}

func (d *channels) Describe(channel string) string {
	v := d.do("CHINFO", channel, "FULL")
	if v.IsError() && v.Str == "ERR no such key" {
		return "none"
	}
	info := func(v respclient.Value) map[string]respclient.Value {
		m := map[string]respclient.Value{}
		for i := 0; i+1 < len(v.Elems); i += 2 {
			m[v.Elems[i].Str] = v.Elems[i+1]
		}
		return m
	}
	m := info(v)
	text := fmt.Sprintf("clock %d, %d messages, expire %d maxlen %d maxbytes %d", m["clock"].Int(), m["messages"].Int(),
		m["expire"].Int(), m["maxlen"].Int(), m["maxbytes"].Int())
	for _, s := range m["subscriptions"].Elems {
		r := info(s)
		text += fmt.Sprintf("\n%s at %d, %d behind, lives %d", r["name"].Str, r["clock"].Int(), r["backlog"].Int(), r["ttl"].Int())
	}
	return text
}

// Disturb moves the channel away and back: by its name, as a copy, or as a payload.
func (d *channels) Disturb(channel string, n int) {
	if d.must("EXISTS", channel).Int() == 0 {
		return
	}
	digest := d.must("DEBUG", "DIGEST-VALUE", channel).Elems[0].Str
	switch n % 3 {
	case 0:
		d.must("RENAME", channel, "elsewhere")
		d.must("RENAME", "elsewhere", channel)
	case 1:
		d.must("COPY", channel, "copy")
		d.must("DEL", channel)
		d.must("RENAME", "copy", channel)
	case 2:
		payload := d.must("DUMP", channel).Str
		d.must("RESTORE", channel, "0", payload, "REPLACE")
	}
	if got := d.must("DEBUG", "DIGEST-VALUE", channel).Elems[0].Str; got != digest {
		d.t.Fatalf("disturbed by %d, %s has the digest %s, not %s", n%3, channel, got, digest)
	}
}

func (d *channels) Delete(channel string) { d.must("DEL", channel) }
func (d *channels) Advance(ms int64)      { d.clk.Advance(time.Duration(ms) * time.Millisecond) }
func (d *channels) Now() int64            { return d.clk.Now().UnixMilli() }

func testChannels(t *testing.T, o testserver.Options, times, steps int) {
	o.Clock = testserver.NewClock(time.UnixMilli(1_700_000_000_000))
	o.Args = append(o.Args, "--enable-debug-command", "yes")
	c, err := respclient.Dial(testserver.Start(t, o).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(times) {
		t.Log("seed", seed+i)
		d := &channels{t, c, o.Clock}
		channeltest.Run(t, rand.New(rand.NewPCG(seed+i, 1)), d, steps)
		d.Delete("one")
		d.Delete("two")
	}
}

func TestChannels(t *testing.T) {
	t.Parallel()
	for _, o := range []testserver.Options{
		{Engine: "mem"}, {Engine: "mem", Pipes: true}, {Engine: "local"}, {Engine: "tight"}, {Engine: "cold"}, {Engine: "shared"}, {Engine: "contended"},
	} {
		t.Run(fmt.Sprint(o.Engine, "-pipes-", o.Pipes), func(t *testing.T) {
			t.Parallel()
			testChannels(t, o, 4, 300)
		})
	}
}

func TestChannelsOnTiKV(t *testing.T) {
	t.Parallel()
	testChannels(t, ontikv.Options(t), 2, 200)
}
