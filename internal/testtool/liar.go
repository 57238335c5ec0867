package testtool

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// Liar returns the address of a proxy of a TCP server that replaces what the server says:
// whoever checks answers must notice. The two texts have the same length. A text that comes
// in two parts is not replaced.
func Liar(t testing.TB, server, text, lie string) (addr string) {
	t.Helper()
	if len(text) != len(lie) || text == lie {
		t.Fatalf("%q cannot stand for %q", lie, text)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn // closed at the end
	ended := false
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			c.Close()
		}
		conns = append(conns, c)
	}
	all.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return // the listener is closed
			}
			keep(client)
			behind, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			keep(behind)
			all.Go(func() {
				defer behind.Close()
				_, _ = io.Copy(behind, client) // until one of them ends
			})
			all.Go(func() {
				defer client.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := behind.Read(buf)
					if _, failed := client.Write(bytes.ReplaceAll(buf[:n], []byte(text), []byte(lie))); failed != nil || err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		ended = true
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return ln.Addr().String()
}
