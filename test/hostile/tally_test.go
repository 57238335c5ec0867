package hostile

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// tally counts what clients got, by its first word.
type tally struct {
	mu sync.Mutex
	m  map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = make(map[string]int)
	}
	t.m[what]++
}

func (t *tally) get(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[what]
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t.m)) {
		parts = append(parts, fmt.Sprintf("%d %s", t.m[what], what))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// What a client can get instead of a reply.
const (
	closed  = "closed"
	noReply = "unanswered"
)

// take reads a reply of any size without keeping it, and says what it was: the first
// word of an error, "OK" for anything else, or closed. Errors inside of an array count
// as well as the array itself does.
func take(r *bufio.Reader) string {
	line, err := r.ReadString('\n')
	if err != nil {
		return closed
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "garbled"
	}
	switch line[0] {
	case '+', ':', '_', '#', ',', '(':
		return "OK"
	case '-':
		return strings.Fields(line[1:] + " ?")[0]
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return "garbled"
	}
	switch line[0] {
	case '$':
		if n >= 0 {
			if _, err := r.Discard(n + 2); err != nil {
				return closed
			}
		}
		return "OK"
	case '*':
		got := "OK"
		for range n {
			if one := take(r); one != "OK" {
				got = one
			}
		}
		return got
	}
	return "garbled"
}

// reader reads the replies of a connection.
func reader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }
