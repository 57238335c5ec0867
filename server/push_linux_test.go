package server_test

import (
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"redoubt/internal/testserver"
)

// arrived gives what has arrived at a client's socket by now, without waiting.
func arrived(t *testing.T, c scripted) string {
	t.Helper()
	raw, err := c.Conn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n := 0
	if err := raw.Read(func(fd uintptr) bool {
		n, _, _ = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return string(buf[:max(n, 0)])
}

// Who has the reply of a write finds that others have their messages of it already:
// with one event loop always, with several whenever the other loop is idle.
func TestMessagesComeBeforeTheReply(t *testing.T) {
	t.Parallel()
	const heavy = "for i = 1, 1e5 do end return redis.call('set', KEYS[1], ARGV[1])" // a worker runs it
	for _, fsync := range []string{"everysec", "always"} {
		s := testserver.Start(t, testserver.Options{Engine: "local", Args: []string{"--io-threads", "1", "--appendfsync", fsync, "--notify-keyspace-events", "KEA"}})
		tracker, listener, events := dialScripted(t, s), dialScripted(t, s), dialScripted(t, s)
		tracker.do("HELLO", "3")
		tracker.want("OK", "CLIENT", "TRACKING", "ON")
		listener.do("SUBSCRIBE", "news")
		events.do("PSUBSCRIBE", "__keyspace@0__:*")
		for name, write := range map[string][]string{
			"command":     {"SET", "k", "1"},
			"worker":      {"EVAL", heavy, "1", "k", "1"},
			"transaction": {"EVAL", "redis.call('publish', 'news', 'x') return redis.call('set', KEYS[1], 1)", "1", "k"},
		} {
			for i := range 50 {
				tracker.do("GET", "k")
				writer := dialScripted(t, s)
				writer.do(write...)
				if got := arrived(t, tracker); !strings.Contains(got, "invalidate") {
					t.Fatalf("%s, %s, round %d: no invalidation but %q", fsync, name, i, got)
				}
				if got := arrived(t, events); !strings.Contains(got, "__keyspace@0__:k") {
					t.Fatalf("%s, %s, round %d: no event but %q", fsync, name, i, got)
				}
				if got := arrived(t, listener); strings.Contains(got, "news") != (name == "transaction") {
					t.Fatalf("%s, %s, round %d: %q on the channel", fsync, name, i, got)
				}
				writer.Close()
			}
		}
	}
}
