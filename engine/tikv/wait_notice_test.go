package tikv

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLate(t *testing.T) {
	t.Parallel()
	var got []string
	for n := range 6 {
		got = append(got, waitNotice(n).String())
	}
	if text := fmt.Sprint(got); text != "[3s 10s 30s 1m30s 2m30s 3m30s]" {
		t.Error(text)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// While a cluster does not answer it is said again and again what is tried, what is
// wrong, and what to look at; and in the end, too.
func TestOpenSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close() // nobody listens there
	log := new(lockedBuffer)
	_, err = Open(Options{
		PD: []string{addr, "localhost:1"}, Prefix: "p:", OpenTimeout: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil)),
		late: func(n int) time.Duration { return time.Duration(n+1) * 50 * time.Millisecond },
	})
	if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "tikv-pd") {
		t.Errorf("error %v", err)
	}
	said := 0
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "TiKV does not answer") {
			continue
		}
		said++
		for _, want := range []string{addr, "localhost:1", "refused", "waited=", "gives_up_in=", "tikv-pd"} {
			if !strings.Contains(line, want) {
				t.Errorf("%q is missing in: %s", want, line)
			}
		}
	}
	if said < 3 {
		t.Errorf("said %d times:\n%s", said, log.String())
	}
}
