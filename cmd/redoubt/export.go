package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"redoubt/engine"
	"redoubt/exporter"
	"redoubt/version"
)

// redoubt export: writes all data to an RDB file. Package exporter writes; this file opens
// store and file and reports to the operator.

// channelChoices are the values of --channels.
var channelChoices = map[string]exporter.Channels{"refuse": exporter.Refuse, "leave": exporter.Leave, "keep": exporter.Keep}

func exportData(ctx context.Context, args []string, out, log io.Writer) (err error) {
	f := flags("export", log)
	from := f.String("from", "", "the `store` to be written: "+anyStore)
	to := f.String("to", "", "the `file` to be made")
	overwrite := f.Bool("overwrite", false, "the file may exist: it is replaced when the new one is complete")
	format := f.Int("rdb-version", 0, "the `version` of the format: 10 for Redis 7.0, 11 for 7.2, 12 for 7.4; default: the lowest that holds the data")
	channels := f.String("channels", "refuse", "what becomes of channels, which no Redis has: refuse, leave (out), or keep (only Redoubt reads the file then)")
	tls := securityFlags(f)
	if err := parse(f, args, "from", "to"); err != nil {
		return err
	}
	choice, ok := channelChoices[*channels]
	if !ok {
		return fmt.Errorf("--channels is refuse, leave or keep, not %q", *channels)
	}
	if *format != 0 && (*format < 10 || *format > 12) {
		return fmt.Errorf("--rdb-version is 10, 11 or 12, not %d", *format)
	}
	if _, err := os.Lstat(*to); err == nil && !*overwrite {
		return fmt.Errorf("%s exists; name another file, or give --overwrite", *to)
	}
	p := newProgress(log, time.Second)
	tls.reader = true
	begun := time.Now()
	src, closeSource, err := openSource(ctx, *from, *tls, p)
	if err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	defer func() { err = errors.Join(err, closeSource()) }()
	var e *exporter.Export
	e, err = exporter.Open(src.Rows, engine.Capabilities{Remote: isRemote(*from)}, exporter.Options{
		Version: *format, Channels: choice, Now: begun.UnixMilli(), RedisVersion: version.Redis,
		Progress: func(keys, bytes int64) {
			p.begin("exported")
			p.show(fmt.Sprintf("%3d %%, %s, %s", keys*100/max(1, e.Keys), number(keys, "key"), size(bytes)))
		},
	})
	switch {
	case errors.Is(err, exporter.ErrChannels):
		return fmt.Errorf("%w\n--channels leave leaves them out, --channels keep writes them for another Redoubt", err)
	case errors.Is(err, exporter.ErrVersion):
		return fmt.Errorf("%w\nWithout --rdb-version the file gets the version that it needs", err)
	case err != nil:
		return fmt.Errorf("read the store: %w", err)
	}
	err = writeWhole(*to, func(w io.Writer) error { return e.Write(until{ctx, w}) })
	p.end()
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("%w\nNothing was exported: %s is as it was before", err, *to)
	}
	left := ""
	if e.Left > 0 {
		left = fmt.Sprintf(", %s left out", number(e.Left, "channel"))
	}
	fmt.Fprintf(out, "exported %s%s, %s in %s, RDB version %d\n", number(e.Keys, "key"), left, size(e.Bytes), time.Since(begun).Round(time.Millisecond), e.Version)
	return nil
}

// until is a writer that fails when its context has ended.
type until struct {
	ctx context.Context
	io.Writer
}

func (u until) Write(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Writer.Write(b)
}

// writeWhole creates a file atomically: the file is written under another name in the same
// directory, synced and renamed.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".part-*")
	if err != nil {
		return err
	}
	defer func() {
		if exists(f.Name()) {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err == nil {
		return syncDir(dir)
	}
	return err
}
