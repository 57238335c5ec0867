package tikv

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/log"
	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/kv"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// setGlobals sets the client's process-wide settings and logger.
func setGlobals(l *slog.Logger) {
	clientLog.Store(l)
	globals.Do(func() {
		level := zap.NewAtomicLevelAt(zapcore.InfoLevel)
		log.ReplaceGlobals(zap.New(core{}), &log.ZapProperties{Core: core{}, Level: level})
		config.UpdateGlobal(func(c *config.Config) {
			c.TiKVClient.AsyncCommit.SafeWindow = safeWindow
		})
		kv.TxnCommitBatchSize.Store(batchBytes)
	})
}

// clientLog is the logger for messages of the client.
var clientLog atomic.Pointer[slog.Logger]

// core passes the client's zap messages to clientLog. Their levels are lowered, since the
// client warns of conditions that it then handles itself, such as a region that has moved.
type core struct{ fields []zapcore.Field }

func levelOf(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.DPanicLevel:
		return slog.LevelError
	case l == zapcore.ErrorLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (core) Enabled(l zapcore.Level) bool {
	out := clientLog.Load()
	return l > zapcore.DebugLevel && out != nil && out.Enabled(context.Background(), levelOf(l))
}

func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.writeTo(clientLog.Load(), e, fields)
}

func (c core) writeTo(out *slog.Logger, e zapcore.Entry, fields []zapcore.Field) error {
	if !clientLimiter.allow(e.Message, e.Time) {
		return nil
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, list := range [][]zapcore.Field{c.fields, fields} {
		for _, f := range list {
			f.AddTo(enc)
		}
	}
	attrs := make([]any, 0, 2*len(enc.Fields))
	for _, name := range slices.Sorted(maps.Keys(enc.Fields)) {
		if name != "stack" && name != "errorVerbose" {
			attrs = append(attrs, name, enc.Fields[name])
		}
	}
	out.Log(context.Background(), levelOf(e.Level), "TiKV's client: "+e.Message, attrs...)
	return nil
}

func (core) Sync() error { return nil }

// clientLimiter limits how often the client's messages repeat while the cluster cannot be reached.
var clientLimiter logLimiter

type logLimiter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	logAgain  = 30 * time.Second
	maxLogged = 1000
)

// allow reports whether a message may be logged now, and notes that it was.
func (r *logLimiter) allow(message string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[message]; ok && now.Sub(last) < logAgain {
		return false
	}
	if r.last == nil || len(r.last) >= maxLogged {
		r.last = make(map[string]time.Time)
	}
	r.last[message] = now
	return true
}
