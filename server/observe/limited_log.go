package observe

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logEvery is the time between two lines of one kind that clients cause.
const logEvery = 10 * time.Second

// flushEvery is how often Run looks for lines that are due.
const flushEvery = time.Second

// LimitedLog is a slog.Handler for lines that clients can cause at will. The message is
// the kind of a line and must not contain data of a client. The first line of a kind
// is written at once. Later ones are counted, and the last of them is written when
// logEvery has passed, with their number ("times"). So no line is lost from the count.
type LimitedLog struct {
	slog.Handler
	mu    sync.Mutex
	kinds map[string]*limitedLines
}

// limitedLines are the lines of one kind.
type limitedLines struct {
	written time.Time   // when a line was last written
	times   int         // lines counted since then
	last    slog.Record // the last of these
}

// NewLimitedLog makes a handler that writes to a logger.
func NewLimitedLog(to *slog.Logger) *LimitedLog {
	return &LimitedLog{Handler: to.Handler(), kinds: make(map[string]*limitedLines)}
}

// Handle implements slog.Handler.
func (l *LimitedLog) Handle(ctx context.Context, r slog.Record) error {
	if !l.admit(r) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// admit reports whether a line is to be written now, and counts the line if not.
func (l *LimitedLog) admit(r slog.Record) bool {
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

// Flush writes the counted lines of kinds that are due, or of all kinds.
func (l *LimitedLog) Flush(now time.Time, all bool) {
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

// Run flushes due lines, until ctx ends.
func (l *LimitedLog) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			l.Flush(now, false)
		}
	}
}
