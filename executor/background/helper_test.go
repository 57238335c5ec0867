package background

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/keyspace"
	"redoubt/wire"
)

const (
	testNow       = 1_700_000_000_000
	testDatabases = 4
)

// open makes an executor and a worker on an engine.
func open(t testing.TB, eng engine.Engine, clock func() time.Time, log *slog.Logger, o Options) (*executor.Executor, *Worker) {
	t.Helper()
	space, err := keyspace.Open(eng, testDatabases)
	if err != nil {
		t.Fatal(err)
	}
	x := executor.New(executor.Options{
		Engine: eng, Space: space, Seed: 1, Logger: log, Clock: clock, Limits: command.Limits{MaxBulk: 512 << 20},
	})
	o.Executor, o.Engine, o.Space, o.Clock, o.Logger = x, eng, space, clock, log
	return x, New(o)
}

// table is made once, since making it numbers the commands.
var table = sync.OnceValue(func() *command.Table { return command.NewTable(command.All()...) })

// run runs a command and returns its reply in a short form: OK, (nil), 12, abc, !ERR text,
// [a b].
func run(x *executor.Executor, line string) string {
	var args [][]byte
	for _, a := range strings.Fields(line) {
		args = append(args, []byte(a))
	}
	w := wire.Writer{Proto: 2}
	x.RunOnWorker(&executor.Call{Cmd: table().Find(args), Args: args, Reply: &w})
	s, _ := short(w.Buf)
	return s
}

func short(buf []byte) (string, []byte) {
	line, rest, _ := bytes.Cut(buf, []byte("\r\n"))
	n, _ := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case '-':
		return "!" + string(line[1:]), rest
	case '$':
		if n < 0 {
			return "(nil)", rest
		}
		return string(rest[:n]), rest[n+2:]
	case '*':
		var list []string
		for range n {
			var s string
			s, rest = short(rest)
			list = append(list, s)
		}
		return "[" + strings.Join(list, " ") + "]", rest
	}
	return string(line[1:]), rest
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// logbook collects the log.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
