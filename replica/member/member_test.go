package member

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/replica/state"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a node of a list, whose listener is made anew when it is started again.
type place struct {
	addr string
	ln   net.Listener
	dir  string
}

func places(t *testing.T, n int) (list []*place, peers []string) {
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		list = append(list, &place{ln.Addr().String(), ln, t.TempDir() + "/raft"})
		peers = append(peers, ln.Addr().String())
	}
	return list, peers
}

func (p *place) open(t *testing.T, peers []string, empty bool) (*Member, error) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); p.ln == nil; {
		var err error
		if p.ln, err = net.Listen("tcp", p.addr); err != nil && time.Now().After(end) {
			t.Fatal(err)
		}
	}
	ln := p.ln
	p.ln = nil
	m, err := New(Options{
		Dir: p.dir, Peers: peers, Listener: ln, Secret: [32]byte{1}, Boot: state.ID{1}, Ask: 20 * time.Millisecond,
		Empty: func() (bool, error) { return empty, nil },
	})
	if err != nil {
		ln.Close()
		return nil, err
	}
	t.Cleanup(func() { m.Close() })
	return m, nil
}

// found founds and returns the members; a test fails if that does not come to an end.
func found(t *testing.T, list []*place, peers []string) []*Member {
	t.Helper()
	members := make([]*Member, len(list))
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i, p := range list {
		m, err := p.open(t, peers, true)
		must(t, err)
		members[i] = m
		all.Go(func() {
			if err := m.Found(ctx); err != nil {
				t.Errorf("node %d: %v", i+1, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return members
}

func TestFounds(t *testing.T) {
	t.Parallel()
	list, peers := places(t, 3)
	members := found(t, list, peers)
	cluster := members[0].Cluster()
	for i, m := range members {
		if m.Cluster() != cluster || cluster == (state.ID{}) || int(m.state.RaftID) != i+1 {
			t.Errorf("node %d is replica %d of cluster %x, not of %x", i+1, m.state.RaftID, m.Cluster(), cluster)
		}
	}
	// One that is started again goes on as who it was, without asking anybody.
	for _, m := range members {
		must(t, m.Close())
	}
	again, err := list[1].open(t, peers, false)
	must(t, err)
	must(t, again.Found(context.Background()))
	if again.Cluster() != cluster || again.state.RaftID != 2 {
		t.Errorf("replica %d of cluster %x", again.state.RaftID, again.Cluster())
	}
}

// Two of three nodes do not found a cluster; the third one may come later.
func TestFoundingNeedsAll(t *testing.T) {
	t.Parallel()
	list, peers := places(t, 3)
	list[2].ln.Close()
	list[2].ln = nil
	var early [2]*Member
	var waiting sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i := range early {
		m, err := list[i].open(t, peers, true)
		must(t, err)
		early[i] = m
	}
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if err := early[0].Found(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), peers[2]) {
		t.Fatalf("two of three: %v", err)
	}
	for _, m := range early {
		waiting.Go(func() {
			if err := m.Found(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	late, err := list[2].open(t, peers, true)
	must(t, err)
	must(t, late.Found(ctx))
	waiting.Wait()
	if late.Cluster() != early[0].Cluster() || late.Cluster() != early[1].Cluster() {
		t.Error("they are in several clusters")
	}
}

// A node that has another list, or somebody else's store, does not enter; one that has lost its
// files takes its place again, as one that may have promised anything.
func TestWhoEnters(t *testing.T) {
	t.Parallel()
	list, peers := places(t, 3)
	members := found(t, list, peers)
	must(t, members[2].Close())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	refused := func(name string, p *place, peers []string, empty bool, want string) {
		t.Helper()
		m, err := p.open(t, peers, empty)
		if err == nil {
			err = m.Found(ctx)
			must(t, m.Close())
		}
		if !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	at := list[2].addr
	lost, err := (&place{addr: at, dir: t.TempDir() + "/raft"}).open(t, peers, true)
	must(t, err)
	must(t, lost.Found(ctx))
	if s := lost.state; !s.Returning || s.RaftID != 3 || lost.Cluster() != members[0].Cluster() {
		t.Errorf("lost files: %+v", s)
	}
	must(t, lost.Close())
	refused("another order", &place{addr: at, dir: t.TempDir() + "/raft"}, []string{peers[2], peers[0], peers[1]}, true, "another raft-peers")
	refused("a store without a state", &place{addr: at, dir: t.TempDir() + "/raft"}, peers, false, "no state of a replica")
	refused("none of the list", &place{addr: "127.0.0.1:0", dir: t.TempDir() + "/raft"}, []string{peers[0], peers[0] + "0", peers[1]}[:1], true, "none of")
	// Who it was goes on.
	again, err := list[2].open(t, peers, false)
	must(t, err)
	must(t, again.Found(ctx))
}
