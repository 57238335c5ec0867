package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"redoubt/client"
	"redoubt/comparer"
)

// redoubt compare: compares the data of two servers. Package comparer compares; this file
// reports to the operator.

// errDifferent: the servers differ. The program's exit code is then 1, and 2 if they could not be
// compared.
var errDifferent = errors.New("the data differs")

func compareData(ctx context.Context, args []string, out, log io.Writer) error {
	f := flags("compare", log)
	from := f.String("from", "", "a `server`: redis://user:password@host:port, or rediss:// for TLS")
	to := f.String("to", "", "the other `server`")
	sample := f.Int("sample", 0, "compare about `N` random keys of each database of each server; 0 compares all keys")
	skew := f.Duration("skew", 2*time.Second, "how much times to live may differ")
	again := f.Int("again", 5, "how often, a second apart, keys that differ are looked at again: a replica may be behind")
	limit := f.Int("limit", 100, "how many differences are named")
	secure := tlsFlags(f)
	if err := parse(f, args, "from", "to"); err != nil {
		return failed(err)
	}
	tlsConfig, err := secure()
	if err != nil {
		return failed(err)
	}
	o := comparer.Options{Sample: *sample, Skew: *skew, Again: *again}
	if o.From, err = client.ParseServer(*from, tlsConfig); err != nil {
		return failed(fmt.Errorf("--from: %w", err))
	}
	if o.To, err = client.ParseServer(*to, tlsConfig); err != nil {
		return failed(fmt.Errorf("--to: %w", err))
	}
	p := newProgress(log, time.Second)
	o.Progress = func(keys int64) {
		p.begin("compared")
		p.show(number(keys, "key"))
	}
	named := 0
	o.Report = func(d comparer.Difference) {
		if named++; named <= *limit {
			fmt.Fprintln(out, d)
		}
	}
	r, err := comparer.Compare(ctx, o)
	p.end()
	if err != nil {
		return failed(err)
	}
	if named > *limit {
		fmt.Fprintf(out, "... and %s more\n", number(int64(named-*limit), "difference"))
	}
	fmt.Fprintf(out, "%s compared in %s: %s\n", number(r.Keys, "key"), number(r.Databases, "database"), number(r.Differences, "difference"))
	if r.Differences > 0 {
		return errDifferent
	}
	return nil
}

// failed marks an error of a tool that could not do its work.
func failed(err error) error { return exitError{err, 2} }

// exitError is an error with the exit code of the program.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }
