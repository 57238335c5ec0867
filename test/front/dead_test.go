package front

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testserver"
	"redoubt/internal/testtikv"
)

// patientBeat makes leases so long that what must not wait for one is told from what
// does: eight seconds.
const patientBeat = 2 * time.Second

// nodes are how many front ends one knows, by each way in which clients ask.
func (c *client) nodes() (slots, shards, nodes int) {
	return len(c.value("CLUSTER", "SLOTS").Elems), len(c.value("CLUSTER", "SHARDS").Elems),
		strings.Count(c.do("CLUSTER", "NODES"), "\n")
}

func (c *client) knows(n int) func() bool {
	return func() bool {
		slots, shards, nodes := c.nodes()
		return slots == n && shards == n && nodes == n
	}
}

// A front end that is killed loses its slots at once, long before its lease ends.
func TestKilledFrontHasNoSlots(t *testing.T) {
	onStores(t, 3, patientBeat, []string{"--cluster-enabled", "yes"}, func(t *testing.T, s *stage) {
		a, b := s.dial(0), s.dial(1)
		s.until("all know all", func() bool { return a.knows(3)() && b.knows(3)() })
		lease := 4 * time.Second
		if s.mem {
			lease = 4 * patientBeat
		}
		killed := time.Now()
		s.Kill(2)
		s.until("the dead one has no slots", func() bool { return a.knows(2)() && b.knows(2)() })
		took := time.Since(killed)
		t.Logf("after %s", took)
		if took >= lease*3/4 {
			t.Errorf("it has kept its slots for %s, with a lease of %s", took, lease)
		}
		// Each slot is somebody's.
		next := int64(0)
		for _, e := range a.value("CLUSTER", "SLOTS").Elems {
			if e.Elems[0].Int() != next {
				t.Errorf("slots begin at %d, want %d", e.Elems[0].Int(), next)
			}
			next = e.Elems[1].Int() + 1
		}
		if next != 16384 {
			t.Errorf("slots end at %d", next)
		}
		// The first one leads, and is killed as well.
		s.Kill(0)
		s.until("the last one has all slots", b.knows(1))
	})
}

// A front end that lives, but whose bus cannot be reached, comes back.
func TestPartitionedFrontComesBack(t *testing.T) {
	t.Parallel()
	s := onMemory(t, 2, patientBeat, "--cluster-enabled", "yes")
	a, b := s.dial(0), s.dial(1)
	s.until("both know both", func() bool { return a.knows(2)() && b.knows(2)() })
	s.Server(0).StopPeers()
	s.until("it is left out", b.knows(1))
	s.until("it is back", b.knows(2))
	// And stays, although its bus is still closed.
	for end := time.Now().Add(patientBeat); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !b.knows(2)() {
			t.Fatal("it is left out again")
		}
	}
	a.want("OK", "SET", "k", "v")
	b.want("v", "GET", "k")
}

// A front end that starts again where one was killed does not wait for its lease.
func TestRestartAtTheSameAddress(t *testing.T) {
	t.Parallel()
	port, bus := freePort(t), freePort(t)
	args := []string{"--cluster-enabled", "yes", "--port", port, "--cluster-port", bus}
	s := onMemory(t, 1, patientBeat, args...)
	s.dial(0).want("OK", "SET", "k", "v")
	s.Kill(0)
	began := time.Now()
	s.Restart(0)
	took := time.Since(began)
	t.Logf("after %s", took)
	if took >= 4*patientBeat {
		t.Errorf("it took %s, with a lease of %s", took, 4*patientBeat)
	}
	c := s.dial(0)
	c.want("v", "GET", "k")
	s.until("it has all slots", c.knows(1))
}

// Of two front ends with the same address the later one does not start, and says why.
func TestSameAddressIsRefused(t *testing.T) {
	t.Parallel()
	bus := freePort(t)
	s := onMemory(t, 1, patientBeat, "--cluster-announce-bus-port", bus)
	err := testserver.Fails(t, testserver.Options{Store: s.Store(), Beat: patientBeat, Args: []string{"--cluster-announce-bus-port", bus}})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:"+bus) || !strings.Contains(err.Error(), "cluster-announce-ip") {
		t.Errorf("error %v", err)
	}
	s.dial(0).want("OK", "SET", "k", "v")
}

// freePort finds a port that nobody listens at, outside of the range from which the system
// takes those of other servers and of connections.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// A front end of a cluster makes no directory for data that it does not store.
func TestNoDataDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := onTiKV(t, 1, testtikv.Shared(t), "--dir", dir)
	s.dial(0).want("OK", "SET", "k", "v")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %v", dir, err)
	}
}
