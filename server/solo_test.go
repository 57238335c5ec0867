package server_test

import (
	"net"
	"regexp"
	"strings"
	"testing"
)

// A server with a store of its own can be a cluster of one node.
func TestClusterOfOne(t *testing.T) {
	t.Parallel()
	f := start(t, false, "--cluster-enabled", "yes", "--bind", "0.0.0.0")
	_, port, err := net.SplitHostPort(f.addr)
	if err != nil {
		t.Fatal(err)
	}
	f.addr = "127.0.0.1:" + port // it does not know where it is, but clients do
	c := f.dial()
	id := strings.Trim(c.do("CLUSTER", "MYID"), `"`)
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(id) {
		t.Fatal(id)
	}
	shows := func(want string, args ...string) {
		t.Helper()
		if got := c.bytes(args...); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
	shows("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:"+port+"\r\n$40\r\n"+id+"\r\n*0\r\n", "CLUSTER", "SLOTS")
	shows("$8\r\nendpoint\r\n$9\r\n127.0.0.1\r\n", "CLUSTER", "SHARDS")
	shows(id+" 127.0.0.1:"+port+"@0 myself,master - 0 ", "CLUSTER", "NODES")
	shows(" 1 connected 0-16383\n", "CLUSTER", "NODES")
	shows("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n", "CLUSTER", "INFO")
	shows("cluster_known_nodes:1\r\ncluster_size:1\r\n", "CLUSTER", "INFO")
	shows(":12182\r\n", "CLUSTER", "KEYSLOT", "foo")
	shows("*0\r\n", "CLUSTER", "LINKS")
	shows("cluster_enabled:1\r\n", "INFO", "cluster")
	shows("redis_mode:cluster\r\n", "INFO", "server")
	shows("$4\r\nmode\r\n$7\r\ncluster\r\n", "HELLO")
	// As front ends of a shared store it has all keys and all databases.
	shows("+OK\r\n", "MSET", "a", "1", "b", "2")
	shows(":1\r\n", "CLUSTER", "COUNTKEYSINSLOT", "15495")
	shows("+OK\r\n", "SELECT", "1")
	shows("+OK\r\n", "READONLY")

	shows("+OK\r\n", "CONFIG", "SET", "cluster-announce-ip", "10.1.2.3", "cluster-announce-hostname", "one.example", "cluster-announce-bus-port", "77")
	shows(id+" 10.1.2.3:"+port+"@77,one.example myself,master", "CLUSTER", "NODES")
	shows("$8\r\n10.1.2.3\r\n:"+port+"\r\n", "CLUSTER", "SLOTS")
}
