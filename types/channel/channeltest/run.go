package channeltest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
)

// handle is a handle that a fetch returned.
type handle struct {
	text          string
	channel, name string
	born          int
	clock         int64
}

// run is one sequence of random calls.
type run struct {
	t       testing.TB
	rng     *rand.Rand
	d       Driver
	models  map[string]*Model
	handles []handle
	step    int
	// still: nothing reaches its time, and lives are not compared.
	still bool
}

// Run makes random calls on a driver and compares the results with the model, and the
// visible state of the channels after each call.
func Run(t testing.TB, rng *rand.Rand, d Driver, steps int) {
	t.Helper()
	(&run{t: t, rng: rng, d: d, models: map[string]*Model{}}).steps(steps)
}

// RunStill is Run for a driver that has the real clock. All lives are longer than the
// test, Advance and Now are not called, and Describe must omit the lives of subscribers.
func RunStill(t testing.TB, rng *rand.Rand, d Driver, steps int) {
	t.Helper()
	(&run{t: t, rng: rng, d: d, models: map[string]*Model{}, still: true}).steps(steps)
}

// now is the driver's time. In a still run time does not pass.
func (r *run) now() int64 {
	if r.still {
		return 0
	}
	return r.d.Now()
}

// longLife is the least time to live in a still run, in milliseconds.
const longLife = 60 * 60 * 1000

// life is a time to live for what may live this long, or longer if time stands still.
func (r *run) life(ms int64) int64 {
	if r.still && ms > 0 {
		ms += longLife
	}
	return ms
}

func (r *run) steps(steps int) {
	r.t.Helper()
	rng, d := r.rng, r.d
	for _, c := range []string{"one", "two"} {
		r.models[c] = &Model{readers: map[string]*reader{}}
		if rng.IntN(2) == 0 { // near a wrap
			clock := []int64{maxClock - int64(rng.IntN(4)), -maxClock + int64(rng.IntN(3)), -2, 0}[rng.IntN(4)]
			r.same("SetClock", d.SetClock(c, clock), OK)
			r.models[c].make()
			r.models[c].clock, r.models[c].kept = clock, true
		}
	}
	for r.step = range steps {
		r.one()
		for c, m := range r.models {
			m.settle(r.now())
			r.same("state of "+c, d.Describe(c), m.Describe(r.now(), !r.still))
		}
	}
}

func (r *run) same(what string, got, want any) {
	r.t.Helper()
	if !reflect.DeepEqual(got, want) {
		r.t.Fatalf("step %d: %s:\n got %+v\nwant %+v", r.step, what, got, want)
	}
}

type pair struct {
	Clock   int64
	Created bool
}

func (r *run) one() {
	rng := r.rng
	c := []string{"one", "two"}[rng.IntN(2)]
	m := r.models[c]
	name := string(rune('a' + rng.IntN(4)))
	m.settle(r.now())
	switch n := rng.IntN(100); {
	case n < 30:
		n := rng.IntN(40)
		if r.still {
			n += r.step / 4 // known ids are not forgotten
		}
		id := "m" + strconv.Itoa(n)
		content, life := fmt.Sprintf("%d of %s", r.step, c), int64(0)
		if rng.IntN(4) == 0 {
			life = r.life(1 + int64(rng.IntN(3000)))
		}
		clock, created := r.d.Publish(c, id, content, life)
		wantClock, wantCreated := m.publish(r.now(), id, content, life)
		r.same("publish "+id, pair{clock, created}, pair{wantClock, wantCreated})
	case n < 40:
		r.subscribe(c, m, name)
	case n < 44:
		got := r.d.Unsubscribe(c, name)
		_, want := m.readers[name]
		delete(m.readers, name)
		r.same("unsubscribe "+name, got, want)
	case n < 60:
		r.fetch(c, m, name)
	case n < 75:
		r.ack(c, m, name, false)
	case n < 80:
		r.ack(c, m, name, true)
	case n < 84:
		s := Settings{Expire: -1, MaxLen: -1, MaxBytes: -1}
		switch rng.IntN(3) {
		case 0:
			s.Expire = r.life([]int64{0, 50, 400, 3000, 100000}[rng.IntN(5)])
		case 1:
			s.MaxLen = int64(rng.IntN(8))
		case 2:
			s.MaxBytes = int64(rng.IntN(3) * 50)
		}
		r.d.Configure(c, s)
		r.configure(m, s)
	case n < 85:
		r.d.Delete(c)
		*m = Model{born: m.born, readers: map[string]*reader{}}
	case n < 92 || r.still:
		r.d.Disturb(c, rng.IntN(1<<16))
	default:
		ms := []int64{1, 20, 300, 1500, 40_000, 2_000_000}[rng.IntN(6)]
		r.d.Advance(1 + rng.Int64N(ms))
	}
}

func (r *run) configure(m *Model, s Settings) {
	was := m.exists()
	for _, f := range []struct{ to, from *int64 }{
		{&m.settings.Expire, &s.Expire}, {&m.settings.MaxLen, &s.MaxLen}, {&m.settings.MaxBytes, &s.MaxBytes},
	} {
		if *f.from >= 0 {
			*f.to = *f.from
		}
	}
	if !was && m.exists() {
		m.born++
	}
	m.trim()
}

func (r *run) subscribe(c string, m *Model, name string) {
	from, at := "", m.clock
	switch r.rng.IntN(4) {
	case 0:
		from, at = "first", m.beforeFirst()
	case 1:
		from = "now"
	case 2: // after some readable message, or the newest
		for _, x := range m.messages {
			if x.readable && (from == "" || r.rng.IntN(3) == 0) {
				from, at = strconv.FormatInt(x.Clock, 10), x.Clock
			}
		}
	}
	clock, created := r.d.Subscribe(c, name, from)
	if from == "first" && created {
		// The position itself may differ as long as the subscriber reads the same.
		r.same("where first is", m.fetched(clock), m.fetched(at))
		at = clock
	}
	wantClock, wantCreated := m.subscribe(r.now(), name, at)
	r.same("subscribe "+name+" from "+from, pair{clock, created}, pair{wantClock, wantCreated})
}

// beforeFirst is the clock before the first message that can be read.
func (m *Model) beforeFirst() int64 {
	for _, x := range m.messages {
		if x.readable {
			return previous(x.Clock)
		}
	}
	return m.clock
}

func (m *Model) fetched(cursor int64) []Message {
	f, _, _ := m.fetch(cursor, 1<<30)
	return f.Messages
}

// fetch compares a fetch, and keeps the handle.
func (r *run) fetch(c string, m *Model, name string) {
	count := 1 + r.rng.IntN(6)
	h, use := r.pick(c, name)
	after := ""
	if use && r.rng.IntN(3) == 0 {
		after = h.text
	}
	got, o := r.d.Fetch(c, name, count, after)
	sub := m.readers[name]
	if sub == nil {
		r.same("fetch of nobody", o, NoSubscriber)
		return
	}
	cursor := sub.at
	if after != "" {
		if !h.fits(c, name, m) {
			r.same("fetch behind a foreign handle", o, BadHandle)
			return
		}
		if m.unread(h.clock, cursor) {
			cursor = h.clock
		}
	}
	m.renew(sub, r.now())
	r.compare(c, m, name, cursor, count, got, o)
}

// compare compares what a fetch returned, and keeps its handle.
func (r *run) compare(c string, m *Model, name string, cursor int64, count int, got Fetched, o Outcome) {
	r.t.Helper()
	r.same("fetch", o, OK)
	want, clock, has := m.fetch(cursor, count)
	text := got.Handle
	got.Handle = ""
	if len(got.Messages) == 0 {
		got.Messages = nil
	}
	r.same("fetch by "+name, got, want)
	r.same("there is a handle", text != "", has)
	if has {
		r.handles = append(r.handles, handle{text, c, name, m.born, clock})
	}
}

func (h *handle) fits(c, name string, m *Model) bool {
	return h.channel == c && h.name == name && h.born == m.born
}

// pick picks a handle: mostly a recent one of the subscriber, else any, sometimes a forged
// one.
func (r *run) pick(c, name string) (handle, bool) {
	if len(r.handles) == 0 {
		return handle{}, false
	}
	h := r.handles[r.rng.IntN(len(r.handles))]
	if r.rng.IntN(4) > 0 {
		for i := len(r.handles) - 1; i >= max(0, len(r.handles)-30); i-- {
			if x := r.handles[i]; x.channel == c && x.name == name {
				if h = x; r.rng.IntN(2) == 0 {
					break
				}
			}
		}
	}
	if r.rng.IntN(12) == 0 {
		b := []byte(h.text)
		const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		at := r.rng.IntN(len(b))
		for old := b[at]; b[at] == old; {
			b[at] = letters[r.rng.IntN(len(letters))]
		}
		h.text, h.channel = string(b), "forged"
	}
	return h, true
}

func (r *run) ack(c string, m *Model, name string, read bool) {
	h, ok := r.pick(c, name)
	if !ok {
		return
	}
	count := 1 + r.rng.IntN(6)
	var got Fetched
	var moved bool
	var o Outcome
	if read {
		got, o = r.d.Read(c, name, count, h.text)
	} else {
		moved, o = r.d.Ack(c, name, h.text)
	}
	sub := m.readers[name]
	switch {
	case sub == nil:
		r.same("acknowledging as nobody", o, NoSubscriber)
		return
	case !h.fits(c, name, m):
		r.same("acknowledging with a foreign handle", o, BadHandle)
		return
	}
	ahead := m.unread(h.clock, sub.at)
	if ahead {
		sub.at = h.clock
	}
	m.renew(sub, r.now())
	if read {
		r.compare(c, m, name, sub.at, count, got, o)
	} else {
		r.same("acknowledging", o, OK)
		r.same("moved", moved, ahead)
	}
}
