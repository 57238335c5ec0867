package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"redoubt/internal/respclient"
)

// Scenarios in which connections hold memory: what was sent and is not complete,
// what is queued, what was answered and is not read.
var clientScenarios = []scenario{
	{name: "garbage", args: []string{"--requirepass", password}, run: garbage},
	{name: "multi-queue", run: multiQueue},
	{name: "multi-exec", run: multiExec},
	{name: "unread-gets", run: unreadGets},
	{name: "large-value", run: largeValue},
	{name: "half-requests", run: halfRequests},
	{name: "monitors", run: monitors},
	{name: "deaf-subscribers", run: deafSubscribers},
	{name: "fan-out", run: fanOut},
	{name: "idle", args: []string{"--maxclients", "11000"}, run: idle},
}

const megabyte = 1 << 20

// large is a value of a megabyte.
var large = bytes.Repeat([]byte("0123456789abcdef"), megabyte/16)

// command is a command whose last argument is a large value.
func command(args ...string) []byte {
	b := respclient.AppendCommand(nil, append(args, "")...)
	b = bytes.TrimSuffix(b, []byte("$0\r\n\r\n"))
	b = fmt.Appendf(b, "$%d\r\n", len(large))
	return append(append(b, large...), "\r\n"...)
}

// garbage: 60 connections that have not said who they are send what is no command
// and read nothing. They must be closed. Megabytes of replies wait in the system before
// any wait in the server, so that takes a while.
func garbage(s *site) string {
	end := time.Now().Add(pickTime(2*time.Minute, time.Minute))
	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	var got tally
	var all sync.WaitGroup
	for i := range 60 {
		conn, err := s.dial()
		if err != nil {
			s.Fatal(err)
		}
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			s.Fatal(err)
		}
		all.Go(func() {
			sent := noise(rand.New(rand.NewPCG(seed, uint64(i))), i)
			for time.Now().Before(end) {
				if err := deadline(conn, end); err != nil {
					break
				}
				if _, err := conn.Write(sent); err != nil {
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						got.add(closed)
						return
					}
					break
				}
			}
			got.add("still open")
		})
	}
	all.Wait()
	if n := got.get("still open"); n > 0 {
		s.Errorf("%d of 60 are still open", n)
	}
	return got.String()
}

// noise is some garbage: lines that are no commands, requests of many words, and
// commands that need a password.
func noise(rng *rand.Rand, kind int) []byte {
	b := make([]byte, 0, 16<<10)
	for len(b) < 15<<10 {
		switch kind % 3 {
		case 0:
			for range 100 {
				b = append(b, byte('a'+rng.IntN(26)))
			}
			b = append(b, "\r\n"...)
		case 1:
			b = respclient.AppendCommand(b, "GET", fmt.Sprint(rng.Uint64()))
		case 2:
			b = append(b, byte(rng.Uint32()))
			if rng.IntN(50) == 0 {
				b = append(b, '\n')
			}
		}
	}
	return b
}

func deadline(c net.Conn, end time.Time) error { return c.SetDeadline(end) }

// multiQueue: one client queues 600 SETs of a megabyte, and never says EXEC.
func multiQueue(s *site) string {
	conn, got := queue(s, pick(600, 450))
	if conn != nil {
		conn.Close()
	}
	return got.String()
}

// queue sends MULTI and SETs of a megabyte. The connection is nil if the server closed it.
func queue(s *site, n int) (net.Conn, *tally) {
	conn, err := s.dial()
	if err != nil {
		s.Fatal(err)
	}
	got := new(tally)
	r := reader(conn)
	for i := range n + 1 {
		b := []byte("*1\r\n$5\r\nMULTI\r\n")
		if i > 0 {
			b = command("SET", fmt.Sprint("key:", i))
		}
		if err := deadline(conn, time.Now().Add(30*time.Second)); err != nil {
			s.Fatal(err)
		}
		if _, err := conn.Write(b); err != nil {
			got.add(closed)
			return nil, got
		}
		what := take(r)
		got.add(what)
		if what == closed {
			return nil, got
		}
	}
	return conn, got
}

// multiExec: a transaction of 200 SETs of a megabyte.
func multiExec(s *site) string {
	conn, got := queue(s, pick(200, 180))
	if conn == nil {
		return got.String()
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nEXEC\r\n")); err != nil {
		return got.String() + ", EXEC " + closed
	}
	return got.String() + ", EXEC " + take(reader(conn))
}

// unreadGets: 50 clients ask for a value of a megabyte, many times, and read nothing.
func unreadGets(s *site) string {
	c := s.client()
	if err := c.Write(command("SET", "large")); err != nil {
		s.Fatal(err)
	}
	if v, err := c.Read(); err != nil || v.IsError() {
		s.Fatalf("SET: %v %v", v, err)
	}
	end := time.Now().Add(pickTime(15*time.Second, 4*time.Second))
	gets := bytes.Repeat([]byte("*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n"), 200)
	return s.deaf(50, gets, end)
}

// deaf has clients send some bytes and read nothing until the end. It says how many of
// them were closed.
func (s *site) deaf(n int, sent []byte, end time.Time) string {
	var got tally
	var conns []net.Conn
	for range n {
		conn, err := s.dial()
		if err != nil {
			s.Fatal(err)
		}
		conns = append(conns, conn)
		if err := deadline(conn, end); err != nil {
			s.Fatal(err)
		}
		if _, err := conn.Write(sent); err != nil {
			got.add(closed)
		}
	}
	time.Sleep(time.Until(end))
	for _, conn := range conns {
		got.add(state(conn))
	}
	return got.String()
}

// state says whether the server has closed a connection, without reading from it.
func state(conn net.Conn) string {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return closed
	}
	what := "open"
	if err := raw.Control(func(fd uintptr) {
		if n, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR); err != nil || n != 0 || hungUp(int(fd)) {
			what = closed
		}
	}); err != nil {
		return closed
	}
	return what
}

// largeValue: one SET of 400 MB, and a GET of it.
func largeValue(s *site) string {
	conn, err := s.dial()
	if err != nil {
		s.Fatal(err)
	}
	size := 400
	if err := deadline(conn, time.Now().Add(2*time.Minute)); err != nil {
		s.Fatal(err)
	}
	r := reader(conn)
	_, err = fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$4\r\nhuge\r\n$%d\r\n", size*megabyte)
	for i := 0; i < size && err == nil; i++ {
		_, err = conn.Write(large)
	}
	if err == nil {
		_, err = io.WriteString(conn, "\r\n")
	}
	set := take(r)
	if err != nil || set != "OK" {
		return "SET " + set
	}
	if _, err := io.WriteString(conn, "*2\r\n$3\r\nGET\r\n$4\r\nhuge\r\n"); err != nil {
		return "SET OK, GET " + closed
	}
	return "SET OK, GET " + take(r)
}

// halfRequests: 2,000 clients send a SET of a megabyte but for its end.
func halfRequests(s *site) string {
	n := pick(2000, 600)
	b := command("SET", "half")
	b = b[:len(b)-1000]
	end := time.Now().Add(pickTime(30*time.Second, 10*time.Second))
	var got tally
	var all sync.WaitGroup
	for range n {
		conn, err := s.dial()
		if err != nil {
			got.add("refused")
			continue
		}
		all.Go(func() {
			if err := deadline(conn, end); err != nil {
				got.add(closed)
				return
			}
			switch _, err := conn.Write(b); {
			case err == nil:
				got.add("sent")
			case errors.Is(err, os.ErrDeadlineExceeded):
				got.add("not read")
			default:
				got.add(closed)
			}
		})
	}
	all.Wait()
	return got.String()
}

// monitors: 20 clients that watch all commands and read nothing, while others work.
func monitors(s *site) string {
	end := time.Now().Add(pickTime(15*time.Second, 4*time.Second))
	value := strings.Repeat("m", 1000)
	go s.work(4, end, func(rng *rand.Rand, b []byte) []byte {
		return respclient.AppendCommand(b, "SET", fmt.Sprint("key:", rng.IntN(10_000)), value)
	})
	return s.deaf(20, []byte("*1\r\n$7\r\nMONITOR\r\n"), end)
}

// work has clients send commands, 16 at a time, and read the replies, until the end.
func (s *site) work(clients int, end time.Time, next func(rng *rand.Rand, b []byte) []byte) *tally {
	got := new(tally)
	var all sync.WaitGroup
	for i := range clients {
		conn, err := s.dial()
		if err != nil {
			s.Error(err)
			return got
		}
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			r := reader(conn)
			for time.Now().Before(end) {
				var b []byte
				for range 16 {
					b = next(rng, b)
				}
				if err := deadline(conn, end.Add(patience)); err != nil {
					return
				}
				if _, err := conn.Write(b); err != nil {
					got.add(closed)
					return
				}
				for range 16 {
					if what := take(r); what != "OK" {
						got.add(what)
						if what == closed {
							return
						}
					}
				}
			}
		})
	}
	all.Wait()
	return got
}

// fanOut: 1,000 clients wait at one stream, and some entries of a megabyte are added. One in
// four reads nothing; all others must get the first entry.
func fanOut(s *site) string {
	n, added := pick(1000, 400), pick(5, 2)
	end := time.Now().Add(pickTime(time.Minute, 30*time.Second))
	var got tally
	var all sync.WaitGroup
	for i := range n {
		conn, err := s.dial()
		if err != nil {
			s.Fatal(err)
		}
		if err := deadline(conn, end); err != nil {
			s.Fatal(err)
		}
		if _, err := conn.Write(respclient.AppendCommand(nil, "XREAD", "BLOCK", "0", "STREAMS", "stream", "0")); err != nil {
			s.Fatal(err)
		}
		if i%4 != 0 {
			all.Go(func() { got.add(take(reader(conn))) })
		}
	}
	c := s.client()
	for {
		v, err := c.Do("INFO", "clients")
		if err != nil {
			s.Fatal(err)
		}
		if strings.Contains(v.String(), fmt.Sprintf("blocked_clients:%d", n)) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	slowest := time.Duration(0)
	for range added {
		begin := time.Now()
		if err := c.Write(command("XADD", "stream", "*", "field")); err != nil {
			s.Fatal(err)
		}
		if v, err := c.Read(); err != nil || v.IsError() {
			s.Fatalf("XADD: %v %v", v, err)
		}
		slowest = max(slowest, time.Since(begin))
	}
	all.Wait()
	if want := n - (n+3)/4; got.get("OK") != want {
		s.Errorf("%s; %d should have got the entry", got.String(), want)
	}
	return fmt.Sprintf("%s; slowest XADD %s", got.String(), slowest.Round(time.Millisecond))
}

// deafSubscribers: clients subscribe and read nothing, while others publish.
func deafSubscribers(s *site) string {
	end := time.Now().Add(pickTime(15*time.Second, 4*time.Second))
	message := strings.Repeat("p", 1000)
	go s.work(2, end, func(_ *rand.Rand, b []byte) []byte {
		return respclient.AppendCommand(b, "PUBLISH", "news", message)
	})
	return s.deaf(200, respclient.AppendCommand(nil, "SUBSCRIBE", "news"), end)
}

// idle: 10,000 clients that do nothing after a PING.
func idle(s *site) string {
	var got tally
	for range pick(10_000, 4000) {
		conn, err := s.dial()
		if err != nil {
			got.add("refused")
			continue
		}
		if err := deadline(conn, time.Now().Add(patience)); err != nil {
			s.Fatal(err)
		}
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			got.add(closed)
			continue
		}
		got.add(take(reader(io.LimitReader(conn, 7))))
	}
	time.Sleep(pickTime(5*time.Second, time.Second))
	return got.String()
}
