package script

import (
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
	"redoubt/wire"
)

// bench is an engine with a few commands that touch no store.
type bench struct {
	*Engine
	t     testing.TB
	calls [][]string // what scripts ran
	do    func(args [][]byte, w *wire.Writer) error
	tx    keyspace.Tx
	log   strings.Builder
	limit int64
	after atomic.Int64 // nanoseconds
	oom   bool
}

func newBench(t testing.TB) *bench {
	b := &bench{t: t, limit: 16 << 20}
	b.Engine = New(Options{
		Version: "7.2.6", VersionNum: 0x070206,
		Threshold: func() time.Duration { return time.Duration(b.after.Load()) },
		Memory:    func() int64 { return b.limit },
		Logger:    slog.New(slog.NewTextHandler(io.Writer(&b.log), nil)),
	})
	run := func(*command.Ctx) error { return nil }
	b.SetTable(command.NewTable([]*command.Command{
		{Name: "get", Arity: 2, Flags: command.ReadOnly, Run: run},
		{Name: "set", Arity: -3, Flags: command.Write | command.DenyOOM, Run: run},
		{Name: "publish", Arity: 3, Flags: command.MayReplicate, Run: run},
		{Name: "any", Arity: -1, Run: run},
		{Name: "multi", Arity: 1, Flags: command.NoScript, Run: run},
		{Name: "script", Arity: -2, Subs: b.ScriptCommands()},
	}, b.Commands()))
	space, err := keyspace.Open(mem.New(), 1)
	if err != nil {
		t.Fatal(err)
	}
	b.tx.FX, b.tx.Rows.Batch, b.tx.Space = new(keyspace.Effects), new(engine.Batch), space
	b.tx.Worker = true
	return b
}

// denied is an error as the server's ACL gives it.
type denied struct{}

func (denied) Error() string   { return "NOPERM " + denied{}.Message() }
func (denied) Message() string { return "No permissions to access a key" }

// Permit, OutOfMemory and Local make the bench a command.Caller.
func (b *bench) Permit(cmd *command.Command, args [][]byte) error {
	if len(args) > 1 && string(args[1]) == "secret" {
		return denied{}
	}
	return nil
}
func (b *bench) OutOfMemory() bool            { return b.oom }
func (b *bench) Writable(command.Flags) error { return nil }
func (b *bench) Local(*command.Command, [][]byte, int, *wire.Writer, command.Within) (int, error) {
	return 0, nil
}

// call runs a command and returns its reply, or the error that undid it.
func (b *bench) call(proto int, args ...string) (string, error) {
	in := make([][]byte, len(args))
	for i, a := range args {
		in[i] = []byte(a)
	}
	cmd := b.table.Find(in)
	if cmd == nil || cmd.Run == nil {
		b.t.Fatalf("there is no command %q", args)
	}
	b.tx.Start()
	w := &wire.Writer{Proto: proto}
	c := &command.Ctx{Cmd: cmd, Args: in, Tx: &b.tx, Reply: w, Seed: 7, Caller: b, Do: b.perform}
	err := cmd.Run(c)
	return string(w.Buf), err
}

func (b *bench) perform(_ *command.Command, args [][]byte, w *wire.Writer) error {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	b.calls = append(b.calls, words)
	if b.do != nil {
		return b.do(args, w)
	}
	w.OK()
	return nil
}

// eval is a call of EVAL that succeeds.
func (b *bench) eval(script string, args ...string) string {
	b.t.Helper()
	reply, err := b.call(2, append([]string{"eval", script, "0"}, args...)...)
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return reply
}

func (b *bench) want(got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("got  %q\nwant %q", got, want)
	}
}
