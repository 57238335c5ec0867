package access

import (
	"fmt"
	"testing"
	"time"
)

// Failures are answered at once, then later and later; another address does not
// notice, and after a while everything is forgotten.
func TestFailedLoginsAreDelayed(t *testing.T) {
	t.Parallel()
	var l Logins
	now := time.Unix(1, 0)
	host, other := Host("10.0.0.1:5"), Host("10.0.0.2:5")
	var last time.Duration
	for i := range 200 {
		delay, full, _ := l.Fail(host, now)
		if i < freeFailures != (delay == 0) || full || delay < last || delay > longestDelay {
			t.Fatalf("failure %d: %v %v", i, delay, full)
		}
		if delay > 0 {
			l.Done(host)
		}
		last = delay
		now = now.Add(time.Second)
	}
	if last != longestDelay {
		t.Error("the last delay is", last)
	}
	if delay, _, _ := l.Fail(other, now); delay != 0 {
		t.Error("another address waits for", delay)
	}
	if delay, _, _ := l.Fail(host, now.Add(2*forgetLogins)); delay != 0 {
		t.Error("after a long time it is still", delay)
	}
}

// What one address, or many of them, can take is bounded.
func TestFailedLoginsAreBounded(t *testing.T) {
	t.Parallel()
	var l Logins
	now := time.Unix(1, 0)
	host := Host("10.0.0.1:5")
	for range freeFailures {
		l.Fail(host, now)
	}
	for range delayedLogins {
		if _, full, _ := l.Fail(host, now); full {
			t.Fatal("full")
		}
	}
	if _, full, _ := l.Fail(host, now); !full {
		t.Error("not full")
	}
	l.Done(host)
	if _, full, _ := l.Fail(host, now); full {
		t.Error("full after one was answered")
	}
	said := 0
	for i := range 3 * knownHosts {
		_, _, say := l.Fail(Host(fmt.Sprintf("10.%d.%d.%d:1", 1+i>>16, i>>8&255, i&255)), now)
		if len(l.hosts) > knownHosts {
			t.Fatal(len(l.hosts), "addresses")
		}
		if say > 0 {
			said++
		}
	}
	if said > 1 {
		t.Error(said, "lines in the log at once")
	}
	if l.hosts[host] == nil || l.hosts[host].delayed != delayedLogins {
		t.Error("an address with delayed answers was forgotten")
	}
}

// The log tells how many there were since the last time.
func TestFailedLoginsAreLogged(t *testing.T) {
	t.Parallel()
	var l Logins
	now := time.Unix(1, 0)
	host := Host("10.0.0.1:5")
	said, lines := 0, 0
	for range 1000 {
		if _, _, say := l.Fail(host, now); say > 0 {
			said += say
			lines++
		}
		now = now.Add(100 * time.Millisecond)
	}
	if lines != 10 || said < 890 {
		t.Error(lines, "lines about", said)
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"10.0.0.1:5", "10.0.0.1:6", "same"},
		{"10.0.0.1:5", "10.0.0.2:5", "other"},
		{"[2001:db8::1]:5", "[2001:db8::ffff]:6", "same"},
		{"[2001:db8::1]:5", "[2001:db8:0:1::1]:5", "other"},
		{"[::ffff:10.0.0.1]:5", "10.0.0.1:5", "same"},
		{"/tmp/a:0", "/tmp/b:0", "same"},
	} {
		if same := Host(c[0]) == Host(c[1]); same != (c[2] == "same") {
			t.Error(c)
		}
	}
}
