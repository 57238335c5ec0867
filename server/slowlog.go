package server

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/config"
)

// slowlog keeps the newest commands that took long.
type slowlog struct {
	limit atomic.Int64 // nanoseconds; negative: off
	mu    sync.Mutex
	max   int
	next  int64
	list  []slowEntry // in the order of their times, newest last
}

type slowEntry struct {
	id     int64
	at     time.Time
	took   time.Duration
	args   [][]byte
	addr   string
	client string
}

// set applies slowlog-log-slower-than (microseconds, negative is off) and
// slowlog-max-len. A log that is too long now is cut by the next entry.
func (l *slowlog) set(micros int64, maxLen int) {
	nanos := int64(1<<63 - 1)
	if micros >= 0 && micros < nanos/1000 {
		nanos = micros * 1000
	}
	l.limit.Store(nanos)
	l.mu.Lock()
	l.max = maxLen
	l.mu.Unlock()
}

func (l *slowlog) threshold() time.Duration { return time.Duration(l.limit.Load()) }

func (l *slowlog) trim() {
	if over := len(l.list) - l.max; over > 0 {
		clear(l.list[:over]) // they stay in the array until append moves the rest
		l.list = l.list[over:]
	}
}

// The most that an entry keeps of a command.
const (
	slowArgs   = 32
	slowArgLen = 128
)

// add notes a command that ended at the given time. Long ones are abridged as Redis
// does. Commands of several clients may be noted in another order than that in which
// they ended, such as those of an EXEC and the BLPOP that it served; they are listed
// by their times.
func (l *slowlog) add(s *session, args [][]byte, took time.Duration, at time.Time) {
	e := slowEntry{at: at, took: took, addr: s.addr, client: s.name, args: abridge(redact(s.srv.cfg, s.srv.declared(args[0]), args))}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max == 0 {
		return
	}
	e.id = l.next
	l.next++
	i := len(l.list)
	for i > 0 && l.list[i-1].at.After(at) {
		i--
	}
	l.list = slices.Insert(l.list, i, e)
	l.trim()
}

// newest returns up to n entries, the newest first; all when n is negative.
func (l *slowlog) newest(n int64) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > int64(len(l.list)) {
		n = int64(len(l.list))
	}
	out := make([]slowEntry, n)
	for i := range out {
		out[i] = l.list[len(l.list)-1-i]
	}
	return out
}

func (l *slowlog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

func (l *slowlog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

// abridge copies the start of a command.
func abridge(args [][]byte) [][]byte {
	n := min(len(args), slowArgs)
	out := make([][]byte, n)
	for i := range out {
		if i == slowArgs-1 && len(args) > slowArgs {
			out[i] = fmt.Appendf(nil, "... (%d more arguments)", len(args)-slowArgs+1)
			break
		}
		if a := args[i]; len(a) > slowArgLen {
			out[i] = fmt.Appendf(nil, "%s... (%d more bytes)", a[:slowArgLen], len(a)-slowArgLen)
		} else {
			out[i] = append([]byte(nil), a...)
		}
	}
	return out
}

var redactedText = []byte("(redacted)")

// declared is the name with which the command was declared that a client calls
// by this one.
func (srv *Server) declared(name []byte) string {
	if c := srv.table.Lookup(name); c != nil {
		return c.Name
	}
	return ""
}

// redact replaces passwords and the like in a command that others will see, in
// the slow log and by MONITOR. It returns the same slice if there are none. The
// name is the command's own: a client may call it by another.
func redact(cfg *config.Config, name string, args [][]byte) [][]byte {
	hidden := args
	hide := func(from, to int) {
		if from >= min(to, len(args)) {
			return
		}
		if &hidden[0] == &args[0] {
			hidden = append([][]byte(nil), args...)
		}
		for i := from; i < min(to, len(args)); i++ {
			hidden[i] = redactedText
		}
	}
	switch name {
	case "auth":
		hide(1, len(args))
	case "hello":
		for i := 2; i < len(args); i++ {
			if isWord(args[i], "auth") {
				hide(i+1, i+3)
				break
			}
		}
	case "config":
		if len(args) > 2 && isWord(args[1], "set") {
			for i := 2; i+1 < len(args); i += 2 {
				if d := cfg.Lookup(string(args[i])); d != nil && d.Flags&config.Sensitive != 0 {
					hide(i+1, i+2)
				}
			}
		}
	case "acl":
		if len(args) > 2 && (isWord(args[1], "setuser") || isWord(args[1], "deluser") || isWord(args[1], "getuser")) {
			hide(2, len(args))
		}
	case "migrate":
		for i := 6; i < len(args); i++ {
			if isWord(args[i], "auth") {
				hide(i+1, i+2)
			} else if isWord(args[i], "auth2") {
				hide(i+1, i+3)
			} else if isWord(args[i], "keys") {
				break
			}
		}
	}
	return hidden
}
