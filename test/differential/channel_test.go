package differential

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"redoubt/internal/respchannel"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/internal/testserver/ontikv"
	"redoubt/types/channel/channeltest"
)

// Channels, which Redis does not have, are held against a model of their own.

// channels is a channeltest.Driver over a connection.
type channels struct {
	respchannel.Client
	clk *testserver.Clock
}

// Disturb moves the channel away and back: by its name, as a copy, or as a payload.
func (d *channels) Disturb(channel string, n int) {
	if d.Must("EXISTS", channel).Int() == 0 {
		return
	}
	digest := d.Digest(channel)
	switch n % 3 {
	case 0:
		d.Must("RENAME", channel, "elsewhere")
		d.Must("RENAME", "elsewhere", channel)
	case 1:
		d.Must("COPY", channel, "copy")
		d.Must("DEL", channel)
		d.Must("RENAME", "copy", channel)
	case 2:
		payload := d.Must("DUMP", channel).Str
		d.Must("RESTORE", channel, "0", payload, "REPLACE")
	}
	if got := d.Digest(channel); got != digest {
		d.T.Fatalf("disturbed by %d, %s has the digest %s, not %s", n%3, channel, got, digest)
	}
}

func (d *channels) Advance(ms int64) { d.clk.Advance(time.Duration(ms) * time.Millisecond) }
func (d *channels) Now() int64       { return d.clk.Now().UnixMilli() }

func testChannels(t *testing.T, o testserver.Options, times, steps int) {
	o.Clock = testserver.NewClock(time.UnixMilli(1_700_000_000_000))
	o.Args = append(o.Args, "--enable-debug-command", "yes")
	c, err := respclient.Dial(testserver.Start(t, o).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(args ...string) respclient.Value {
		t.Helper()
		v, err := c.Do(args...)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return v
	}
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(times) {
		t.Log("seed", seed+i)
		d := &channels{respchannel.Client{T: t, Ask: ask}, o.Clock}
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
