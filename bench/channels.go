//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"redoubt/internal/respclient"
)

// The suite of durable channels: CHPUBLISH and CHFETCH beside Lua scripts that do the same
// on Redis, how long a message takes to clients that wait, and the memory of subscribers.
//
// The scripts keep the rows that docs/adr/0027 calls the way of servers on top of Redis:
// one key each for the clock, a message, an id and a subscriber, all with the time to live.
// They are run by EVALSHA. A wake-up is a PUBLISH inside of the script; handles are signed
// with SHA-1, the only hash that scripts have.

//go:embed channels/publish.lua
var publishScript string

//go:embed channels/subscribe.lua
var subscribeScript string

//go:embed channels/read.lua
var readScript string

// dialect makes the commands of one of the two servers. Names must be such that channels
// accept them: digits, letters, dashes.
type dialect interface {
	publish(channel, id, content string, life time.Duration) []string
	subscribe(channel, subscriber string) []string
	// read acknowledges a handle, "" for none, and fetches.
	read(channel, subscriber, handle string) []string
}

// channelLife is how long messages live if nothing else is said.
const channelLife = 30 * time.Minute

// fetchCount is how many messages a fetch asks for.
const fetchCount = 64

type ourChannels struct{ block bool }

func (ourChannels) publish(channel, id, content string, life time.Duration) []string {
	words := []string{"CHPUBLISH", channel, id, content}
	if life != channelLife {
		words = append(words, "EXPIRE", millis(life))
	}
	return words
}

func (ourChannels) subscribe(channel, subscriber string) []string {
	return []string{"CHSUBSCRIBE", channel, subscriber}
}

func (o ourChannels) read(channel, subscriber, handle string) []string {
	words := []string{"CHREAD", channel, subscriber, "COUNT", strconv.Itoa(fetchCount)}
	if o.block {
		words = append(words, "BLOCK", "0")
	}
	if handle != "" {
		words = append(words, "ACK", handle)
	}
	return words
}

// scripts are the digests of those on Redis.
type scripts struct{ publishSHA, subscribeSHA, readSHA string }

func (s scripts) publish(channel, id, content string, life time.Duration) []string {
	return []string{"EVALSHA", s.publishSHA, "2", clockKey(channel), "{" + channel + "}:id:" + id,
		messagePrefix(channel), id, content, millis(life), wakeChannel(channel)}
}

func (s scripts) subscribe(channel, subscriber string) []string {
	return []string{"EVALSHA", s.subscribeSHA, "2", clockKey(channel), cursorKey(channel, subscriber), millis(channelLife)}
}

func (s scripts) read(channel, subscriber, handle string) []string {
	return []string{"EVALSHA", s.readSHA, "2", clockKey(channel), cursorKey(channel, subscriber),
		messagePrefix(channel), strconv.Itoa(fetchCount), millis(channelLife), "a secret of sixteen or more bytes", handle}
}

func clockKey(channel string) string      { return "{" + channel + "}:clock" }
func messagePrefix(channel string) string { return "{" + channel + "}:m:" }
func wakeChannel(channel string) string   { return "{" + channel + "}:wake" }
func cursorKey(channel, subscriber string) string {
	return "{" + channel + "}:s:" + subscriber
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// loadScripts loads the scripts on Redis.
func (p *process) loadScripts() (s scripts, err error) {
	for sha, text := range map[*string]string{&s.publishSHA: publishScript, &s.subscribeSHA: subscribeScript, &s.readSHA: readScript} {
		if *sha, err = p.ask("SCRIPT", "LOAD", text); err != nil {
			return s, err
		}
	}
	return s, nil
}

// channelCase is a load of requests that each server's dialect makes.
type channelCase struct {
	name     string
	requests func(d dialect) mix
	fill     bool // each channel has messages to fetch and a subscriber before
}

// manyChannels is how many channels a case of many has.
const manyChannels = 1000

func channelCases() []channelCase {
	publish := func(name string, channels int, id string, life time.Duration) channelCase {
		return channelCase{name: name, requests: func(d dialect) (all mix) {
			for i := range channels {
				r := newRequest(d.publish(fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ToLower(name), " ", "-"), i), id, anyValue, life)...)
				all = append(all, &r)
			}
			return all
		}}
	}
	return []channelCase{
		publish("PUBLISH", 1, "m-"+anyNumber, channelLife),
		publish("PUBLISH to many", manyChannels, "m-"+anyNumber, channelLife),
		publish("PUBLISH for a second", 1, "m-"+anyNumber, time.Second),
		publish("PUBLISH again", manyChannels, "the-same", channelLife),
		{name: "FETCH", fill: true, requests: func(d dialect) (all mix) {
			for i := range fetchChannels {
				r := newRequest(d.read(fetchChannel(i), "reader", "")...)
				all = append(all, &r)
			}
			return all
		}},
	}
}

// fetchChannels is how many channels are read.
const fetchChannels = 16

func fetchChannel(i int) string { return "fetched-" + strconv.Itoa(i) }

func runChannels() error {
	s, err := startPair(server{args: []string{"--appendfsync", "everysec"}},
		server{args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}})
	if err != nil {
		return err
	}
	on, err := s.theirs.loadScripts()
	if err != nil {
		return err
	}
	dialects := map[*process]dialect{s.ours: ourChannels{}, s.theirs: on}
	var out document
	out.heading(s, loadText()+fmt.Sprintf("ids are random numbers below the number of keys; Redis runs the scripts of bench/channels by EVALSHA; many are %d channels, a fetch returns %d messages; ",
		manyChannels, fetchCount)+explained())
	out.header(true)
	for _, c := range channelCases() {
		for _, pipeline := range []int{1, 16} {
			if !chosen(c.name, pipeline) {
				continue
			}
			if c.fill {
				if err := s.fillChannels(dialects); err != nil {
					return err
				}
			}
			x, y, err := s.turns(func(p *process) (result, error) {
				l := p.load(loadCase{name: c.name, pipeline: pipeline, requests: c.requests(dialects[p])})
				l.time = 0
				r, _, err := p.measure(l)
				return r, err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			out.line(fmt.Sprintf("%s P=%d", c.name, pipeline), x, y, true)
		}
	}
	if err := s.deliveries(&out, dialects); err != nil {
		return err
	}
	if err := subscriberMemory(&out); err != nil {
		return err
	}
	return out.write()
}

// fillChannels makes a subscriber in each channel that is read, and the messages behind it.
func (s pair) fillChannels(dialects map[*process]dialect) error {
	for p, d := range dialects {
		err := s.alone(p, func(p *process) error {
			c, err := respclient.Dial(p.addr())
			if err != nil {
				return err
			}
			defer c.Close()
			for i := range fetchChannels {
				if err := do(c, d.subscribe(fetchChannel(i), "reader")...); err != nil {
					return err
				}
				for m := range fetchCount {
					if err := do(c, d.publish(fetchChannel(i), "m-"+strconv.Itoa(m), strings.Repeat("v", *size), channelLife)...); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// do sends a command whose reply must be no error.
func do(c *respclient.Client, words ...string) error {
	v, err := c.Do(words...)
	if err == nil && v.IsError() {
		err = fmt.Errorf("%s: %s", words[0], v.Str)
	}
	return err
}

// subscriberMemory starts servers anew and says by how much the resident memory grows for a
// subscriber that does nothing, once what was written is written back.
func subscriberMemory(out *document) error {
	if !chosen("MEMORY", 1) {
		return nil
	}
	n := *keys
	out.printf("\n| %d subscribers | in one channel, bytes each | one in each of as many channels, bytes each |\n|---|---|---|\n", n)
	for _, on := range []struct {
		name string
		ours bool
		args []string
	}{
		{"redoubt, engine local", true, nil}, {"redoubt, engine memory", true, []string{"--engine", "memory"}}, {"redis, no persistence", false, nil},
	} {
		var each []string
		for _, channels := range []int{1, n} {
			s, err := startPair(server{args: on.args}, server{})
			if err != nil {
				return err
			}
			p, d := s.theirs, dialect(nil)
			if on.ours {
				p, d = s.ours, ourChannels{}
			} else if d, err = p.loadScripts(); err != nil {
				return err
			}
			size, err := p.memoryOfSubscribers(d, n, channels)
			s.ours.kill()
			s.theirs.kill()
			if err != nil {
				return err
			}
			each = append(each, fmt.Sprintf("%.0f", size))
		}
		out.printf("| %s | %s |\n", on.name, strings.Join(each, " | "))
	}
	return nil
}

// memoryOfSubscribers is by how much the resident memory grows for each of n subscribers.
func (p *process) memoryOfSubscribers(d dialect, n, channels int) (float64, error) {
	before, _, err := p.memory()
	if err != nil {
		return 0, err
	}
	conn, err := net.Dial("tcp", p.addr())
	if err != nil {
		return 0, err
	}
	c := respclient.New(conn)
	defer c.Close()
	const at = 1000 // in one pipeline
	for i := 0; i < n; i += at {
		var b []byte
		m := min(at, n-i)
		for k := i; k < i+m; k++ {
			b = respclient.AppendCommand(b, d.subscribe(fmt.Sprintf("channel-%07d", k%channels), fmt.Sprintf("subscriber-%07d", k))...)
		}
		if err := c.Write(b); err != nil {
			return 0, err
		}
		for range m {
			if v, err := c.Read(); err != nil || v.IsError() {
				return 0, fmt.Errorf("subscribe: %v %w", v, err)
			}
		}
	}
	if p.binary != *redis { // else it may wait for half a minute with writing back
		if _, err := p.ask("SAVE"); err != nil {
			return 0, err
		}
	}
	if _, _, err := p.settleFor(3 * time.Second); err != nil {
		return 0, err
	}
	after, _, err := p.memory()
	return float64(after-before) / float64(n), err
}
