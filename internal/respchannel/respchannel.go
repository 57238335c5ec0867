// Package respchannel makes the calls of channeltest.Driver as commands over RESP. A test
// embeds Client in a driver of its own, which adds what commands cannot do: the passing of
// time, and what must have no visible effect.
package respchannel

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/types/channel/channeltest"
)

// Client sends the commands of channels.
type Client struct {
	T testing.TB
	// Ask sends a command and returns its reply. If there is none it ends the test.
	Ask func(args ...string) respclient.Value
	// OmitLives leaves the lives of subscribers out of Describe.
	OmitLives bool
}

// Must is Ask for a command that must not be refused.
func (c *Client) Must(args ...string) respclient.Value {
	c.T.Helper()
	v := c.Ask(args...)
	if v.IsError() {
		c.T.Fatalf("%q: %s", args, v)
	}
	return v
}

// Publish is CHPUBLISH.
func (c *Client) Publish(channel, id, content string, life int64) (clock int64, created bool) {
	c.T.Helper()
	args := []string{"CHPUBLISH", channel, id, content}
	if life > 0 {
		args = append(args, "EXPIRE", strconv.FormatInt(life, 10))
	}
	v := c.Must(args...)
	return v.Elems[0].Int(), v.Elems[1].Int() == 1
}

// Subscribe is CHSUBSCRIBE.
func (c *Client) Subscribe(channel, name, from string) (clock int64, created bool) {
	c.T.Helper()
	args := []string{"CHSUBSCRIBE", channel, name}
	if from != "" {
		args = append(args, "FROM", from)
	}
	v := c.Must(args...)
	return v.Elems[0].Int(), v.Elems[1].Int() == 1
}

// Unsubscribe is CHUNSUBSCRIBE.
func (c *Client) Unsubscribe(channel, name string) bool {
	c.T.Helper()
	return c.Must("CHUNSUBSCRIBE", channel, name).Int() == 1
}

func outcome(v respclient.Value) channeltest.Outcome {
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

func (c *Client) fetch(args ...string) (f channeltest.Fetched, o channeltest.Outcome) {
	c.T.Helper()
	v := c.Ask(args...)
	if o = outcome(v); o != channeltest.OK {
		return f, o
	}
	for _, m := range v.Elems[0].Elems {
		f.Messages = append(f.Messages, channeltest.Message{Clock: m.Elems[0].Int(), ID: m.Elems[1].Str, Content: m.Elems[2].Str})
	}
	f.More = v.Elems[1].Int() == 1
	f.Handle = v.Elems[2].Str
	return f, o
}

// Fetch is CHFETCH.
func (c *Client) Fetch(channel, name string, count int, after string) (channeltest.Fetched, channeltest.Outcome) {
	c.T.Helper()
	args := []string{"CHFETCH", channel, name, "COUNT", strconv.Itoa(count)}
	if after != "" {
		args = append(args, "AFTER", after)
	}
	return c.fetch(args...)
}

// Read is CHREAD.
func (c *Client) Read(channel, name string, count int, handle string) (channeltest.Fetched, channeltest.Outcome) {
	c.T.Helper()
	return c.fetch("CHREAD", channel, name, "ACK", handle, "COUNT", strconv.Itoa(count))
}

// Ack is CHACK.
func (c *Client) Ack(channel, name, handle string) (moved bool, o channeltest.Outcome) {
	c.T.Helper()
	v := c.Ask("CHACK", channel, name, handle)
	o = outcome(v)
	return o == channeltest.OK && v.Int() == 1, o
}

// Configure is CHCONFIG with the settings that are not negative.
func (c *Client) Configure(channel string, s channeltest.Settings) {
	c.T.Helper()
	args := []string{"CHCONFIG", channel}
	for name, n := range map[string]int64{"EXPIRE": s.Expire, "MAXLEN": s.MaxLen, "MAXBYTES": s.MaxBytes} {
		if n >= 0 {
			args = append(args, name, strconv.FormatInt(n, 10))
		}
	}
	c.Must(args...)
}

// SetClock is CHCONFIG with a clock.
func (c *Client) SetClock(channel string, clock int64) channeltest.Outcome {
	c.T.Helper()
	return outcome(c.Ask("CHCONFIG", channel, "CLOCK", strconv.FormatInt(clock, 10)))
}

// Describe returns what CHINFO tells, in the format of channeltest.Model.
func (c *Client) Describe(channel string) string {
	c.T.Helper()
	v := c.Ask("CHINFO", channel, "FULL")
	if v.IsError() && v.Str == "ERR no such key" {
		return "none"
	}
	m := pairs(v)
	var b strings.Builder
	fmt.Fprintf(&b, "clock %d, %d messages, expire %d maxlen %d maxbytes %d", m["clock"].Int(), m["messages"].Int(),
		m["expire"].Int(), m["maxlen"].Int(), m["maxbytes"].Int())
	for _, s := range m["subscriptions"].Elems {
		r := pairs(s)
		fmt.Fprintf(&b, "\n%s at %d, %d behind", r["name"].Str, r["clock"].Int(), r["backlog"].Int())
		if !c.OmitLives {
			fmt.Fprintf(&b, ", lives %d", r["ttl"].Int())
		}
	}
	return b.String()
}

// pairs is a map in RESP2.
func pairs(v respclient.Value) map[string]respclient.Value {
	m := make(map[string]respclient.Value)
	for i := 0; i+1 < len(v.Elems); i += 2 {
		m[v.Elems[i].Str] = v.Elems[i+1]
	}
	return m
}

// Delete is DEL.
func (c *Client) Delete(channel string) {
	c.T.Helper()
	c.Must("DEL", channel)
}

// Digest is that of a channel's data, whatever its layout. The server must have
// enable-debug-command.
func (c *Client) Digest(channel string) string {
	c.T.Helper()
	return c.Must("DEBUG", "DIGEST-VALUE", channel).Elems[0].Str
}
