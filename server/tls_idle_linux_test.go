package server_test

import (
	"crypto/tls"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// What a silent client of TLS costs, before and after its handshake, with
// REDOUBT_IDLE set to the number of them (make idle). The clients are of the same
// process: half of what is told is theirs, after the handshake.
func TestIdleTLSConnections(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("REDOUBT_IDLE"))
	if n == 0 {
		n = 200
	}
	n = min(n, 2000)
	f := startTLS(t, false, "--maxclients", "20000")
	inUse := func() int {
		t.Helper()
		runtime.GC()
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapInuse + m.StackInuse)
	}
	start := inUse()
	for range n {
		conn, err := net.Dial("tcp", f.TLSAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	f.secure() // whoever came before is known to the server now
	silent := inUse()
	own := f.ca.Client(f.client)
	var last *tls.Conn
	for range n {
		conn, err := f.connect(own)
		if err != nil {
			t.Fatal(err)
		}
		last = conn
	}
	if got := f.over(last).do("PING"); got != "PONG" {
		t.Fatal(got)
	}
	idle := inUse()
	before, after := (silent-start)/n, (idle-silent)/n
	t.Logf("%d bytes before the handshake, %d after it, for each of %d clients", before, after, n)
	if before > 40<<10 {
		t.Errorf("%d bytes for a client that says nothing", before)
	}
	if after > 128<<10 {
		t.Errorf("%d bytes for both ends of an idle connection", after)
	}
}
