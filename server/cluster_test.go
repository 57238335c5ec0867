package server_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/engine/mem"
	"redoubt/fleet"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/server"
)

// madeUp is a fleet that a test makes up.
type madeUp struct {
	mu       sync.Mutex
	division fleet.Division
	fenced   bool
}

func (c *madeUp) Division() *fleet.Division {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.division
	return &d
}

func (c *madeUp) Fenced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fenced
}

func memberID(t testing.TB, name string) (id fleet.ID) {
	t.Helper()
	if n, err := hex.Decode(id[:], []byte(name)); n != len(id) || err != nil {
		t.Fatal(name, err)
	}
	return id
}

// The nodes of a real cluster of Redis 7.2.6, from which the replies below come. In
// SHARDS and NODES their order is ours.
const (
	node1 = "084b78a12ec4331e8d1bc1d5d3e289a5e6e1f765"
	node2 = "adb91b25030274aba3dba452d0c3cc4c422dd590"
	node3 = "44ec7fbaaef703064e412a3626aebda9af4c8c0c"
)

// three makes a fleet like that cluster, but for the slots: theirs are rounded in
// another way.
func three(t testing.TB) *madeUp {
	c := &madeUp{division: fleet.Division{Epoch: 1}}
	for i, name := range []string{node1, node2, node3} {
		c.division.Members = append(c.division.Members, fleet.Member{
			ID: memberID(t, name), Host: "127.0.0.1", Port: 6711 + i, BusPort: 16711 + i, Seen: time.UnixMilli(1794757766000 + int64(i)),
		})
	}
	return c
}

func (c *client) bytes(args ...string) string {
	c.t.Helper()
	c.do(args...)
	return string(c.Raw())
}

func TestClusterSlotsAndShards(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	f.SetFleet(three(t))
	c := f.dial()
	slots2 := "*3\r\n*3\r\n:0\r\n:5460\r\n*4\r\n$9\r\n127.0.0.1\r\n:6711\r\n$40\r\n084b78a12ec4331e8d1bc1d5d3e289a5e6e1f765\r\n*0\r\n" +
		"*3\r\n:5461\r\n:10921\r\n*4\r\n$9\r\n127.0.0.1\r\n:6712\r\n$40\r\nadb91b25030274aba3dba452d0c3cc4c422dd590\r\n*0\r\n" +
		"*3\r\n:10922\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:6713\r\n$40\r\n44ec7fbaaef703064e412a3626aebda9af4c8c0c\r\n*0\r\n"
	shard := func(lo, hi int, id string, port int) string {
		return fmt.Sprintf("%%2\r\n$5\r\nslots\r\n*2\r\n:%d\r\n:%d\r\n$5\r\nnodes\r\n*1\r\n%%7\r\n$2\r\nid\r\n$40\r\n%s\r\n$4\r\nport\r\n:%d\r\n"+
			"$2\r\nip\r\n$9\r\n127.0.0.1\r\n$8\r\nendpoint\r\n$9\r\n127.0.0.1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$18\r\nreplication-offset\r\n:0\r\n"+
			"$6\r\nhealth\r\n$6\r\nonline\r\n", lo, hi, id, port)
	}
	shards3 := "*3\r\n" + shard(0, 5460, node1, 6711) + shard(5461, 10921, node2, 6712) + shard(10922, 16383, node3, 6713)
	shards2 := strings.NewReplacer("%2", "*4", "%7", "*14").Replace(shards3)
	if got := c.bytes("CLUSTER", "SLOTS"); got != slots2 {
		t.Errorf("SLOTS in RESP2: %q", got)
	}
	if got := c.bytes("CLUSTER", "SHARDS"); got != shards2 {
		t.Errorf("SHARDS in RESP2: %q", got)
	}
	c.do("HELLO", "3")
	if got := c.bytes("CLUSTER", "SLOTS"); got != strings.ReplaceAll(slots2, "*0", "%0") {
		t.Errorf("SLOTS in RESP3: %q", got)
	}
	if got := c.bytes("CLUSTER", "SHARDS"); got != shards3 {
		t.Errorf("SHARDS in RESP3: %q", got)
	}
}

func TestClusterNodesAndInfo(t *testing.T) {
	t.Parallel()
	made := three(t)
	made.division.Self, made.division.Epoch = 1, 9
	now := time.UnixMilli(1794757999123)
	f := startWith(t, server.Options{Engine: mem.New(), Clock: func() time.Time { return now }})
	f.SetFleet(made)
	c := f.dial()
	nodes := node1 + " 127.0.0.1:6711@16711 master - 0 1794757766000 1 connected 0-5460\n" +
		node2 + " 127.0.0.1:6712@16712 myself,master - 0 1794757999123 2 connected 5461-10921\n" +
		node3 + " 127.0.0.1:6713@16713 master - 0 1794757766002 3 connected 10922-16383\n"
	info := "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n" +
		"cluster_known_nodes:3\r\ncluster_size:3\r\ncluster_current_epoch:9\r\ncluster_my_epoch:2\r\ncluster_stats_messages_sent:0\r\n" +
		"cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	verbatim := func(s string) string { return fmt.Sprintf("=%d\r\ntxt:%s\r\n", len(s)+4, s) }
	if got := c.bytes("CLUSTER", "NODES"); got != bulk(nodes) {
		t.Errorf("NODES in RESP2: %q", got)
	}
	if got := c.bytes("CLUSTER", "INFO"); got != bulk(info) {
		t.Errorf("INFO in RESP2: %q", got)
	}
	if got := c.bytes("HELLO", "3"); !strings.Contains(got, "$4\r\nmode\r\n$7\r\ncluster\r\n") {
		t.Errorf("HELLO: %q", got)
	}
	if got := c.bytes("CLUSTER", "NODES"); got != verbatim(nodes) {
		t.Errorf("NODES in RESP3: %q", got)
	}
	if got := c.bytes("CLUSTER", "INFO"); got != verbatim(info) {
		t.Errorf("INFO in RESP3: %q", got)
	}
	made.mu.Lock()
	made.fenced = true
	made.mu.Unlock()
	if got := c.do("CLUSTER", "INFO"); !strings.Contains(got, "cluster_state:fail") {
		t.Error(got)
	}
	if mode, on := c.info("server", "redis_mode"), c.info("cluster", "cluster_enabled"); mode != "cluster" || on != "1" {
		t.Errorf("INFO says redis_mode:%s, cluster_enabled:%s", mode, on)
	}
	f.SetFleet(nil)
	if mode, on := c.info("server", "redis_mode"), c.info("cluster", "cluster_enabled"); mode != "standalone" || on != "0" {
		t.Errorf("without a fleet INFO says redis_mode:%s, cluster_enabled:%s", mode, on)
	}
	if got := c.do("CLUSTER", "INFO"); got != "(error) ERR This instance has cluster support disabled" {
		t.Error(got)
	}
}

// More members than slots, ports of TLS, one slot alone.
func TestClusterOddities(t *testing.T) {
	t.Parallel()
	made := &madeUp{}
	for i := range 16385 {
		made.division.Members = append(made.division.Members, fleet.Member{ID: fleet.ID{byte(i >> 8), byte(i)}, Host: "h", TLSPort: 7, BusPort: 8})
	}
	f := start(t, false)
	f.SetFleet(made)
	c := f.dial()
	if got := c.bytes("CLUSTER", "NODES"); !strings.Contains(got, " 1 connected\n") || !strings.Contains(got, " 2 connected 0\n") || !strings.Contains(got, "h:7@8") {
		t.Errorf("NODES: %.300s", got)
	}
	if got := c.bytes("CLUSTER", "SLOTS"); !strings.HasPrefix(got, "*16384\r\n*3\r\n:0\r\n:0\r\n*4\r\n$1\r\nh\r\n:7\r\n") {
		t.Errorf("SLOTS: %.100q", got)
	}
	if got := c.bytes("CLUSTER", "SHARDS"); !strings.HasPrefix(got, "*16385\r\n*4\r\n$5\r\nslots\r\n*0\r\n") || !strings.Contains(got, "$8\r\ntls-port\r\n:7\r\n") {
		t.Errorf("SHARDS: %.300q", got)
	}
	if got := c.do("CLUSTER", "INFO"); !strings.Contains(got, `cluster_known_nodes:16385\r\ncluster_size:16384\r\n`) {
		t.Error(got)
	}
}

func TestClusterSmallQuestions(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		made := three(t)
		f.SetFleet(made)
		c := f.dial()
		c.do("MSET", "{x}1", "v", "{x}2", "v", "{x}3", "v", "y", "v")
		c.do("SET", "{x}gone", "v", "PXAT", "1")
		slot := c.do("CLUSTER", "KEYSLOT", "x")
		slot = strings.TrimPrefix(slot, "(integer) ")
		for _, q := range [][2]string{
			{"CLUSTER MYID", `"` + node1 + `"`},
			{"CLUSTER MYSHARDID", `"` + node1 + `"`},
			{"CLUSTER KEYSLOT foo", "(integer) 12182"},
			{"CLUSTER KEYSLOT {foo}bar", "(integer) 12182"},
			{"CLUSTER COUNTKEYSINSLOT " + slot, "(integer) 3"},
			{"CLUSTER COUNTKEYSINSLOT 5", "(integer) 0"},
			{"CLUSTER COUNTKEYSINSLOT 16383", "(integer) 0"},
			{"CLUSTER COUNTKEYSINSLOT 16384", "(error) ERR Invalid slot"},
			{"CLUSTER COUNTKEYSINSLOT -1", "(error) ERR Invalid slot"},
			{"CLUSTER COUNTKEYSINSLOT x", "(error) ERR value is not an integer or out of range"},
			{"CLUSTER GETKEYSINSLOT " + slot + " 2", "1) \"{x}1\"\n2) \"{x}2\""},
			{"CLUSTER GETKEYSINSLOT " + slot + " 9", "1) \"{x}1\"\n2) \"{x}2\"\n3) \"{x}3\""},
			{"CLUSTER GETKEYSINSLOT " + slot + " 0", "(empty array)"},
			{"CLUSTER GETKEYSINSLOT 99999 1", "(error) ERR Invalid slot or number of keys"},
			{"CLUSTER GETKEYSINSLOT 1 -1", "(error) ERR Invalid slot or number of keys"},
			{"CLUSTER GETKEYSINSLOT 1 x", "(error) ERR value is not an integer or out of range"},
			{"CLUSTER GETKEYSINSLOT x 1", "(error) ERR value is not an integer or out of range"},
			{"CLUSTER REPLICAS " + node2, "(empty array)"},
			{"CLUSTER SLAVES " + node2, "(empty array)"},
			{"CLUSTER REPLICAS abc", "(error) ERR Unknown node abc"},
			{"CLUSTER SLAVES abc", "(error) ERR Unknown node abc"},
			{"CLUSTER COUNT-FAILURE-REPORTS " + node3, "(integer) 0"},
			{"CLUSTER COUNT-FAILURE-REPORTS abc", "(error) ERR Unknown node abc"},
			{"CLUSTER BUMPEPOCH", "STILL 3"},
			{"CLUSTER SLOTS x", "(error) ERR wrong number of arguments for 'cluster|slots' command"},
			{"CLUSTER NOSUCH", "(error) ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP."},
			{"READONLY", "OK"}, {"READWRITE", "OK"}, {"ASKING", "OK"},
		} {
			if got := c.do(strings.Fields(q[0])...); got != q[1] {
				t.Errorf("%s: %s, want %s", q[0], got, q[1])
			}
		}
		if got := c.do("CLUSTER", "LINKS"); got != "(empty array)" { // test/front has linked ones
			t.Errorf("LINKS: %s", got)
		}
		for _, change := range []string{
			"ADDSLOTS 1", "ADDSLOTSRANGE 1 2", "DELSLOTS 1", "DELSLOTSRANGE 1 2", "FAILOVER", "FAILOVER FORCE", "FLUSHSLOTS",
			"FORGET " + node2, "MEET 127.0.0.1 1", "REPLICATE " + node2, "RESET", "RESET HARD", "SAVECONFIG", "SET-CONFIG-EPOCH 1", "SETSLOT 1 STABLE",
		} {
			want := "(error) ERR CLUSTER " + strings.Fields(change)[0] + " is not possible: the front ends"
			if got := c.do(append([]string{"CLUSTER"}, strings.Fields(change)...)...); !strings.HasPrefix(got, want) {
				t.Errorf("CLUSTER %s: %s", change, got)
			}
		}
		if got := c.do("CLUSTER", "HELP"); !strings.Contains(got, "KEYSLOT") {
			t.Error(got)
		}
		// In a transaction and from a script, too, also in another database.
		c.do("SELECT", "3")
		c.do("SET", "{x}3", "v")
		c.do("MULTI")
		c.do("CLUSTER", "COUNTKEYSINSLOT", slot)
		c.do("SELECT", "0")
		c.do("DEL", "{x}1")
		c.do("CLUSTER", "GETKEYSINSLOT", slot, "9")
		c.do("CLUSTER", "MYID")
		if got, want := c.do("EXEC"), "1) (integer) 1\n2) OK\n3) (integer) 1\n4) 1) \"{x}2\"\n   2) \"{x}3\"\n5) \""+node1+"\""; got != want {
			t.Errorf("in a transaction: %s", got)
		}
		if got := c.do("EVAL", "redis.call('set', KEYS[1], 'v'); return redis.call('cluster', 'countkeysinslot', ARGV[1])", "1", "{x}9", slot); got != "(integer) 3" {
			t.Errorf("from a script: %s", got)
		}
	})
}

// What a client of TLS is told is the port of TLS.
func TestClusterPortOfTLS(t *testing.T) {
	t.Parallel()
	made := three(t)
	for i := range made.division.Members {
		made.division.Members[i].TLSPort = 7711 + i
	}
	f := startTLS(t, false)
	f.SetFleet(made)
	over, plain := f.secure(), f.dial()
	for _, q := range []string{"SLOTS", "NODES"} {
		secret, open := over.do("CLUSTER", q), plain.do("CLUSTER", q)
		for i := range 3 {
			if !strings.Contains(secret, strconv.Itoa(7711+i)) || !strings.Contains(open, strconv.Itoa(6711+i)) || strings.Contains(open, strconv.Itoa(7711+i)) {
				t.Errorf("%s over TLS: %s\nand else: %s", q, secret, open)
			}
		}
	}
}

// Compared with a real node that is alone in its cluster, in all the ways in which
// nodes tell where they are.
func TestClusterOracle(t *testing.T) {
	testserver.Oracle(t)
	t.Parallel()
	bus, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	busPort := bus.Addr().(*net.TCPAddr).Port
	bus.Close()
	r := testserver.StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(busPort), "--cluster-announce-ip", "127.0.0.1")
	real, err := respclient.Dial(r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	theirs := &client{real, t}
	if got := theirs.do("CLUSTER", "ADDSLOTSRANGE", "0", "16383"); got != "OK" {
		t.Fatal(got)
	}
	until(t, "the cluster is well", func() bool { return strings.Contains(theirs.do("CLUSTER", "INFO"), "cluster_state:ok") })
	_, port, _ := net.SplitHostPort(r.Addr)
	n, _ := strconv.Atoi(port)
	self := fleet.Member{ID: memberID(t, strings.Trim(theirs.do("CLUSTER", "MYID"), `"`)), Host: "127.0.0.1", Port: n, BusPort: busPort}
	f := start(t, false)
	ours := f.dial()
	theirs.do("MSET", "{x}1", "", "{x}2", "")
	ours.do("MSET", "{x}1", "", "{x}2", "")

	// What differs by nature: times, epochs, and the messages of a bus that we lack.
	vary := regexp.MustCompile(`- 0 \d+ \d+ connected|_epoch:\d+|cluster_stats_messages_\w+:\d+\r\n|\A[$=]\d+\r\n`)
	same := func(args ...string) {
		t.Helper()
		got, want := ours.bytes(args...), theirs.bytes(args...)
		if vary.ReplaceAllString(got, "") != vary.ReplaceAllString(want, "") {
			t.Errorf("%v:\n  we    %q\n  Redis %q", args, got, want)
		}
	}
	for _, proto := range []string{"2", "3"} {
		for _, kind := range []string{"ip", "hostname", "unknown-endpoint"} {
			for _, name := range []string{"", "front.example"} {
				self.Hostname = name
				f.SetFleet(&madeUp{division: fleet.Division{Members: []fleet.Member{self}, Epoch: 1}})
				for _, c := range []*client{ours, theirs} {
					c.do("HELLO", proto)
					for _, set := range [][2]string{{"cluster-preferred-endpoint-type", kind}, {"cluster-announce-hostname", name}} {
						if got := c.do("CONFIG", "SET", set[0], set[1]); got != "OK" {
							t.Fatal(got)
						}
					}
				}
				until(t, "the node knows its name", func() bool {
					return strings.Contains(theirs.do("CLUSTER", "NODES"), ",front.example") == (name != "")
				})
				for _, q := range []string{"SLOTS", "SHARDS", "NODES", "INFO", "MYID", "LINKS"} {
					same("CLUSTER", q)
				}
			}
		}
		for _, q := range []string{
			"KEYSLOT {x}1", "COUNTKEYSINSLOT 16287", "GETKEYSINSLOT 5 5", "GETKEYSINSLOT 16287 0", "COUNTKEYSINSLOT 16384", "COUNTKEYSINSLOT 5.0",
			"GETKEYSINSLOT 16384 5", "GETKEYSINSLOT 5 -5", "GETKEYSINSLOT x x", "REPLICAS x", "SLAVES " + self.ID.String(), "REPLICAS " + self.ID.String(),
			"COUNT-FAILURE-REPORTS " + self.ID.String(), "COUNT-FAILURE-REPORTS y", "NOSUCH", "SLOTS 1",
		} {
			same(append([]string{"CLUSTER"}, strings.Fields(q)...)...)
		}
		same("READONLY")
		same("READWRITE")
		same("ASKING")
	}
}
