package bus

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"redoubt/keyspace"
)

func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func randomInterest(r *rand.Rand) Interest {
	return Interest{r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0, keyspace.Class(r.Uint32()) & 0x7ff}
}

func randomText(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(20))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// randomEffects makes effects with everything in them, in the order in which they
// would be noted.
func randomEffects(r *rand.Rand, n int) *keyspace.Effects {
	fx := &keyspace.Effects{UntrackedTouch: r.IntN(8) == 0, UntrackedReady: r.IntN(8) == 0}
	for range n {
		db := r.IntN(20)
		switch r.IntN(6) {
		case 0:
			fx.Messages = append(fx.Messages, keyspace.Message{
				Channel: randomText(r), Payload: randomText(r), Shard: r.IntN(2) == 0, Events: len(fx.Events)})
		case 1:
			fx.Events = append(fx.Events, keyspace.Event{
				Class: 1 << r.IntN(11), DB: db, Name: string(randomText(r)), Key: randomText(r)})
		case 2:
			fx.Touched = append(fx.Touched, keyspace.Touch{DB: db, Key: randomText(r), Expired: r.IntN(2) == 0})
		case 3:
			fx.Touched = append(fx.Touched, keyspace.Touch{DB: db})
		case 4:
			fx.Woken = append(fx.Woken, keyspace.Ready{DB: db, Key: randomText(r)})
		case 5:
			fx.Woken = append(fx.Woken, keyspace.Ready{DB: db})
		}
	}
	return fx
}

// heard is what somebody with an interest is to hear of effects: the slow and simple
// way.
func heard(fx *keyspace.Effects, want Interest) keyspace.Effects {
	var out keyspace.Effects
	before := []int{0} // how many of the first events are heard
	for _, ev := range fx.Events {
		n := before[len(before)-1]
		if ev.Class&want.Events != 0 {
			n++
		}
		before = append(before, n)
	}
	for _, m := range fx.Messages {
		if m.Shard && want.Shard || !m.Shard && want.Messages {
			m.Events = before[m.Events]
			out.Messages = append(out.Messages, m)
		}
	}
	for _, ev := range fx.Events {
		if ev.Class&want.Events != 0 {
			out.Events = append(out.Events, ev)
		}
	}
	if want.Keys {
		out.Touched, out.UntrackedTouch = fx.Touched, fx.UntrackedTouch || fx.Flushed
	}
	if want.Waiting {
		if out.UntrackedReady = fx.UntrackedReady; !out.UntrackedReady {
			out.Woken = fx.Woken
		}
	}
	return out
}

// frames takes encoded frames apart.
func frames(t testing.TB, b []byte) (out keyspace.Effects, n int) {
	t.Helper()
	r := frameReader{r: iotest.HalfReader(bytes.NewReader(b)), max: maxFrame}
	for {
		kind, body, err := r.next()
		if err == io.EOF {
			return out, n
		}
		if err != nil || kind != frameEffects {
			t.Fatalf("frame %#x: %v", kind, err)
		}
		var fx keyspace.Effects
		if err := readEffects(bytes.Clone(body), &fx); err != nil {
			t.Fatal(err)
		}
		join(&out, &fx)
		n++
	}
}

// join appends effects to others, as they were before they were sent in frames.
func join(out, fx *keyspace.Effects) {
	for _, m := range fx.Messages {
		m.Events += len(out.Events)
		out.Messages = append(out.Messages, m)
	}
	out.Events = append(out.Events, fx.Events...)
	out.Touched = append(out.Touched, fx.Touched...)
	out.Woken = append(out.Woken, fx.Woken...)
	out.UntrackedTouch, out.UntrackedReady = out.UntrackedTouch || fx.UntrackedTouch, out.UntrackedReady || fx.UntrackedReady
}

func TestEffectsRoundTrip(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for range 3000 {
		fx, want := randomEffects(r, r.IntN(30)), randomInterest(r)
		b, n := appendEffects([]byte("before"), fx, want)
		got, read := frames(t, b[len("before"):])
		if exp := heard(fx, want); !reflect.DeepEqual(got, exp) || read != n {
			t.Fatalf("%+v of\n%+v became\n%+v\nnot\n%+v", want, fx, got, exp)
		}
		if n > 0 && want.bits()&wanted(fx) == 0 {
			t.Fatalf("%+v would not be told %+v", want, fx)
		}
	}
}

// Many effects, or large ones, take several frames and keep their order.
func TestLargeEffectsTakeSeveralFrames(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	all := Interest{true, true, true, true, 0x7ff}
	fx := randomEffects(r, 100_000)
	fx.UntrackedReady = false
	fx.Messages = append(fx.Messages, keyspace.Message{
		Channel: []byte("c"), Payload: bytes.Repeat([]byte("x"), 3<<20), Events: len(fx.Events)})
	b, _ := appendEffects(nil, fx, all)
	got, n := frames(t, b)
	if exp := heard(fx, all); !reflect.DeepEqual(got, exp) {
		t.Error("they differ")
	}
	if n < 4 {
		t.Errorf("%d frames", n)
	}
}

func TestInterestRoundTrip(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for range 1000 {
		a, b := randomInterest(r), randomInterest(r)
		n, got, err := readInterest(appendInterest(nil, 7, a)[frameHead:])
		if err != nil || n != 7 || got != a {
			t.Fatalf("%+v became %+v, %d, %v", a, got, n, err)
		}
		if a.Or(b).Without(b).Or(b) != a.Or(b) || a.Without(a) != (Interest{}) || !a.Without(a).Empty() {
			t.Fatalf("%+v and %+v", a, b)
		}
	}
}

// A length that is only said takes no memory.
func TestFrameReaderBelievesNoLength(t *testing.T) {
	t.Parallel()
	head := []byte{0x3f, 0xff, 0xff, 0xff, frameEffects}
	r := frameReader{r: bytes.NewReader(append(head, make([]byte, 1000)...)), max: maxFrame}
	if _, _, err := r.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if cap(r.buf) > 2*readStep {
		t.Errorf("%d bytes of memory for 1000", cap(r.buf))
	}
	r = frameReader{r: bytes.NewReader(head), max: maxStrange}
	if _, _, err := r.next(); !errors.Is(err, errMalformed) {
		t.Error(err)
	}
	r = frameReader{r: strings.NewReader("\x00\x00\x00\x00\x01"), max: maxStrange}
	if _, _, err := r.next(); !errors.Is(err, errMalformed) {
		t.Error(err)
	}
}

func FuzzEffects(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	all := Interest{true, true, true, true, ^keyspace.Class(0)}
	for range 20 {
		if b, n := appendEffects(nil, randomEffects(r, 10), all); n > 0 {
			f.Add(b[frameHead:])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var fx keyspace.Effects
		if err := readEffects(body, &fx); err != nil {
			if !errors.Is(err, errMalformed) {
				t.Error(err)
			}
			return
		}
		// What was understood is understood the same way when it is sent again.
		for i := range fx.Events {
			if fx.Events[i].Class == 0 {
				return // nobody can want it
			}
		}
		b, _ := appendEffects(nil, &fx, all)
		if got, _ := frames(t, b); !reflect.DeepEqual(got, heard(&fx, all)) {
			t.Errorf("%+v became %+v", fx, got)
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(appendAck(appendInterest(nil, 1, Interest{Keys: true}), 1))
	f.Add(appendFrame(appendFrame(nil, frameBeat), frameHello, []byte(magic), make([]byte, 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := frameReader{r: bytes.NewReader(b), max: maxFrame}
		for {
			kind, body, err := r.next()
			if err != nil {
				return
			}
			switch kind {
			case frameInterest:
				if n, i, err := readInterest(body); err == nil && !bytes.Equal(appendInterest(nil, n, i)[frameHead:], body) {
					t.Errorf("interest %x", body)
				}
			case frameAck:
				if n, err := readAck(body); err == nil && !bytes.Equal(appendAck(nil, n)[frameHead:], body) {
					t.Errorf("acknowledgement %x", body)
				}
			}
		}
	})
}

// pair is both directions of a conversation whose other side is a script.
type pair struct {
	io.Reader
	io.Writer
}

// FuzzReceive: whatever a stranger says, it is not let in.
func FuzzReceive(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, frameHello, []byte(magic), make([]byte, nonceLen), []byte("id")), frameProof, make([]byte, macLen)))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := receive(pair{bytes.NewReader(b), io.Discard}, [32]byte{1}, "hub"); err == nil {
			t.Errorf("%q was let in", id)
		}
		if err := greet(pair{bytes.NewReader(b), io.Discard}, [32]byte{1}, "me", "hub"); err == nil {
			t.Error("a stranger was believed")
		}
	})
}
