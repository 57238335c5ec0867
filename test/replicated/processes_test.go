package replicated

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// ports returns free ports of the loopback interface.
func ports(t *testing.T, n int) (list []string) {
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer ln.Close()
		_, port, err := net.SplitHostPort(ln.Addr().String())
		must(t, err)
		list = append(list, port)
	}
	return list
}

// Three processes, of which the leader is killed, or stopped, again and again while clients
// write: every write that was acknowledged is there in the end, and each time another node goes on.
func TestLeaderIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	t.Parallel()
	rng := seeded(t)
	program, err := testserver.Build()
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(program)) })
	free := ports(t, 6)
	clientPorts, nodePorts := free[:3], free[3:]
	peers := "127.0.0.1:" + strings.Join(nodePorts, ",127.0.0.1:")
	dirs := [3]string{t.TempDir(), t.TempDir(), t.TempDir()}
	var nodes [3]*testserver.Process
	start := func(i int) {
		nodes[i] = testserver.StartProcess(t, program, dirs[i], "--port", clientPorts[i], "--cluster-port", nodePorts[i], "--raft-peers", peers, "--maxmemory", "64mb")
	}
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() { start(i) })
	}
	all.Wait()

	leads := func(port string) bool {
		cl, err := respclient.Dial("127.0.0.1:" + port)
		if err != nil {
			return false
		}
		defer cl.Close()
		cl.Timeout = time.Second
		v, err := cl.Do("SET", "probe", "x")
		return err == nil && !v.IsError()
	}
	leader := func(not int) int {
		for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			for i, p := range clientPorts {
				if i != not && leads(p) {
					return i
				}
			}
		}
		t.Fatal("no node leads")
		return -1
	}
	leader(-1)

	// Each client writes keys of its own, one after the other, and notes what was acknowledged.
	const clients, most = 4, 20_000
	var stop atomic.Bool
	var acknowledged [clients][]string
	var unknown atomic.Int64
	var writing sync.WaitGroup
	for c := range clients {
		writing.Go(func() {
			var cl *respclient.Client
			at := c % 3
			for i := 0; i < most && !stop.Load(); i++ {
				if cl == nil {
					var err error
					if cl, err = respclient.Dial("127.0.0.1:" + clientPorts[at]); err != nil {
						cl, at = nil, (at+1)%3
						time.Sleep(5 * time.Millisecond)
						continue
					}
					cl.Timeout = 2 * time.Second
				}
				k := fmt.Sprintf("c%d:%d", c, i)
				v, err := cl.Do("SET", k, k)
				switch {
				case err == nil && !v.IsError():
					acknowledged[c] = append(acknowledged[c], k)
				default:
					if err != nil || strings.HasPrefix(v.Str, "UNKNOWN") {
						unknown.Add(1)
					}
					cl.Close()
					cl, at = nil, (at+1)%3
					time.Sleep(5 * time.Millisecond)
				}
			}
			if cl != nil {
				cl.Close()
			}
		})
	}
	var took []time.Duration
	for round := range 4 {
		time.Sleep(time.Duration(200+rng.IntN(500)) * time.Millisecond)
		old := leader(-1)
		since := time.Now()
		if round == 2 {
			must(t, nodes[old].Pause())
		} else {
			nodes[old].Kill()
		}
		leader(old)
		took = append(took, time.Since(since).Round(time.Millisecond))
		if round == 2 {
			must(t, nodes[old].Resume())
		} else {
			start(old)
		}
	}
	stop.Store(true)
	writing.Wait()
	slices.Sort(took)
	t.Logf("another node led after %v", took)

	last := leader(-1)
	cl, err := respclient.Dial("127.0.0.1:" + clientPorts[last])
	must(t, err)
	defer cl.Close()
	sum := 0
	for _, list := range acknowledged {
		for _, k := range list {
			v, err := cl.Do("GET", k)
			must(t, err)
			if v.Str != k {
				t.Fatalf("%s was acknowledged, and is %q", k, v.Str)
			}
			sum++
		}
	}
	t.Logf("%d writes were acknowledged and are there, %d are of unknown outcome", sum, unknown.Load())
	if sum < 100 {
		t.Error("too little was written")
	}
	// The nodes end cleanly, and go on as who they were.
	for i := range nodes {
		if _, err := nodes[i].Terminate(30 * time.Second); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
	for i := range nodes {
		all.Go(func() { start(i) })
	}
	all.Wait()
	cl2, err := respclient.Dial("127.0.0.1:" + clientPorts[leader(-1)])
	must(t, err)
	defer cl2.Close()
	if v, err := cl2.Do("DBSIZE"); err != nil || v.Str < "1" {
		t.Errorf("after all were ended: %v, %v", v, err)
	}
}
