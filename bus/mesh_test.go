package bus

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// meshNode is a member that notes what it receives.
type meshNode struct {
	*Mesh
	mu  sync.Mutex
	got []string
}

func (n *meshNode) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.got...)
}

func newMesh(t *testing.T, change func(*MeshOptions)) *meshNode {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &meshNode{}
	o := MeshOptions{
		Listener: ln, Secret: [32]byte{1}, Backoff: [2]time.Duration{time.Millisecond, 5 * time.Millisecond},
		Answer: func(q []byte) []byte { return append([]byte("answer to "), q...) },
		Receive: func(from string, b []byte) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.got = append(n.got, fmt.Sprintf("%s: %.20s", from, b))
			return nil
		},
	}
	if change != nil {
		change(&o)
	}
	n.Mesh = NewMesh(o)
	n.Start()
	t.Cleanup(n.Close)
	return n
}

func (n *meshNode) peer(id string) Peer { return Peer{ID: id, Addr: n.Addr().String()} }

func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func connectedTo(n *meshNode, id string) func() bool {
	return func() bool {
		for _, l := range n.Links() {
			if l.ID == id {
				return l.Connected
			}
		}
		return false
	}
}

func say(text string) func([]byte) []byte {
	return func(dst []byte) []byte { return append(dst, text...) }
}

func TestMeshSends(t *testing.T) {
	t.Parallel()
	a, b := newMesh(t, nil), newMesh(t, nil)
	a.Join("c", "a", []Peer{b.peer("b")})
	b.Join("c", "b", []Peer{a.peer("a")})
	soon(t, "connected", func() bool { return connectedTo(a, "b")() && connectedTo(b, "a")() })
	var want []string
	for i := range 100 {
		text := fmt.Sprint("message ", i)
		a.Send("b", say(text))
		want = append(want, "a: "+text)
	}
	large := strings.Repeat("x", 3<<20)
	a.Send("b", say(large))
	a.Send("nobody", say("lost"))
	soon(t, "all is there", func() bool { return len(b.list()) == 101 })
	if got := b.list(); fmt.Sprint(got[:100]) != fmt.Sprint(want) {
		t.Errorf("got %q", got[:100])
	}
	// Whoever knows the secret may ask.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if reply, err := newMesh(t, nil).Ask(ctx, b.Addr().String(), []byte("who")); err != nil || string(reply) != "answer to who" {
		t.Errorf("%q, %v", reply, err)
	}
	if _, err := newMesh(t, func(o *MeshOptions) { o.Secret = [32]byte{2} }).Ask(ctx, b.Addr().String(), []byte("who")); err == nil {
		t.Error("a question without the secret was answered")
	}
}

// A node that comes back is connected to again, and what was sent meanwhile is lost, not late.
func TestMeshConnectsAgain(t *testing.T) {
	t.Parallel()
	a, b := newMesh(t, nil), newMesh(t, nil)
	a.Join("c", "a", []Peer{b.peer("b")})
	b.Join("c", "b", []Peer{a.peer("a")})
	soon(t, "connected", connectedTo(a, "b"))
	addr := b.Addr().String()
	b.Close()
	soon(t, "the break is seen", func() bool { return !connectedTo(a, "b")() })
	a.Send("b", say("lost"))
	again := newMesh(t, func(o *MeshOptions) {
		o.Listener.Close()
		soon(t, "the address", func() (ok bool) {
			ln, err := net.Listen("tcp", addr)
			o.Listener = ln
			return err == nil
		})
	})
	again.Join("c", "b", []Peer{a.peer("a")})
	soon(t, "connected again", connectedTo(a, "b"))
	a.Send("b", say("there"))
	soon(t, "it is there", func() bool { return len(again.list()) > 0 })
	if got := again.list(); fmt.Sprint(got) != "[a: there]" {
		t.Errorf("%q", got)
	}
}

// A node of another cluster, or one that nobody has named, is neither heard nor spoken to.
func TestMeshRefusesStrangers(t *testing.T) {
	t.Parallel()
	a := newMesh(t, nil)
	for name, join := range map[string]func(m *meshNode){
		"another cluster": func(m *meshNode) { m.Join("d", "b", []Peer{a.peer("a")}) },
		"no such node":    func(m *meshNode) { m.Join("c", "z", []Peer{a.peer("a")}) },
		"the wrong node":  func(m *meshNode) { m.Join("c", "b", []Peer{a.peer("z")}) },
	} {
		b := newMesh(t, nil)
		refused := a.Stats().Refused
		if name == "another cluster" {
			a.Join("c", "a", []Peer{b.peer("b")})
		}
		join(b)
		soon(t, name+" is refused", func() bool { return a.Stats().Refused > refused })
		b.Send("a", say("harm"))
		b.Send("z", say("harm"))
	}
	if got := a.list(); len(got) > 0 {
		t.Errorf("%q was heard", got)
	}
}

// greeted opens a connection as a member does and returns it.
func greeted(t *testing.T, n *meshNode, self, want string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := greet(c, [32]byte{1}, self, want); err != nil {
		t.Fatal(err)
	}
	return c
}

// Whatever a connection brings, the mesh closes it and goes on: garbage before and behind the
// handshake, halves of frames, and lengths beyond the limit.
func TestMeshSurvivesGarbage(t *testing.T) {
	t.Parallel()
	a := newMesh(t, nil)
	b := newMesh(t, nil)
	a.Join("c", "a", []Peer{b.peer("b"), {ID: "evil", Addr: "127.0.0.1:1"}})
	b.Join("c", "b", []Peer{a.peer("a")})
	soon(t, "connected", connectedTo(b, "a"))
	// harm sends bytes, and nothing more, over a connection that the other side must close.
	harm := func(name string, c net.Conn, bytes []byte) {
		t.Helper()
		defer c.Close()
		_, err := c.Write(bytes)
		if err == nil {
			err = c.(*net.TCPConn).CloseWrite()
		}
		if err != nil {
			return // it is closed already
		}
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: the connection stays", name)
		}
	}
	for name, bytes := range map[string][]byte{
		"text":                 []byte("GET / HTTP/1.1\r\n\r\n"),
		"zeros":                make([]byte, 100),
		"a frame too long":     binary.BigEndian.AppendUint32(nil, 1<<20),
		"half of a hello":      appendFrame(nil, frameHello, []byte(magic))[:9],
		"another first frame":  appendFrame(nil, frameSent, []byte("harm")),
		"a hello of the past":  appendFrame(nil, frameHello, []byte("rdtbus\x00\x00"), make([]byte, nonceLen)),
		"a hello with no name": appendFrame(nil, frameHello, []byte(magic), make([]byte, nonceLen)),
	} {
		c, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		harm(name, c, bytes)
	}
	for name, bytes := range map[string][]byte{
		"another kind":      appendFrame(nil, frameEffects, []byte("harm")),
		"half of a message": appendFrame(nil, frameSent, []byte("harm"))[:7],
		"beyond the limit":  append(binary.BigEndian.AppendUint32(nil, 1<<31), frameSent),
		"an empty frame":    make([]byte, 4),
	} {
		harm(name, greeted(t, a, "c:evil", "c:a"), bytes)
	}
	b.Send("a", say("still here"))
	soon(t, "the others are heard", func() bool { return len(a.list()) > 0 })
	if got := a.list(); fmt.Sprint(got) != "[b: still here]" {
		t.Errorf("%q", got)
	}
}

// A member that does not read costs no more than the queue: Send does not wait, and the
// connection is closed.
func TestMeshDropsWhoDoesNotRead(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	b := newMesh(t, func(o *MeshOptions) {
		o.Receive = func(string, []byte) error { <-stop; return nil }
	})
	defer close(stop)
	a := newMesh(t, func(o *MeshOptions) { o.Queue, o.Timing = 1<<20, Timing{Beat: time.Hour, Dead: time.Hour} })
	a.Join("c", "a", []Peer{b.peer("b")})
	b.Join("c", "b", []Peer{a.peer("a")})
	soon(t, "connected", connectedTo(a, "b"))
	block := bytes.Repeat([]byte("x"), 256<<10)
	soon(t, "it is dropped", func() bool {
		a.Send("b", func(dst []byte) []byte { return append(dst, block...) })
		for _, l := range a.Links() {
			if l.Queued > 2<<20 {
				t.Fatalf("%d bytes wait", l.Queued)
			}
		}
		return a.Stats().Drops > 0
	})
}

// Another node takes the place of a member: the old one is neither heard nor spoken to any more.
func TestMeshReplaces(t *testing.T) {
	t.Parallel()
	a, old, fresh := newMesh(t, nil), newMesh(t, nil), newMesh(t, nil)
	a.Join("c", "a", []Peer{old.peer("b1")})
	old.Join("c", "b1", []Peer{a.peer("a")})
	soon(t, "connected", func() bool { return connectedTo(a, "b1")() && connectedTo(old, "a")() })
	fresh.Join("c", "b2", []Peer{a.peer("a")})
	refused := a.Stats().Refused
	a.Replace("b1", fresh.peer("b2"))
	soon(t, "the new one is there", func() bool { return connectedTo(a, "b2")() && connectedTo(fresh, "a")() })
	soon(t, "the old one is refused", func() bool { return a.Stats().Refused > refused+1 })
	before := len(a.list())
	old.Send("a", say("late"))
	fresh.Send("a", say("new"))
	a.Send("b2", say("hello"))
	soon(t, "what the new ones say", func() bool { return len(a.list()) > before && len(fresh.list()) == 1 })
	if got := a.list(); len(got) != before+1 || got[before] != "b2: new" || len(old.list()) > 0 {
		t.Errorf("%q, %q", got, old.list())
	}
}
