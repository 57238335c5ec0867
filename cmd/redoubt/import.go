package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"redoubt/copier"
	"redoubt/engine"
	"redoubt/importer"
	"redoubt/script"
	"redoubt/version"
)

// redoubt import: fills a store from the files of a Redis. Package importer imports; this
// file opens files and stores and reports to the operator.

func importData(ctx context.Context, args []string, out, log io.Writer) (err error) {
	f := flags("import", log)
	to := f.String("to", "", "the `store` to be filled: "+anyStore)
	replace := f.Bool("replace", false, "the store may have data: it is replaced, in one moment at the end")
	skip := f.Bool("skip-unknown", false, "leave out values and commands of modules, and name them")
	truncated := f.Bool("truncated", false, "an append-only file may end within a command or a transaction, which is left out")
	databases := f.Int("databases", 16, "how many databases the store is to have at least: `N`, as the server's directive")
	tls := securityFlags(f)
	path, err := parseWithFile(f, args, "to")
	if err != nil {
		return err
	}
	parts, err := openParts(path)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range parts {
			err = errors.Join(err, p.file.Close())
		}
	}()
	eng, err := openDestination(ctx, *to, *tls)
	if err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	begun := time.Now()
	i, err := importer.Begin(ctx, eng, importer.Options{
		Databases: *databases, Now: begun.UnixMilli(), SkipUnknown: *skip, Truncated: *truncated, Libraries: checkLibraries,
		Skipped: func(what string) { fmt.Fprintf(log, "left out: %s\n", what) },
	})
	if err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	if !*replace {
		if err := mustBeEmpty(eng); err != nil {
			return errors.Join(err, i.Abandon())
		}
	}
	p := newProgress(log, time.Second)
	err = importParts(ctx, i, parts, p)
	p.end()
	if err == nil {
		err = i.Finish()
	}
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		if left := i.Abandon(); left != nil {
			return errors.Join(fmt.Errorf("%w\nNothing was imported. What was written so far is cleared by the next import, or by the server", err), left)
		}
		return fmt.Errorf("%w\nNothing was imported: the store is as it was before", err)
	}
	printImport(out, i.Result, time.Since(begun))
	return nil
}

func printImport(out io.Writer, r importer.Result, took time.Duration) {
	fmt.Fprintf(out, "imported %s", number(r.Keys, "key"))
	for _, s := range []struct {
		n    int64
		what string
	}{{r.Commands, "command"}, {r.Expired, "expired key left out"}, {r.Empty, "empty key left out"}, {r.Skipped, "unknown value left out"}} {
		switch {
		case s.n == 1:
			fmt.Fprintf(out, ", 1 %s", s.what)
		case s.n > 0:
			first, rest, _ := strings.Cut(s.what, " left")
			if rest != "" {
				rest = " left" + rest
			}
			fmt.Fprintf(out, ", %d %ss%s", s.n, first, rest)
		}
	}
	fmt.Fprintf(out, " in %s", took.Round(time.Millisecond))
	if r.Unchecked {
		fmt.Fprint(out, "; the file has no checksum, so damage may not have been noticed")
	}
	fmt.Fprintln(out)
}

// parseWithFile reads flags and one word among them, the name of a file.
func parseWithFile(f *flag.FlagSet, args []string, needed ...string) (word string, err error) {
	if err := f.Parse(args); err != nil {
		return "", err
	}
	if f.NArg() == 0 {
		return "", fmt.Errorf("which file? See: %s --help", f.Name())
	}
	word = f.Arg(0)
	return word, parse(f, f.Args()[1:], needed...)
}

func mustBeEmpty(eng engine.Engine) (err error) {
	snap, err := eng.Snapshot()
	if err != nil {
		return fmt.Errorf("look at the store: %w", err)
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	err = copier.Empty(snap)
	if errors.Is(err, copier.ErrNotEmpty) {
		err = fmt.Errorf("%w\nNothing was changed. Name another store, or give --replace: what this one has is then replaced, in one moment at the end", err)
	}
	return err
}

// checkLibraries compiles libraries of functions as a server would.
func checkLibraries(sources []string) error {
	e := script.New(script.Options{
		Version: version.Redis, Memory: func() int64 { return 64 << 20 }, Logger: slog.New(slog.DiscardHandler),
		Threshold: func() time.Duration { return 5 * time.Second },
	})
	return e.CheckLibraries(sources)
}

// part is a file that is imported.
type part struct {
	file *os.File
	size int64
	base bool // the first file of an append-only directory
	aof  bool // a file of commands of such a directory
	last bool
}

// openParts opens an RDB file, an append-only file, or the files of an append-only directory.
func openParts(path string) (parts []part, err error) {
	defer func() {
		if err != nil {
			for _, p := range parts {
				p.file.Close()
			}
			parts = nil
		}
	}()
	open := func(p part, name string) error {
		var err error
		if p.file, err = os.Open(name); err != nil {
			return err
		}
		parts = append(parts, p)
		info, err := p.file.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is no file", name)
		}
		if err == nil {
			parts[len(parts)-1].size = info.Size()
		}
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return parts, open(part{last: true}, path)
	}
	manifest, err := findManifest(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		return nil, err
	}
	list, err := importer.Parts(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	for n, l := range list {
		if err := open(part{base: l.Base, aof: !l.Base, last: n == len(list)-1}, filepath.Join(filepath.Dir(manifest), l.Name)); err != nil {
			return parts, fmt.Errorf("the manifest names a file that cannot be read: %w", err)
		}
	}
	return parts, nil
}

// findManifest finds the manifest of an append-only directory; dir is this directory, or
// that of a Redis, which contains it.
func findManifest(dir string) (string, error) {
	for _, at := range []string{dir, filepath.Join(dir, "appendonlydir")} {
		found, err := filepath.Glob(filepath.Join(escapeGlob(at), "*.manifest"))
		if err != nil {
			return "", err
		}
		switch len(found) {
		case 1:
			return found[0], nil
		case 0:
		default:
			return "", fmt.Errorf("%s has several manifests: %s", at, strings.Join(found, ", "))
		}
	}
	return "", fmt.Errorf("%s has no manifest of an append-only file; to import an RDB file, name the file", dir)
}

var escapeGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace

// importParts imports one file after the other.
func importParts(ctx context.Context, i *importer.Import, parts []part, p *progress) error {
	in := &followed{ctx: ctx, p: p}
	for _, part := range parts {
		in.total += part.size
	}
	for _, part := range parts {
		in.file = part.file
		if err := importPart(i, part, in); err != nil {
			return fmt.Errorf("%s: %w", part.file.Name(), err)
		}
	}
	return nil
}

func importPart(i *importer.Import, part part, in io.Reader) error {
	head := bufio.NewReaderSize(in, 64<<10)
	b, err := head.Peek(len("REDIS"))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case string(b) == "REDIS" && !part.aof:
		rest, end, err := i.RDB(head, part.base)
		if err != nil {
			return err
		}
		behind := bufio.NewReader(rest)
		_, err = behind.Peek(1)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !i.Base:
			return errors.New("behind its end there is more: it is no RDB file, or two in one")
		}
		return i.AOF(behind, end, part.last)
	case part.base && len(b) == 0 && !strings.HasSuffix(part.file.Name(), ".aof"):
		return errors.New("it is empty")
	case part.aof, part.base, len(b) > 0 && (b[0] == '*' || b[0] == '#'):
		return i.AOF(head, 0, part.last)
	}
	return errors.New("it begins neither as an RDB file (REDIS) nor as an append-only file (* or #)")
}

// followed reads the present file and shows progress; it fails when its context has ended.
type followed struct {
	ctx         context.Context
	p           *progress
	file        *os.File
	done, total int64
}

func (f *followed) Read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.file.Read(b)
	f.done += int64(n)
	f.p.bytes("imported", f.done, f.total)
	return n, err
}
