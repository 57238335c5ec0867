package observe

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Of lines of one kind the first is written at once, and then at most one per logEvery,
// with how many it stands for. Another kind is not kept waiting.
func TestLimitedLog(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := NewLimitedLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	now := time.Unix(100, 0)
	line := func(msg string, n int) {
		t.Helper()
		r := slog.NewRecord(now, slog.LevelWarn, msg, 0)
		r.AddAttrs(slog.Int("n", n))
		if err := l.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	want := func(lines ...string) {
		t.Helper()
		if got := strings.TrimSuffix(out.String(), "\n"); got != strings.Join(lines, "\n") {
			t.Errorf("at %s:\n%s\nwant\n%s", now, got, strings.Join(lines, "\n"))
		}
		out.Reset()
	}
	for i := range 1000 {
		line("a", i)
		now = now.Add(time.Millisecond)
		l.Flush(now, false)
	}
	line("b", 0)
	want("msg=a n=0", "msg=b n=0")
	now = now.Add(logEvery)
	l.Flush(now, false)
	want("msg=a n=999 times=999")
	line("a", 1)
	line("b", 1)
	want("msg=b n=1")
	l.Flush(now, true)
	want("msg=a n=1 times=1")
	now = now.Add(logEvery)
	line("a", 2)
	want("msg=a n=2")
	l.Flush(now, true)
	want()
	if l.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("lines below the level are counted")
	}
}
