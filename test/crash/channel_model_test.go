package crash

import (
	"math/rand/v2"
	"testing"
	"time"

	"redoubt/internal/respchannel"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/types/channel/channeltest"
)

// Channels do what their model says, through kills: whatever was answered has happened, and
// a call that was cut off by a kill has happened as a whole or not at all.
func TestChannelModelSurvivesKills(t *testing.T) {
	for i, fsync := range []string{"always", "everysec"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			d := &killing{t: t, c: newCluster(t, fsync), rng: rand.New(rand.NewPCG(*seed, uint64(5000+i)))}
			d.Client = respchannel.Client{T: t, Ask: d.ask, OmitLives: true}
			d.start()
			channeltest.RunStill(t, rand.New(rand.NewPCG(*seed, uint64(5100+i))), d, stepsPerKill**rounds)
			t.Logf("%d kills, %d of them cut a command off", d.kills, d.cut)
			if d.kills == 0 {
				t.Error("nothing was killed")
			}
		})
	}
}

// stepsPerKill is how many steps of the model there are for each kill, on average.
const stepsPerKill = 60

// commandsPerKill is how many commands these are at the least: each step compares the state
// of both channels.
const commandsPerKill = 3 * stepsPerKill

// killing is a channeltest.Driver that kills its server at random moments, and goes on with
// the next one.
type killing struct {
	respchannel.Client
	t     *testing.T
	c     *cluster
	rng   *rand.Rand
	p     *testserver.Process
	conn  *respclient.Client
	left  int // commands until the next kill
	kills int
	cut   int // kills while a command was under way
}

// start starts a server, and decides when it is killed.
func (d *killing) start() {
	d.t.Helper()
	d.p = testserver.StartProcess(d.t, program, d.c.dir, append(d.c.args(), "--enable-debug-command", "yes")...)
	conn, err := respclient.Dial(d.p.Addr)
	if err != nil {
		d.t.Fatal(err)
	}
	d.conn, d.left = conn, 1+d.rng.IntN(2*commandsPerKill)
}

// restart starts a server on the store of one that was killed, which must be in order.
func (d *killing) restart() {
	d.t.Helper()
	d.p.Kill()
	d.conn.Close()
	d.kills++
	d.c.inspect(d.t)
	d.start()
}

// ask sends a command, again if the server was killed before it answered.
func (d *killing) ask(args ...string) respclient.Value {
	d.t.Helper()
	if d.left--; d.left == 0 {
		time.AfterFunc(time.Duration(d.rng.IntN(300))*time.Microsecond, d.p.Kill)
	}
	for {
		v, err := d.conn.Do(args...)
		if err == nil {
			return v
		}
		if d.left > 0 {
			d.t.Fatalf("%q: the server, which was not killed, has gone: %v", args, err)
		}
		d.cut++
		d.restart()
	}
}

// once makes a call that reports whether it changed the channel. If the call was repeated
// after a kill, the first time may have changed it.
func (d *killing) once(channel string, call func() (changed bool)) bool {
	before, kills := d.Describe(channel), d.kills
	return call() || d.kills != kills && d.Describe(channel) != before
}

func (d *killing) Publish(channel, id, content string, life int64) (clock int64, created bool) {
	created = d.once(channel, func() (created bool) {
		clock, created = d.Client.Publish(channel, id, content, life)
		return created
	})
	return clock, created
}

func (d *killing) Subscribe(channel, name, from string) (clock int64, created bool) {
	created = d.once(channel, func() (created bool) {
		clock, created = d.Client.Subscribe(channel, name, from)
		return created
	})
	return clock, created
}

func (d *killing) Unsubscribe(channel, name string) bool {
	return d.once(channel, func() bool { return d.Client.Unsubscribe(channel, name) })
}

func (d *killing) Ack(channel, name, handle string) (moved bool, o channeltest.Outcome) {
	moved = d.once(channel, func() (moved bool) {
		moved, o = d.Client.Ack(channel, name, handle)
		return moved
	})
	return moved, o
}

// Disturb kills the server while no command is under way.
func (d *killing) Disturb(channel string, n int) {
	if n%16 != 0 || d.Must("EXISTS", channel).Int() == 0 {
		return
	}
	before := d.Digest(channel)
	d.restart()
	if after := d.Digest(channel); after != before {
		d.t.Fatalf("%s had the digest %s, and has %s after a kill", channel, before, after)
	}
}

// Advance and Now are not called in a still run.
func (d *killing) Advance(int64) { panic("time cannot be moved") }
func (d *killing) Now() int64    { panic("time is not known") }
