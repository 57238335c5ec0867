package testtikv

import (
	"net"
	"sync"
	"time"
)

// Link is a TCP proxy that a test can make slow or break.
type Link struct {
	ln     net.Listener
	target string

	mu    sync.Mutex
	delay time.Duration
	cut   bool
	muted bool
	conns map[net.Conn]struct{} // of both sides
}

func newLink(target string) (*Link, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{ln: ln, target: target, conns: map[net.Conn]struct{}{}}
	go l.accept()
	return l, nil
}

// Addr is where the link begins.
func (l *Link) Addr() string { return l.ln.Addr().String() }

// Delay delays all data by a time, in either direction.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Cut closes all connections and refuses new ones.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.drop()
}

// Mute passes requests, but no answers: a client then does not know whether its change was
// made.
func (l *Link) Mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muted = true
}

// Mend ends all faults of the link. Connections that have lost data are closed.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.muted {
		l.drop()
	}
	l.delay, l.cut, l.muted = 0, false, false
}

// drop closes all connections; the mutex is held.
func (l *Link) drop() {
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

func (l *Link) close() {
	l.ln.Close()
	l.Cut()
}

func (l *Link) accept() {
	for {
		near, err := l.ln.Accept()
		if err != nil {
			return
		}
		go func() {
			far, err := net.Dial("tcp", l.target)
			if err != nil {
				near.Close()
				return
			}
			if !l.add(near, far) {
				return
			}
			go l.carry(near, far, false)
			l.carry(far, near, true)
		}()
	}
}

// add registers the two connections, or closes them if the link is cut.
func (l *Link) add(near, far net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		near.Close()
		far.Close()
		return false
	}
	l.conns[near], l.conns[far] = struct{}{}, struct{}{}
	return true
}

// carry copies until one side ends, and then ends the other.
func (l *Link) carry(from, to net.Conn, answers bool) {
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer func() {
			to.Close()
			for range pieces { // what is left has nowhere to go
			}
		}()
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				return
			}
		}
	}()
	defer close(pieces)
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if err != nil {
			break
		}
		l.mu.Lock()
		delay, lost := l.delay, l.muted && answers
		l.mu.Unlock()
		if !lost {
			pieces <- piece{time.Now().Add(delay), data[:n]}
		}
	}
	from.Close()
	l.mu.Lock()
	delete(l.conns, from)
	l.mu.Unlock()
}
