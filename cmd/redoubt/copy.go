package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"redoubt/copier"
	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/journal"
	"redoubt/keyspace"
)

// redoubt copy: copies all data of one store to another, of any engine. Package copier
// copies; this file opens the stores and reports to the operator.

func copyData(ctx context.Context, args []string, out, log io.Writer) (err error) {
	f := flags("copy", log)
	from := f.String("from", "", "the `store` to be copied: "+anyStore)
	to := f.String("to", "", "the `store` to be made, which has no data: likewise")
	verify := f.Bool("verify", true, "read both again in the end, and compare them")
	dry := f.Bool("dry-run", false, "only count what there is to be copied")
	tls := securityFlags(f)
	if err := parse(f, args, "from"); err != nil {
		return err
	}
	if *to == "" && !*dry {
		return fmt.Errorf("--to is needed. See: %s --help", f.Name())
	}
	p := newProgress(log, 5*time.Second)
	tls.reader = true
	src, closeSource, err := openSource(ctx, *from, *tls, p)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	defer func() { err = errors.Join(err, closeSource()) }()
	if *dry {
		return countData(ctx, src, out, p)
	}
	tls.reader = false
	dst, err := openDestination(ctx, *to, *tls)
	if err != nil {
		return fmt.Errorf("the destination: %w", err)
	}
	begun := time.Now()
	earlier := int64(0)
	result, err := copier.Run(ctx, src, dst, copier.Options{Unverified: !*verify, Progress: p.rows(), Resume: func(at copier.Progress, last string) {
		earlier = at.Rows
		fmt.Fprintf(log, "the destination has an unfinished copy of this source: %s, %s, about %d %%, are there already", number(at.Rows, "row"), size(at.Bytes), at.Percent)
		if last != "" {
			fmt.Fprintf(log, "; going on behind %s", last)
		}
		fmt.Fprintln(log)
	}})
	p.end()
	if err = errors.Join(err, dst.Close()); err != nil {
		return explain(err, result)
	}
	printSorts(out, result.Sorts)
	verified := "not verified"
	if *verify {
		verified = "verified"
	}
	before := ""
	if result.Resumed {
		before = fmt.Sprintf(" (%s of them before)", number(earlier, "row"))
	}
	fmt.Fprintf(out, "copied %s, %s%s, %s in %s, %s\n", number(result.Keys, "key"), number(result.Rows, "row"), before, size(result.Bytes),
		time.Since(begun).Round(time.Millisecond), verified)
	return nil
}

// securityFlags adds the flags of TLS towards a cluster.
func securityFlags(f *flag.FlagSet) *remote {
	tls := new(remote)
	f.StringVar(&tls.ca, "tikv-ca", "", "as the server's directive: a `file`")
	f.StringVar(&tls.cert, "tikv-cert", "", "as the server's directive: a `file`")
	f.StringVar(&tls.key, "tikv-key", "", "as the server's directive: a `file`")
	return tls
}

// explain adds to an error what the operator can do.
func explain(err error, r copier.Result) error {
	switch {
	case errors.Is(err, copier.ErrNotEmpty), errors.Is(err, copier.ErrChanged):
		return err
	case errors.Is(err, copier.ErrDiffers):
		return fmt.Errorf("%w\nNo server will open the destination. Remove it and copy again", err)
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	return fmt.Errorf("%w\nThe copy is not finished: %s so far. The same command again goes on with it", err, number(r.Rows, "row"))
}

func countData(ctx context.Context, src copier.Source, out io.Writer, p *progress) error {
	if err := keyspace.Readable(src.Rows); err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	list, total, err := copier.Count(ctx, src.Rows, p.rows())
	p.end()
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	printSorts(out, list)
	fmt.Fprintf(out, "to be copied: %s, %s, %s\n", number(total.Keys, "key"), number(total.Rows, "row"), size(total.Bytes))
	return nil
}

func printSorts(out io.Writer, list []copier.Sort) {
	for _, s := range list {
		fmt.Fprintf(out, "  %-8s %12s  %10s  checksum %016x\n", s.Name, number(s.Rows, "row"), size(s.Bytes), s.Sum)
	}
}

func number(n int64, noun string) string { return count(int(n), noun) }

// rows returns a callback that shows progress in rows. The rate is that of this run.
func (p *progress) rows() func(copier.Progress) {
	var first copier.Progress
	return func(at copier.Progress) {
		if p.begin(at.Phase); at.Phase != first.Phase {
			first = at
		}
		text := fmt.Sprintf("%3d %%, %s, %s", at.Percent, number(at.Rows, "row"), size(at.Bytes))
		if took := p.now().Sub(p.begun).Seconds(); took > 0.01 && at.Rows > first.Rows {
			text += fmt.Sprintf(", %.0f rows/s, %s/s", float64(at.Rows-first.Rows)/took, size(int64(float64(at.Bytes-first.Bytes)/took)))
		}
		p.show(text)
	}
}

// openSource opens a store for reading. A local store is not changed.
func openSource(ctx context.Context, name string, tls remote, p *progress) (src copier.Source, end func() error, err error) {
	if isRemote(name) {
		eng, err := openRemote(ctx, name, tls)
		if err != nil {
			return src, nil, err
		}
		snap, err := eng.Snapshot()
		if err != nil {
			return src, nil, errors.Join(err, eng.Close())
		}
		return copier.Source{Rows: snap, Name: withoutLogin(name)}, func() error { return errors.Join(snap.Close(), eng.Close()) }, nil
	}
	i, err := inspect(name)
	if err != nil {
		return src, nil, err
	}
	j, err := i.Journal(nil)
	if err == nil && len(j.Wrong) > 0 {
		err = fmt.Errorf("the journal is corrupt: %v; see: redoubt check --dir %s", j.Wrong[0], i.Dir())
	}
	if err != nil {
		return src, nil, errors.Join(err, i.Close())
	}
	state, err := i.State(func(done, total int64) { p.bytes("replay", done, total) })
	p.end()
	if err != nil {
		return src, nil, errors.Join(err, i.Close())
	}
	src = copier.Source{Rows: state, Name: fmt.Sprintf("%s at commit %d", i.Dir(), state.Last)}
	return src, func() error { return errors.Join(state.Close(), i.Close()) }, nil
}

// openDestination opens or creates a store for writing.
func openDestination(ctx context.Context, name string, tls remote) (engine.Engine, error) {
	if isRemote(name) {
		return openRemote(ctx, name, tls)
	}
	if exists(name, formatFile) {
		return nil, fmt.Errorf("%s is a store itself; give the directory of a server", name)
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, err
	}
	eng, err := local.Open(local.Options{
		Context: ctx, Dir: filepath.Join(name, "local"), Memory: copyMemory, Fsync: journal.EverySec, Unit: keyspace.Unit,
		Logger: slog.New(slog.DiscardHandler),
	})
	if errors.Is(err, engine.ErrLocked) {
		return nil, fmt.Errorf("%w\nThis works on a store at rest: stop the server first", err)
	}
	if err != nil {
		return nil, err
	}
	return eng, nil
}

// copyMemory is the memory budget of a local destination.
const copyMemory = 512 << 20
