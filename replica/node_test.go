package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine/local"
	"redoubt/journal"
	"redoubt/replica/state"
)

// Whole nodes on file systems that crash, with goroutines and the clock of the machine. The
// machine above them is a register, whose memory runs ahead of the commits.

const (
	testTick     = 10 * time.Millisecond
	testElection = 8
)

// register is a Machine.
type register struct {
	node *Node

	mu      sync.Mutex // a latch: held from the evaluation of a write until it is in memory
	value   uint64
	leads   bool
	history []stored                // in order; what Rewind reads is the node's
	waits   map[uint64][]chan error // replies by the entry that they wait for
}

type stored struct{ index, value uint64 }

var (
	errVoid    = errors.New("void")
	errUnknown = errors.New("unknown")
	errRefused = errors.New("refused")
)

func (r *register) Apply(index uint64, payload []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apply(index, payload)
	return nil
}

func (r *register) apply(index uint64, payload []byte) {
	if len(payload) == 0 {
		return
	}
	if n := len(r.history); n > 0 && r.history[n-1].index >= index {
		panic(fmt.Sprintf("entry %d is applied after %d", index, r.history[n-1].index))
	}
	r.value = binary.BigEndian.Uint64(payload)
	r.history = append(r.history, stored{index, r.value})
}

func (r *register) Void(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, list := range r.waits {
		if i > index {
			for _, c := range list {
				c <- errVoid
			}
			delete(r.waits, i)
		}
	}
}

// Rewind makes the register anew from the log: the order is what a restart has.
func (r *register) Rewind(index uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.value, r.history = 0, nil
	return r.node.Replay(0, index, func(index uint64, payload []byte) error {
		r.apply(index, payload)
		return nil
	})
}

func (r *register) Lead(uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = true
	return nil
}

func (r *register) Follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = false
}

// release answers what is durable.
func (r *register) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	durable := r.node.Durable()
	for i, list := range r.waits {
		if i <= durable {
			for _, c := range list {
				c <- nil
			}
			delete(r.waits, i)
		}
	}
}

// add adds n to the register, or reads it if n is 0, and returns what it is then.
func (r *register) add(n uint64) (uint64, error) {
	r.mu.Lock()
	if !r.leads {
		r.mu.Unlock()
		return 0, errRefused
	}
	epoch := r.node.Epoch()
	if n == 0 && !r.node.Leads() {
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 20*testTick)
		defer cancel()
		if r.node.Confirm(ctx) != nil {
			return 0, errRefused
		}
		r.mu.Lock()
		if !r.leads || r.node.Epoch() != epoch {
			r.mu.Unlock()
			return 0, errRefused
		}
	}
	value := r.value + n
	index := r.node.Last()
	if n > 0 {
		var err error
		index, err = r.node.Append(epoch, append(make([]byte, r.node.HeadRoom()), binary.BigEndian.AppendUint64(nil, value)...))
		if err != nil {
			r.mu.Unlock()
			if errors.Is(err, ErrUnknownOutcome) {
				return 0, errUnknown
			}
			return 0, errRefused
		}
		r.value = value
		r.history = append(r.history, stored{index, value})
	}
	done := make(chan error, 1)
	r.waits[index] = append(r.waits[index], done)
	r.mu.Unlock()
	r.release()
	select {
	case err := <-done:
		return value, err
	case <-time.After(100 * testTick):
		return 0, errUnknown
	}
}

// rig is a cluster of nodes with a network between them.
type rig struct {
	t      testing.TB
	ids    []uint64
	always bool
	log    *slog.Logger

	mu    sync.Mutex
	hosts map[uint64]*testHost
	cut   map[[2]uint64]bool
	loss  int // of 100
	rng   *rand.Rand
}

type testHost struct {
	rig     *rig
	id      uint64
	mem     *vfs.MemFS
	node    *Node
	machine atomic.Pointer[register]
	inbox   chan []byte
	quit    chan struct{}
	done    sync.WaitGroup
}

func newRig(t testing.TB, n int, always bool, rng *rand.Rand) *rig {
	r := &rig{t: t, always: always, hosts: make(map[uint64]*testHost), cut: make(map[[2]uint64]bool), rng: rng}
	r.log = slog.New(slog.DiscardHandler)
	for id := range uint64(n) {
		r.ids = append(r.ids, id+1)
	}
	for _, id := range r.ids {
		f, err := newFiles(state.State{Cluster: state.ID{1}, Node: state.ID{byte(id)}, RaftID: id, Boot: state.ID{7}})
		must(t, err)
		h := &testHost{rig: r, id: id, mem: f.mem}
		r.mu.Lock()
		r.hosts[id] = h
		r.mu.Unlock()
		h.start()
	}
	t.Cleanup(func() {
		for _, h := range r.hosts {
			h.stop()
		}
	})
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *testHost) start() {
	m := &register{waits: make(map[uint64][]chan error)}
	policy := journal.EverySec
	if h.rig.always {
		policy = journal.Always
	}
	node, err := OpenNode(NodeOptions{
		FS: local.JournalFiles(h.mem), Dir: "/journal", State: statePath, SegmentBytes: 4000, Policy: policy,
		Voters: h.rig.ids, Send: h.send, OnDurable: m.release, Tick: testTick, Election: testElection,
		Boot: state.ID{7}, Logger: h.rig.log, LogID: uint32(h.id),
	}, journal.Applied{}, func(index uint64, payload []byte) error { m.apply(index, payload); return nil }, nil)
	must(h.rig.t, err)
	m.node, h.node = node, node
	inbox, quit := make(chan []byte, 1024), make(chan struct{})
	h.rig.mu.Lock()
	h.inbox, h.quit = inbox, quit
	h.rig.mu.Unlock()
	must(h.rig.t, node.Start(m))
	h.machine.Store(m)
	h.done.Go(func() {
		for {
			select {
			case b := <-inbox:
				if err := node.Receive(uint64(b[0]), b[1:]); err != nil {
					h.rig.t.Errorf("node %d: %v", h.id, err)
				}
			case <-quit:
				return
			}
		}
	})
}

// send is the network: what is cut off, or too much, is lost.
func (h *testHost) send(m Message) {
	r, to := h.rig, m.Raft.GetTo()
	b := AppendMessage([]byte{byte(h.id)}, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut[[2]uint64{h.id, to}] || r.loss > 0 && r.rng.IntN(100) < r.loss {
		return
	}
	if there := r.hosts[to]; there != nil && there.inbox != nil {
		select {
		case there.inbox <- b:
		default:
		}
	}
}

// stop ends the node cleanly.
func (h *testHost) stop() {
	h.machine.Store(nil)
	if h.node == nil {
		return
	}
	close(h.quit)
	h.done.Wait()
	if err := h.node.Close(); err != nil {
		h.rig.t.Errorf("closing node %d: %v", h.id, err)
	}
	h.node = nil
}

// kill ends the node as kill -9 or a power cut does, and leaves what it had on disk.
func (h *testHost) kill(power bool) {
	h.machine.Store(nil)
	h.rig.mu.Lock()
	percent := 100
	if power {
		percent = []int{0, 30, 70}[h.rig.rng.IntN(3)]
	}
	rng := rand.New(rand.NewPCG(h.rig.rng.Uint64(), 0))
	h.inbox = nil
	h.rig.mu.Unlock()
	h.node.mu.Lock() // no write is half done, unless it waits for the disk
	after := h.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
	h.node.err = errors.New("killed") // from here on it neither writes nor answers
	h.node.mu.Unlock()
	close(h.quit)
	h.done.Wait()
	_ = h.node.Close() // its files are nobody's any more
	h.mem, h.node = after, nil
}

func (r *rig) leader() *testHost {
	for _, h := range r.hosts {
		if m := h.machine.Load(); m != nil {
			m.mu.Lock()
			leads := m.leads
			m.mu.Unlock()
			ctx, cancel := context.WithTimeout(context.Background(), testElection*testTick)
			if leads = leads && m.node.Confirm(ctx) == nil; leads {
				cancel()
				return h
			}
			cancel()
		}
	}
	return nil
}

func (r *rig) await(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			for _, h := range r.hosts {
				s := h.node.Status()
				h.node.mu.Lock()
				r.t.Logf("node %d: %+v, cuts %v, commit %d, %d waiting writes, %d events, err %v", h.id, s, h.node.cuts, h.node.commit, len(h.node.pending), len(h.node.queue), h.node.err)
				h.node.mu.Unlock()
			}
			r.t.Fatalf("never: %s", what)
		}
	}
}

func (r *rig) partition(sides map[uint64]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.cut)
	for a, x := range sides {
		for b, y := range sides {
			if x != y {
				r.cut[[2]uint64{a, b}] = true
			}
		}
	}
}

func nodeSeed(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// A leader that is cut off takes writes that nobody else gets. When it is back they are void,
// its memory is taken back, and the writes of the other side are there.
func TestNodeRewinds(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3, false, nodeSeed(t))
	r.await("a leader", func() bool { return r.leader() != nil })
	old := r.leader()
	if v, err := old.machine.Load().add(5); v != 5 || err != nil {
		t.Fatal(v, err)
	}
	sides := map[uint64]int{1: 0, 2: 0, 3: 0}
	sides[old.id] = 1
	r.partition(sides)
	void := make(chan error, 1)
	go func() { _, err := old.machine.Load().add(100); void <- err }()
	r.await("another leader", func() bool { l := r.leader(); return l != nil && l != old })
	if v, err := r.leader().machine.Load().add(1); v != 6 || err != nil {
		t.Fatal(v, err)
	}
	r.partition(nil)
	if err := <-void; !errors.Is(err, errVoid) && !errors.Is(err, errUnknown) && !errors.Is(err, errRefused) {
		t.Errorf("the write of a leader that was cut off: %v", err)
	}
	r.await("all have the same", func() bool {
		for _, h := range r.hosts {
			m := h.machine.Load()
			m.mu.Lock()
			v := m.value
			m.mu.Unlock()
			if v != 6 {
				return false
			}
		}
		return true
	})
	if old.node.Status().Rewinds == 0 {
		t.Error("nothing was taken back")
	}
}

// The operations of clients are linearizable whatever happens to the nodes.
func TestNodesAreLinearizable(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{false, true} {
		t.Run(fmt.Sprint("always=", always), func(t *testing.T) {
			t.Parallel()
			rng := nodeSeed(t)
			for end := time.Now().Add(simTime(t, 3*time.Second)); ; {
				runNodes(t, always, rng)
				if time.Now().After(end) || t.Failed() {
					return
				}
			}
		})
	}
}

type nodeInput struct{ add uint64 }

var nodeModel = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		was, in := state.(uint64), input.(nodeInput)
		if output == nil { // unknown
			return true, was + in.add
		}
		return output.(uint64) == was+in.add, was + in.add
	},
}

func runNodes(t *testing.T, always bool, rng *rand.Rand) {
	r := newRig(t, 3, always, rand.New(rand.NewPCG(rng.Uint64(), 0)))
	var mu sync.Mutex
	var history []porcupine.Operation
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
	defer cancel()
	var clients sync.WaitGroup
	unknown, done := 0, 0
	for c := range 4 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		clients.Go(func() {
			for ctx.Err() == nil {
				m := r.hosts[r.ids[rng.IntN(len(r.ids))]].machine.Load()
				if m == nil {
					time.Sleep(time.Millisecond)
					continue
				}
				in := nodeInput{uint64(rng.IntN(3))}
				call := time.Since(start)
				v, err := m.add(in.add)
				op := porcupine.Operation{ClientId: c, Input: in, Call: int64(call), Output: v, Return: int64(time.Since(start))}
				mu.Lock()
				switch {
				case err == nil:
					done++
					history = append(history, op)
				case errors.Is(err, errUnknown) && in.add > 0:
					unknown++
					op.Output, op.Return = nil, int64(time.Hour)
					history = append(history, op)
				}
				mu.Unlock()
				if err != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
		h := r.hosts[r.ids[rng.IntN(len(r.ids))]]
		switch rng.IntN(5) {
		case 0: // kill -9; a power cut where fsyncs are waited for
			h.kill(always && rng.IntN(2) == 0)
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
			h.start()
		case 1:
			sides := make(map[uint64]int)
			for _, id := range r.ids {
				sides[id] = rng.IntN(2)
			}
			r.partition(sides)
		case 2: // the process is stopped for longer than a lease
			h.node.mu.Lock()
			time.Sleep(time.Duration(rng.IntN(2*testElection)) * testTick)
			h.node.mu.Unlock()
		case 3:
			h.node.Transfer(r.ids[rng.IntN(len(r.ids))])
		case 4:
			r.partition(nil)
		}
	}
	clients.Wait()
	r.partition(nil)
	result := porcupine.CheckOperationsTimeout(nodeModel, history, time.Minute)
	if result != porcupine.Ok {
		t.Errorf("%d operations: %v", len(history), result)
	}
	// All agree in the end, and go on.
	r.await("a write", func() bool { l := r.leader(); return l != nil && add1(l) })
	var values [3]uint64
	r.await("all have the same", func() bool {
		for i, id := range r.ids {
			m := r.hosts[id].machine.Load()
			m.mu.Lock()
			values[i] = m.value
			m.mu.Unlock()
		}
		return values[0] == values[1] && values[1] == values[2]
	})
	var rewinds int64
	for _, h := range r.hosts {
		rewinds += h.node.Status().Rewinds
		h.stop()
	}
	t.Logf("%d operations, %d of unknown outcome, %d rewinds", done, unknown, rewinds)
	clear(r.hosts)
	if done == 0 {
		t.Error("nothing was done")
	}
}

func add1(h *testHost) bool {
	_, err := h.machine.Load().add(1)
	return err == nil
}

// A node that may have forgotten what it has acknowledged is not started again.
func TestForgetfulNodeIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		policy  journal.Policy
		clean   bool
		boot    byte
		refused bool
	}{
		{"the machine was started anew", journal.EverySec, false, 8, true},
		{"without fsyncs", journal.No, false, 8, true},
		{"fsyncs were waited for", journal.Always, false, 8, false},
		{"it ended cleanly", journal.EverySec, true, 8, false},
		{"kill -9", journal.EverySec, false, 7, false},
	} {
		f, err := newFiles(state.State{Cluster: state.ID{1}, Node: state.ID{2}, RaftID: 1, Term: 3, Vote: 1, Boot: state.ID{7}, Clean: c.clean})
		must(t, err)
		n, err := OpenNode(NodeOptions{
			FS: local.JournalFiles(f.mem), Dir: "/journal", State: statePath, Policy: c.policy, Voters: []uint64{1}, Boot: state.ID{c.boot}, Send: func(Message) {},
		}, journal.Applied{}, func(uint64, []byte) error { return nil }, nil)
		if c.refused != errors.Is(err, ErrForgot) || !c.refused && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			must(t, n.Close())
			s, err := f.stateFile()
			must(t, err)
			if !s.State().Clean {
				t.Errorf("%s: closed, and not clean", c.name)
			}
			must(t, s.Close())
		}
	}
}
