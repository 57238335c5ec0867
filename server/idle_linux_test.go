package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"redoubt/internal/race"
)

// 10,000 connections that once sent something and are idle now take no more
// than 100 MB and no goroutines. Nor do they when they wait for an element; each gets
// one then.
func TestIdleConnections(t *testing.T) {
	const n = 10_000
	limit := 100 << 20
	if race.Enabled { // its shadow of the memory is resident, too
		limit *= 3
	}
	if os.Getenv("REDOUBT_IDLE_SERVER") != "" {
		idleServer(t)
		return
	}
	if testing.Short() {
		t.Skip("opens 10,000 connections")
	}
	// The server is another process: its memory is its own, and each process
	// needs descriptors for one end only.
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if files.Max < n+500 {
		t.Skipf("%d descriptors are not enough", files.Max)
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestIdleConnections$")
	child.Env = append(os.Environ(), "REDOUBT_IDLE_SERVER=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewReader(out)
	ask := func() []string {
		t.Helper()
		fmt.Fprintln(in, "?")
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(line)
	}
	figures := func() (memory, goroutines int) {
		t.Helper()
		words := ask()
		memory, _ = strconv.Atoi(words[1])
		goroutines, _ = strconv.Atoi(words[2])
		return memory, goroutines
	}
	addr := ask()[0]
	memory, goroutines := figures()
	conns := make([]net.Conn, n)
	for i := range n {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
		conns[i] = conn
		if _, err := conn.Write([]byte(frame("SET", "k", strings.Repeat("x", 1000)) + frame("GET", "k"))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 5+7+1002)); err != nil {
			t.Fatal(err)
		}
	}
	nowMemory, nowGoroutines := figures()
	t.Logf("%d bytes for %d connections, %d goroutines", nowMemory-memory, n, nowGoroutines)
	if nowMemory-memory > limit {
		t.Errorf("idle connections take %d bytes", nowMemory-memory)
	}
	if nowGoroutines > goroutines+10 {
		t.Errorf("%d goroutines, %d before", nowGoroutines, goroutines)
	}

	for _, conn := range conns {
		if _, err := conn.Write([]byte(frame("BLPOP", "q", "1000"))); err != nil {
			t.Fatal(err)
		}
	}
	f := &front{t: t, addr: addr}
	c := f.dial()
	c.blocked(n)
	if _, waiting := figures(); waiting > goroutines+10 {
		t.Errorf("%d goroutines, %d before", waiting, goroutines)
	}
	args := []string{"RPUSH", "q"}
	for i := range n {
		args = append(args, fmt.Sprintf("%05d", i))
	}
	c.do(args...)
	got := make(map[string]bool)
	for i, conn := range conns {
		reply := make([]byte, len("*2\r\n$1\r\nq\r\n$5\r\n00000\r\n"))
		if _, err := io.ReadFull(conn, reply); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		got[string(reply[15:20])] = true
	}
	if len(got) != n {
		t.Errorf("%d different elements came to %d clients", len(got), n)
	}
}

// idleServer serves until its standard input ends, and tells on request: its
// address, its resident memory, its goroutines.
func idleServer(t *testing.T) {
	f := start(t, false, "--maxclients", "20000")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		debug.FreeOSMemory()
		statm, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		pages, _ := strconv.Atoi(strings.Fields(string(statm))[1])
		fmt.Println(f.addr, pages*os.Getpagesize(), runtime.NumGoroutine())
	}
}
