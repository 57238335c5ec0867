package client_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"redoubt/client"
)

// answering is a server that answers each connection's first bytes with a text.
func answering(t *testing.T, text string) client.Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := conn.Write([]byte(text)); err != nil {
				return
			}
		}
	}()
	return client.Server{Addr: ln.Addr().String(), Patience: 10 * time.Second}
}

// Skip and Read take exactly one reply each, and refuse what is none.
func TestReplies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, refused, failure string }{
		{"+OK\r\n", "", ""},
		{":12\r\n", "", ""},
		{"-ERR no\r\n", "ERR no", ""},
		{"$-1\r\n", "", ""},
		{"$5\r\na\r\nbc\r\n", "", ""},
		{"*-1\r\n", "", ""},
		{"*2\r\n*1\r\n$0\r\n\r\n:1\r\n", "", ""},
		{"HTTP/1.1 200\r\n", "", "not one of Redis"},
		{"\r\n", "", "not one of Redis"},
		{"$1000000000000\r\n", "", "not one of Redis"},
		{"*1000000000\r\n", "", "not one of Redis"},
		{strings.Repeat("*1\r\n", 30), "", "not one of Redis"},
	} {
		for _, skip := range []bool{true, false} {
			cl, err := client.Dial(t.Context(), answering(t, c.text+"+next\r\n"))
			if err != nil {
				t.Fatal(err)
			}
			refused := ""
			if skip {
				refused, err = cl.Skip()
			} else if _, err = cl.Read(); err != nil && c.failure == "" {
				refused, err = strings.TrimPrefix(err.Error(), "the server answers: "), nil
			}
			switch {
			case (err != nil) != (c.failure != "") || err != nil && !strings.Contains(err.Error(), c.failure) || refused != c.refused:
				t.Errorf("skip %v: %q: %q, %v", skip, c.text, refused, err)
			case err == nil:
				if v, err := cl.Read(); err != nil || v.Text != "next" {
					t.Errorf("skip %v: %q: behind it is %q, %v", skip, c.text, v.Text, err)
				}
			}
			cl.Close()
		}
	}
}

// A server that does not answer to AUTH is given up, and an address is read with its parts.
func TestServers(t *testing.T) {
	t.Parallel()
	s, err := client.ParseServer("redis://ann:s%40crt@[::1]:7000", nil)
	if err != nil || s.Addr != "[::1]:7000" || s.User != "ann" || s.Password != "s@crt" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := client.ParseServer("redis://:secret@host:port", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
	deaf := answering(t, "")
	deaf.Password, deaf.Patience = "x", 20*time.Millisecond
	if _, err := client.Dial(t.Context(), deaf); err == nil {
		t.Error("a deaf server logs in")
	}
}
