package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"redoubt/engine/local"
	"redoubt/keyspace"
	"redoubt/types/check"
)

// redoubt check: looks for all inconsistencies of a store.

func runCheck(args []string, out, log io.Writer) (err error) {
	f := flags("check", log)
	dir := f.String("dir", "", "the server's `directory`, or a store's: a checkpoint, say")
	limit := f.Int("limit", 100, "of each kind list so `many`, and count the rest")
	if err := parse(f, args, "dir"); err != nil {
		return err
	}
	i, err := inspect(*dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	list := &findings{out: out, limit: *limit}
	checkStore(i, list, newProgress(log, 10*time.Second))
	list.end()
	if n := list.files + list.rows; n > 0 {
		return fmt.Errorf("%s in %s", inconsistencies(n), i.Dir())
	}
	fmt.Fprintln(out, "no inconsistencies")
	return nil
}

func inconsistencies(n int) string {
	if n == 1 {
		return "1 inconsistency"
	}
	return fmt.Sprintf("%d inconsistencies", n)
}

// findings prints and counts what a check finds.
type findings struct {
	out         io.Writer
	limit       int
	counts      map[string]int
	kinds       []string
	files, rows int // how many inconsistencies files and rows have
}

func (f *findings) print(kind, place, what string) {
	if f.counts == nil {
		f.counts = make(map[string]int)
	}
	if f.counts[kind]++; f.counts[kind] == 1 {
		f.kinds = append(f.kinds, kind)
	}
	if f.counts[kind] <= f.limit {
		fmt.Fprintf(f.out, "%s: %s: %s\n", kind, place, what)
	}
}

func (f *findings) note(text string) { fmt.Fprintf(f.out, "note: %s\n", text) }

// end prints how many findings were not listed.
func (f *findings) end() {
	for _, kind := range f.kinds {
		if n := f.counts[kind]; n > f.limit {
			fmt.Fprintf(f.out, "%s: %d in all, %d are not listed\n", kind, n, n-f.limit)
		}
	}
}

// checkStore checks a store, files first.
func checkStore(i *local.Inspection, f *findings, p *progress) {
	defer p.end()
	report := func(kind, place, what string) { f.files++; f.print(kind, place, what) }
	readable := i.Check(local.Checks{Report: report, Note: f.note, Progress: p.bytes})
	if j, err := i.Journal(nil); err == nil {
		fmt.Fprintf(f.out, "journal: %s in %s, %s; the tables have everything up to record %d\n", count(j.Records, "record"), count(j.Segments, "segment"), size(j.Bytes), j.Checkpoint)
	}
	if !readable {
		f.note("rows were not looked at")
		return
	}
	state, err := i.State(func(done, total int64) { p.bytes("replay", done, total) })
	if err != nil {
		report("journal", "replay", err.Error())
		return
	}
	seen := keyspace.Check(state, state.Counters, check.Examine, func(kind, place, what string) { f.rows++; f.print(kind, place, what) },
		func(slot int, rows int64) {
			p.begin("rows")
			p.show(fmt.Sprintf("%3d %%, %d", slot*100/keyspace.Slots, rows))
		})
	if err := state.Close(); err != nil {
		report("store", "closing it", err.Error())
	}
	fmt.Fprintf(f.out, "rows: %d; keys: %d, %d of them with an expiry, %d with rows of their own\n", seen.Rows, seen.Keys, seen.Volatile, seen.Values)
	if !seen.Complete {
		f.note("counters and the owners of rows were not compared")
	}
}
