package server_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// logged counts the lines of the log with a text, and how many they stand for.
func (f *front) logged(text string) (lines, times int) {
	for line := range strings.Lines(f.log.String()) {
		if !strings.Contains(line, text) {
			continue
		}
		lines++
		n := 1
		if m := regexp.MustCompile(` times=(\d+)`).FindStringSubmatch(line); m != nil {
			n, _ = strconv.Atoi(m[1])
		}
		times += n
	}
	return lines, times
}

// Clients that let themselves be closed again and again do not fill the log, which still
// tells how many they were.
func TestClosedClientsDoNotFloodTheLog(t *testing.T) {
	const many = 100
	for text, test := range map[string]struct{ send, limit, value string }{
		"evicting a client": {frame("MULTI") + strings.Repeat(frame("SET", "k", strings.Repeat("x", 100_000)), 15),
			"--maxmemory-clients", "1400000"},
		"its query buffer is over the limit": {"*2\r\n$4\r\nECHO\r\n$1300000\r\n" + strings.Repeat("x", 1_200_000),
			"--client-query-buffer-limit", "1mb"},
		"speaks HTTP": {"Host: localhost\r\n", "--maxmemory-clients", "1400000"},
	} {
		t.Run(text, func(t *testing.T) {
			carriers(t, func(t *testing.T, pipes bool) {
				f := start(t, pipes, test.limit, test.value)
				for range many {
					c := f.dial()
					c.raw(test.send)
					for c.read() != "(closed)" {
					}
				}
				if lines, times := f.logged(text); lines == 0 || lines > 20 || times > many {
					t.Errorf("%d lines tell of %d", lines, times)
				}
				f.stop()
				if lines, times := f.logged(text); lines > 20 || times != many {
					t.Errorf("in the end %d lines tell of %d, not of %d", lines, times, many)
				}
			})
		})
	}
}
