package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logEvery is the time between two lines of one kind that clients cause.
const logEvery = 10 * time.Second

// limitedLog is a slog.Handler for lines that clients can cause at will. The message is
// the kind of a line and must not contain anything of a client. The first line of a kind
// is written at once. Later ones are counted, and the last of them is written when
// logEvery has passed, with their number ("times"). So the lines of a kind, each taken
// "times" times, are as many as there were.
type limitedLog struct {
	slog.Handler
	mu    sync.Mutex
	kinds map[string]*limitedLines
}

// limitedLines are those of one kind.
type limitedLines struct {
	written time.Time   // when the last line was
	times   int         // lines since then
	last    slog.Record // of them
}

func newLimitedLog(to *slog.Logger) *limitedLog {
	return &limitedLog{Handler: to.Handler(), kinds: make(map[string]*limitedLines)}
}

// Handle implements slog.Handler.
func (l *limitedLog) Handle(ctx context.Context, r slog.Record) error {
	if !l.admit(r) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// admit says whether a line is to be written now.
func (l *limitedLog) admit(r slog.Record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[r.Message]
	if k == nil {
		k = new(limitedLines)
		l.kinds[r.Message] = k
	}
	if k.times == 0 && r.Time.Sub(k.written) >= logEvery {
		k.written = r.Time
		return true
	}
	k.times++
	k.last = r.Clone()
	return false
}

// flush writes what was counted, of kinds that are due or of all.
func (l *limitedLog) flush(now time.Time, all bool) {
	var due []slog.Record
	l.mu.Lock()
	for _, k := range l.kinds {
		if k.times > 0 && (all || now.Sub(k.written) >= logEvery) {
			k.last.AddAttrs(slog.Int("times", k.times))
			due = append(due, k.last)
			*k = limitedLines{written: now}
		}
	}
	l.mu.Unlock()
	for _, r := range due {
		_ = l.Handler.Handle(context.Background(), r) // as slog.Logger does
	}
}

// run flushes what is due, until ctx ends.
func (l *limitedLog) run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			l.flush(now, false)
		}
	}
}
