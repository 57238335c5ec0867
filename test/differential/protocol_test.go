package differential

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// TestProtocol sends damaged pipelines to a real Redis and to Redoubt, and
// compares every byte that comes back and whether the connection is closed.
func TestProtocol(t *testing.T) {
	testserver.Oracle(t)
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	count := 1500
	if *sequences > 0 {
		count = *sequences
	}
	redis := redisOf(t, "7.0", "7.2")
	ours := []*serverTarget{
		redoubtTarget(t, testserver.Options{Engine: "mem"}, true, 1),
		redoubtTarget(t, testserver.Options{Engine: "mem", Pipes: true}, true, 1),
	}
	work := make(chan uint64)
	var wg sync.WaitGroup
	for range 24 { // they mostly wait for silence
		wg.Go(func() {
			for s := range work {
				sent := damaged(rand.New(rand.NewPCG(s, 5)))
				for _, o := range ours {
					if diff := compareBytes(sent, redis, o); diff != "" {
						t.Errorf("seed %d: %s", s, diff)
					}
				}
			}
		})
	}
	for i := range count {
		work <- s + uint64(i)
	}
	close(work)
	wg.Wait()
	t.Logf("%d pipelines from seed %d", count, s)
}

// damaged makes a pipeline and damages it. It uses no key, so that the order
// in which connections are served does not matter. It has no zero bytes: Redis
// looks for the end of a line with C's functions, which take a zero byte for
// the end of everything, and waits for ever; Redoubt does not follow it there.
func damaged(rng *rand.Rand) []byte {
	g := &generator{Rand: rng, pool: keyPool}
	var b []byte
	for range 1 + g.IntN(4) {
		switch g.IntN(7) {
		case 0:
			b = respclient.AppendCommand(b, "PING")
		case 1:
			b = respclient.AppendCommand(b, "ECHO", g.value())
		case 2:
			b = append(b, pick(g, inlines)...)
		case 3:
			b = respclient.AppendCommand(b, g.word("nosuch"), g.value(), g.key(), g.value())
		case 4:
			b = respclient.AppendCommand(b, "GETRANGE", "nokey", g.index(), g.index())
		case 5:
			b = append(b, pick(g, frames)...)
		case 6:
			b = respclient.AppendCommand(b, "ECHO", strings.Repeat("y", g.IntN(40_000)))
		}
	}
	for range g.IntN(3) {
		at := g.IntN(min(len(b), 60))
		switch g.IntN(4) {
		case 0:
			b = append(b[:at], b[at+1:]...)
		case 1:
			b[at] = pick(g, []byte("*$\r\n0159-+: \"'\\xX\x00\xff"))
		case 2:
			b = append(b[:at], append([]byte(pick(g, []string{"\r\n", "*", "$", "-1", "0", "\r", "\n", " ", "\"", "'", "99999"})), b[at:]...)...)
		case 3:
			b = b[:at+1]
		}
		if len(b) == 0 {
			return []byte("\r\n")
		}
	}
	b = hello.ReplaceAll(bytes.ReplaceAll(b, []byte{0}, []byte("0")), []byte("hallo"))
	return counts.ReplaceAllFunc(b, func(count []byte) []byte {
		if n, err := strconv.Atoi(string(count[1:])); err == nil && n > 1<<20 && n <= math.MaxInt32 {
			return []byte("*2147483648") // which both refuse
		}
		return count
	})
}

// counts are numbers of arguments. Redoubt takes up to 1,048,576 of them, Redis
// 2,147,483,647 (docs/adr/0100).
var counts = regexp.MustCompile(`\*[0-9]{7,10}`)

// hello must not become a command: its reply has the number of the connection.
var hello = regexp.MustCompile("(?i)hello")

var (
	inlines = []string{
		"PING\r\n", "ping\n", "ECHO \"a b\"\r\n", "ECHO 'a\\'b'\r\n", "ECHO \"\\x41\\n\\\"\"\r\n", "\r\n", "   \r\n", "ECHO \"open\r\n", "ECHO 'x'y\r\n",
		"ECHO \"x\"y\r\n", "ECHO a\"b\"\r\n", "\tPING\t\r\n", "ECHO \"\"\r\n", "GET\r\n", "ECHO \"\\xzz\\q\"\r\n", "PING\r\r\n", "nosuch a b c\r\n",
	}
	frames = []string{
		"*0\r\n", "*-1\r\n", "*-5\r\n", "*1\r\n$4\r\nPING\r\n", "*1\r\n$-1\r\n", "*1\r\n$0\r\n\r\n", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "*abc\r\n", "*\r\n", "*1\r\n:4\r\nPING\r\n",
		"*1\r\n$4\r\nPINGxx", "*2147483648\r\n", "*1\r\n$536870913\r\n", "*1\r\n$99999999999999999999\r\n", "*01\r\n$4\r\nPING\r\n", "*1\r\n$04\r\nPING\r\n",
		"*+1\r\n$4\r\nPING\r\n", "*1\r\n$4\nPING\r\n", "*1\n$4\r\nPING\r\n", "$4\r\nPING\r\n", "*1\r\n$4\r\nPING\r\n\r\n", "*1 \r\n$4\r\nPING\r\n", "*1\r\n$3\r\nPING\r\n",
		"*1\r\n$5\r\nPING\r\n", "+OK\r\n", ":1\r\n", "*3\r\n$3\r\nSET\r\n*1\r\n",
	}
)

// compareBytes compares once quickly and, if that differs, once more slowly, as
// one of the servers may only have been late.
func compareBytes(b []byte, x, y *serverTarget) string {
	for _, silence := range []time.Duration{60 * time.Millisecond, 600 * time.Millisecond} {
		rx, err1 := exchange(x.addr, b, silence)
		ry, err2 := exchange(y.addr, b, silence)
		if err := errors.Join(err1, err2); err != nil {
			return err.Error()
		}
		if rx == ry {
			return ""
		}
		if silence > 500*time.Millisecond {
			same := 0
			for same < len(rx) && same < len(ry) && rx[same] == ry[same] {
				same++
			}
			return fmt.Sprintf("%.400q\n  after %d equal bytes\n  %s: %.300q\n  %s: %.300q", b, same, x.label, rx[same:], y.label, ry[same:])
		}
	}
	return ""
}

// exchange sends bytes and returns what comes back until there is silence, with
// a mark at the end if the server closed the connection.
func exchange(addr string, b []byte, silence time.Duration) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write(b); err != nil {
		return "", err
	}
	var got strings.Builder
	buf := make([]byte, 64<<10)
	for {
		if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return "", err
		}
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return got.String(), nil
		case err != nil:
			return got.String() + "(closed)", nil
		}
	}
}
