package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/journal"
	"redoubt/keyspace"
)

// Tools look after a store that no server has open, or look at a server that runs;
// docs/operations.md and docs/tools.md show how they are used.

// tool is a subcommand.
type tool struct {
	name, args, doc string
	run             func(args []string, out, log io.Writer) error
}

func tools() []tool {
	return []tool{
		{"check", "--dir D", "look for everything that is wrong with a store", runCheck},
		{"journal", "--dir D [--from N] [--limit N] [--values] [--salvage [--yes]]", "print the journal, or cut it at its first bad place", runJournal},
		{"backup", "--dir D --to X", "copy a store to a directory, or to one file if X ends in .tar", runBackup},
		{"restore", "--from X --dir D", "make a store out of a backup", runRestore},
		{"copy", "--from S --to S", "copy all data to another store; S is a directory, tikv://host:port,.../prefix or cql://host:port,.../keyspace/prefix", untilSignal(copyData)},
		{"import", "FILE --to S", "fill a store from a Redis's files; dump.rdb, appendonlydir or appendonly.aof; S as above", untilSignal(importData)},
		{"export", "--from S --to FILE", "write all data to an RDB file, which Redis loads", untilSignal(exportData)},
		{"compare", "--from redis://A --to redis://B", "compare the data of two running servers", untilSignal(compareData)},
		{"doctor", "[--server redis://A] [redis.conf] [--directive value ...]", "find what is wrong: configuration, system, disk, store, server", untilSignal(doctorReport)},
		{"top", "[--server redis://A]", "show what a running server does, in this terminal", untilSignal(topServer)},
		{"bench", "[--server redis://A] [--rate N] [command ...]", "put load on a running server and show how long replies take", untilSignal(benchServer)},
		{"drop", "--store S [--yes]", "remove a store from a TiKV cluster; S is tikv://host:port,.../prefix", untilSignal(dropStore)},
	}
}

// untilSignal makes the run function of a tool whose context ends at SIGINT and SIGTERM.
func untilSignal(run func(ctx context.Context, args []string, out, log io.Writer) error) func([]string, io.Writer, io.Writer) error {
	return func(args []string, out, log io.Writer) error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return run(ctx, args, out, log)
	}
}

// runTool runs a subcommand, if args name one.
func runTool(args []string, out, log io.Writer) (ran bool, err error) {
	for _, t := range tools() {
		if len(args) > 0 && args[0] == t.name {
			err := t.run(args[1:], out, log)
			if errors.Is(err, flag.ErrHelp) {
				err = nil
			}
			return true, err
		}
	}
	return false, nil
}

// flags makes the flag set of a subcommand.
func flags(name string, log io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("redoubt "+name, flag.ContinueOnError)
	f.SetOutput(log)
	return f
}

// parse reads the flags, and refuses other arguments.
func parse(f *flag.FlagSet, args []string, needed ...string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("what is %q? See: %s --help", f.Arg(0), f.Name())
	}
	for _, name := range needed {
		if f.Lookup(name).Value.String() == "" {
			return fmt.Errorf("--%s is needed. See: %s --help", name, f.Name())
		}
	}
	return nil
}

// formatFile is the file that marks a directory as a store.
const (
	formatFile = "REDOUBT"
	endFile    = "journal" + journal.EndSuffix
)

func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}

// findStore finds a store: dir is the server's directory, which has the store in local,
// or the store's directory, or the journal's, which messages of the journal name.
func findStore(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, at := range []string{abs, filepath.Join(abs, "local")} {
		if exists(at, formatFile) {
			return at, nil
		}
	}
	if at := filepath.Dir(abs); filepath.Base(abs) == "journal" && exists(at, formatFile) {
		return at, nil
	}
	if at := filepath.Join(abs, "local"); exists(at) {
		return at, nil // Inspect says what is wrong with it
	}
	return "", fmt.Errorf("there is no store in %s, nor in %s", abs, filepath.Join(abs, "local"))
}

// inspect opens a store for inspection.
func inspect(dir string) (*local.Inspection, error) {
	at, err := findStore(dir)
	if err != nil {
		return nil, err
	}
	i, err := local.Inspect(local.InspectOptions{Dir: at, Unit: keyspace.Unit})
	if errors.Is(err, engine.ErrLocked) {
		return nil, fmt.Errorf("%w\nThis works on a store at rest: stop the server first, or have it write a copy with BGSAVE and give the copy's directory, checkpoint-<n>", err)
	}
	return i, err
}

// progress shows how far a tool has come, on a line that is overwritten on a terminal.
type progress struct {
	out      io.Writer
	now      func() time.Time
	every    time.Duration
	terminal bool

	what        string
	begun, last time.Time
	text        string // not shown yet
}

// newProgress shows progress on out. If out is no terminal, every is the time between two lines.
func newProgress(out io.Writer, every time.Duration) *progress {
	p := &progress{out: out, now: time.Now, every: every}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.terminal, p.every = true, 200*time.Millisecond
		}
	}
	return p
}

// bytes shows progress in bytes.
func (p *progress) bytes(what string, done, total int64) {
	p.begin(what)
	text := ""
	if total > 0 {
		text = fmt.Sprintf("%3d %%, %s of %s", done*100/total, size(done), size(total))
	}
	if took := p.now().Sub(p.begun).Seconds(); took > 0.01 {
		text += fmt.Sprintf(", %s/s", size(int64(float64(done)/took)))
	}
	p.show(text)
}

// begin begins another phase, unless what is the present one.
func (p *progress) begin(what string) {
	if what != p.what {
		p.end()
		p.what, p.begun, p.last = what, p.now(), p.now()
	}
}

func (p *progress) show(text string) {
	p.text = text
	if p.now().Sub(p.last) >= p.every {
		p.flush()
	}
}

func (p *progress) flush() {
	p.last = p.now()
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s: %s", p.what, p.text)
	} else {
		fmt.Fprintf(p.out, "%s: %s\n", p.what, p.text)
	}
	p.text = ""
}

// end ends a phase and shows its last text.
func (p *progress) end() {
	if p.what == "" {
		return
	}
	if p.text != "" {
		p.flush()
	}
	if p.terminal {
		fmt.Fprintln(p.out)
	}
	p.what = ""
}

// size formats a number of bytes with a unit.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
