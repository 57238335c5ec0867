package hostile

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/rss"
	"redoubt/internal/testserver"
)

// site is a server and what comes to it during one scenario.
type site struct {
	*testing.T
	scenario
	program, dir string

	mu        sync.Mutex
	proc      *testserver.Process
	peak      int64 // the most that any process of the scenario took
	conns     []net.Conn
	door      sync.Mutex // held by a newcomer, or by a scenario that has no server for a while
	newcomers newcomers
}

// start runs the server; again after kill.
func (s *site) start() {
	s.Helper()
	args := append([]string{"--maxmemory", strconv.FormatInt(s.memory, 10), "--loglevel", "warning"}, s.args...)
	p := testserver.StartProcess(s.T, s.program, s.dir, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc = p
}

// kill ends the server as kill -9 does. Its peak is noted before.
func (s *site) kill() {
	s.note()
	s.process().Kill()
}

func (s *site) process() *testserver.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// note remembers the peak of the process.
func (s *site) note() {
	s.Helper()
	_, peak, err := rss.Of(s.process().Pid())
	if err != nil {
		s.Errorf("%v\n%s", err, s.process().Log())
	}
	s.peak = max(s.peak, peak)
}

// settle waits until memory is given back, and returns what is left.
func (s *site) settle() int64 {
	s.Helper()
	var now int64
	for end := time.Now().Add(pickTime(5*time.Second, time.Second)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var err error
		if now, _, err = rss.Of(s.process().Pid()); err != nil {
			s.Error(err)
			return 0
		}
	}
	s.note()
	return now
}

// password is what requirepass says in scenarios that have one.
const password = "hostile-test"

// dial connects a client that is closed at the end of the scenario.
func (s *site) dial() (net.Conn, error) {
	c, err := net.DialTimeout("tcp", s.process().Addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	return c, nil
}

// client connects a client that behaves.
func (s *site) client() *respclient.Client {
	s.Helper()
	conn, err := s.dial()
	if err != nil {
		s.Fatal(err)
	}
	c := respclient.New(conn)
	c.Timeout = 2 * time.Minute
	return c
}

// hangUp closes all connections.
func (s *site) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close() // the server may have closed it
	}
	s.conns = nil
}

// newcomers are clients that connect while a scenario runs, and ask for a PING.
type newcomers struct {
	count int
	worst time.Duration
}

func (n newcomers) String() string {
	return fmt.Sprintf("%d, worst %.0f ms", n.count, n.worst.Seconds()*1e3)
}

// patience is how long a newcomer waits. It says only whether newcomers are served at
// all: how quickly is in the table.
const patience = 20 * time.Second

// receive lets newcomers come until stop is called. It may be called again then.
func (s *site) receive() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
			}
			s.door.Lock()
			begin := time.Now()
			err := s.ping()
			s.door.Unlock()
			if err != nil {
				s.Errorf("newcomer %d: %v", s.newcomers.count, err)
				return
			}
			s.newcomers.count++
			s.newcomers.worst = max(s.newcomers.worst, time.Since(begin))
		}
	}()
	return func() { close(end); <-done }
}

// ping is one newcomer.
func (s *site) ping() error {
	conn, err := net.DialTimeout("tcp", s.process().Addr, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := respclient.New(conn)
	c.Timeout = patience
	for i, arg := range s.args {
		if arg == "--requirepass" {
			if v, err := c.Do("AUTH", s.args[i+1]); err != nil || v.IsError() {
				return fmt.Errorf("AUTH: %v %w", v, err)
			}
		}
	}
	v, err := c.Do("PING")
	if err != nil {
		return err
	}
	if v.Str != "PONG" {
		return fmt.Errorf("PING got %v", v)
	}
	return nil
}
