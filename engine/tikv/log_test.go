package tikv

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// What the client logs comes out with its fields, once, and at lower levels.
func TestLog(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	out := slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := core{}.With([]zapcore.Field{zap.String("where", "here")}).(core)
	log := func(level zapcore.Level, message string) {
		fields := []zapcore.Field{zap.Error(errors.New("why")), zap.Stack("stack"), zap.Uint64("n", 7)}
		if err := c.writeTo(out, zapcore.Entry{Level: level, Message: message, Time: time.Now()}, fields); err != nil {
			t.Error(err)
		}
	}
	log(zapcore.ErrorLevel, "TestLog fails")
	log(zapcore.ErrorLevel, "TestLog fails")
	log(zapcore.WarnLevel, "TestLog warns")
	log(zapcore.FatalLevel, "TestLog ends")
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s", len(lines), buf.String())
	}
	for i, want := range []string{"level=WARN", "level=DEBUG", "level=ERROR"} {
		if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "error=why n=7 where=here") || strings.Contains(lines[i], "stack") {
			t.Errorf("%s", lines[i])
		}
	}
	var r logLimiter
	now := time.Now()
	if !r.allow("x", now) || r.allow("x", now.Add(logAgain/2)) || !r.allow("x", now.Add(logAgain)) || !r.allow("y", now) {
		t.Error("messages are said too often or too rarely")
	}
}
