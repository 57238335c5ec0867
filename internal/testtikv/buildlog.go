package testtikv

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// buildLog filters the output of go build -v: it counts the names of packages and prints the
// count every few seconds; other lines, such as errors, are passed on.
type buildLog struct {
	to    io.Writer
	name  string
	begun time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu       sync.Mutex
	line     []byte // begun
	packages int
}

// tellEvery is how often the count is printed.
const tellEvery = 5 * time.Second

func newBuildLog(to io.Writer, name string) *buildLog {
	b := &buildLog{to: to, name: name, begun: time.Now(), stop: make(chan struct{})}
	b.ended.Go(func() {
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-b.stop:
				return
			case <-tick.C:
				b.tell("building")
			}
		}
	})
	return b
}

// Write implements io.Writer.
func (b *buildLog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line = append(b.line, p...)
	for {
		n := bytes.IndexByte(b.line, '\n')
		if n < 0 {
			return len(p), nil
		}
		line := b.line[:n+1]
		b.line = b.line[n+1:]
		if bytes.ContainsAny(line, " \t:") {
			if _, err := b.to.Write(line); err != nil {
				return 0, err
			}
		} else {
			b.packages++
		}
	}
}

func (b *buildLog) tell(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.to, "%s %s: %d packages compiled, %s\n", what, b.name, b.packages, time.Since(b.begun).Round(time.Second))
}

// end prints the final count.
func (b *buildLog) end() {
	close(b.stop)
	b.ended.Wait()
	b.tell("done with")
}
