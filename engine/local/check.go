package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"

	"redoubt/journal"
)

// This file checks the files of a store: every record of the journal, every block of
// every table, the engine's own rows. It does not decode other rows.

// Checks receives the results of a check. Report is called for each problem: its kind,
// by which problems may be counted, its place, and a description. Note is called for
// remarks that are not problems. Progress may be nil.
type Checks struct {
	Report   func(kind, place, what string)
	Note     func(text string)
	Progress func(what string, done, total int64)
}

func (c Checks) progress(what string) func(done, total int64) {
	return func(done, total int64) {
		if c.Progress != nil {
			c.Progress(what, done, total)
		}
	}
}

// Check checks the files. It reports whether the rows can be read: State works then.
func (i *Inspection) Check(c Checks) (readable bool) {
	report := c.Report
	c.Report = func(kind, place, what string) { report(kind, place, oneLine(what)) }
	i.checkJournal(c)
	db, err := i.tables()
	if err != nil {
		c.Report("store", storeDir, err.Error())
		i.checkStray(c)
		return false
	}
	if i.checkTables(c, db) {
		i.checkLevels(c, db)
	}
	return i.checkOwnRows(c, db)
}

// oneLine joins the lines of an error of Pebble.
func oneLine(text string) string {
	lines := strings.Split(text, "\n")
	lines = slices.DeleteFunc(lines, func(s string) bool { return s == "" || strings.Contains(s, "<corruption detail carrier>") })
	return strings.Join(slices.Compact(lines), "; ")
}

func (i *Inspection) checkJournal(c Checks) {
	j, err := i.Journal(c.progress("journal"))
	if err != nil {
		c.Report("journal", journalDir, err.Error())
		return
	}
	say := func(p journal.Problem) (place, what string) {
		switch p.File {
		case journalDir:
			return fmt.Sprintf("record %d", p.Seq), p.What
		case endFile:
			return endFile, p.What
		}
		return fmt.Sprintf("%s/%s, offset %d, record %d", journalDir, p.File, p.Offset, p.Seq), p.What
	}
	for _, p := range j.Wrong {
		place, what := say(p)
		c.Report("journal", place, what)
	}
	if j.Torn != nil {
		place, what := say(*j.Torn)
		c.Note(fmt.Sprintf("journal: %s: %s; the next start cuts it off", place, what))
	}
	for _, p := range j.Old {
		place, what := say(p)
		c.Note(fmt.Sprintf("journal: %s: %s; it is not needed, the tables have everything up to record %d", place, what, j.Checkpoint))
	}
	if len(j.Wrong) > 0 {
		c.Note(fmt.Sprintf("journal: rows are looked at as they were after record %d", j.Kept))
	}
	if _, err := i.fs.Stat(i.path(journalDir)); errors.Is(err, os.ErrNotExist) && j.Checkpoint > 0 {
		c.Report("journal", journalDir, "the directory is missing")
	}
}

// liveTable is a table that the store refers to, not one that is left over.
type liveTable struct {
	name string
	size int64 // 0: not known
}

func liveTables(db *lsm.DB) (list []liveTable, err error) {
	levels, err := db.SSTables()
	if err != nil {
		return nil, storeError("listing the tables", err)
	}
	for _, level := range levels {
		for _, t := range level {
			l := liveTable{name: fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum)), size: int64(t.Size)}
			if t.Virtual {
				l.size = 0
			}
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b liveTable) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(list, func(a, b liveTable) bool { return a.name == b.name }), nil
}

// checkTables reads every block of every live table.
func (i *Inspection) checkTables(c Checks, db *lsm.DB) (well bool) {
	list, err := liveTables(db)
	if err != nil {
		i.checkMissing(c, err)
		i.checkStray(c)
		return false
	}
	total, done := int64(0), int64(0)
	for _, t := range list {
		total += t.size
	}
	well = true
	for _, t := range list {
		for _, what := range i.CheckTable(t.name, t.size) {
			c.Report("table", storeDir+"/"+t.name, what)
			well = false
		}
		done += t.size
		c.progress("tables")(done, max(done, total))
	}
	if n := i.unreferenced(list); n > 0 {
		c.Note(fmt.Sprintf("store: %d tables are left over from an interrupted run; the next start removes them", n))
	}
	return well
}

func (i *Inspection) unreferenced(live []liveTable) (n int) {
	names, _ := i.fs.List(i.path(storeDir)) // Pebble has listed the directory
	for _, name := range names {
		_, found := slices.BinarySearchFunc(live, name, func(t liveTable, name string) int { return strings.Compare(t.name, name) })
		if strings.HasSuffix(name, ".sst") && !found {
			n++
		}
	}
	return n
}

// checkMissing reports which tables are missing when Pebble cannot list its tables for
// that reason.
func (i *Inspection) checkMissing(c Checks, cause error) {
	opts := i.opts.Clone()
	opts.DisableConsistencyCheck = false
	db, err := lsm.Open(i.path(storeDir), opts)
	if err == nil {
		_ = db.Close() // nothing was written
		err = cause
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		if m := missingTable.FindStringSubmatch(line); m != nil {
			c.Report("table", storeDir+"/"+m[1]+".sst", m[2])
		} else {
			c.Report("table", storeDir, line)
		}
	}
}

// missingTable matches Pebble's text for a table that is missing, or has another size.
var missingTable = regexp.MustCompile(`^L\d: (\d+): (.*)$`)

// checkStray checks all tables in the directory when Pebble cannot list its tables.
func (i *Inspection) checkStray(c Checks) {
	names, err := i.fs.List(i.path(storeDir))
	if err != nil {
		return // reported with Pebble's error
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			for _, what := range i.CheckTable(name, 0) {
				c.Report("table", storeDir+"/"+name, what)
			}
		}
	}
}

// manyBad is how many bad blocks of a table are listed.
const manyBad = 20

// CheckTable reads every block of a table and returns what is wrong with it. size
// is the size that it must have, or 0.
func (i *Inspection) CheckTable(name string, size int64) (wrong []string) {
	defer func() {
		if r := recover(); r != nil { // Pebble panics on some damage
			wrong = append(wrong, fmt.Sprint(r))
		}
	}()
	f, err := i.readOnly.Open(i.path(storeDir, name))
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return []string{err.Error()}
	}
	if size != 0 && info.Size() != size {
		return []string{fmt.Sprintf("it has %d bytes, and should have %d", info.Size(), size)}
	}
	readable, err := sstable.NewSimpleReadable(noClose{f})
	if err != nil {
		return []string{err.Error()}
	}
	r, err := sstable.NewReader(context.Background(), readable, i.opts.MakeReaderOptions())
	if err != nil {
		return []string{err.Error()}
	}
	defer r.Close()
	layout, err := r.Layout()
	if err != nil {
		return []string{err.Error()}
	}
	return checkBlocks(f, layout)
}

// noClose does not close: the opener does.
type noClose struct{ sstable.ReadableFile }

func (noClose) Close() error { return nil }

func checkBlocks(f io.ReaderAt, l *sstable.Layout) (wrong []string) {
	// The footer begins with the kind of checksum that all blocks have.
	var kind [1]byte
	if _, err := f.ReadAt(kind[:], int64(l.Footer.Offset)); err != nil {
		return []string{fmt.Sprintf("offset %d: %v", l.Footer.Offset, err)}
	}
	blocks := []block.Handle{l.TopIndex, l.RangeDel, l.RangeKey, l.ValueIndex, l.Properties, l.MetaIndex, l.BlobReferenceIndex}
	for _, b := range l.Data {
		blocks = append(blocks, b.Handle)
	}
	for _, b := range l.Filter {
		blocks = append(blocks, b.Handle)
	}
	blocks = append(append(blocks, l.Index...), l.ValueBlock...)
	slices.SortFunc(blocks, func(a, b block.Handle) int { return int(int64(a.Offset) - int64(b.Offset)) })
	var buf []byte
	for _, b := range slices.Compact(blocks) {
		if b.Length == 0 { // there is no such block
			continue
		}
		n := int(b.Length) + block.TrailerLen
		buf = slices.Grow(buf[:0], n)[:n]
		_, err := f.ReadAt(buf, int64(b.Offset))
		if err == nil {
			err = block.ValidateChecksum(block.ChecksumType(kind[0]), buf, b)
		}
		if err == nil {
			continue
		}
		if wrong = append(wrong, fmt.Sprintf("offset %d: %v", b.Offset, err)); len(wrong) == manyBad {
			return append(wrong, "further blocks of this table were not looked at")
		}
	}
	return wrong
}

// manyTombstones is how many range deletes checkLevels holds in memory.
const manyTombstones = 1 << 20

// checkLevels has Pebble check the order of its rows, within tables and between
// its levels.
func (i *Inspection) checkLevels(c Checks, db *lsm.DB) {
	levels, err := db.SSTables(lsm.WithProperties())
	if err != nil {
		c.Report("store", storeDir, err.Error())
		return
	}
	n := uint64(0)
	for _, level := range levels {
		for _, t := range level {
			n += t.Properties.NumRangeDeletions
		}
	}
	if n > manyTombstones {
		c.Note(fmt.Sprintf("store: the order between levels was not looked at: there are %d range deletes", n))
		return
	}
	c.progress("order of rows in tables")(0, 0)
	if err := db.CheckLevels(nil); err != nil {
		c.Report("store", storeDir, err.Error())
	}
}

// checkOwnRows checks the checkpoint and the counters.
func (i *Inspection) checkOwnRows(c Checks, db *lsm.DB) (well bool) {
	well = true
	wrong := func(key []byte, format string, args ...any) {
		c.Report("store", fmt.Sprintf("the engine's row %x", key), fmt.Sprintf(format, args...))
		well = false
	}
	seen := false
	err := i.Stored(reserved, nil, func(key, value []byte) {
		base := false
		switch own := string(key); {
		case own == string(checkpointKey):
			seen, base = true, true
		case !strings.HasPrefix(own, string(counterPrefix)):
			wrong(key, "there is no such row")
			return
		}
		if len(value) < 8 || len(value) > 8 && !base {
			wrong(key, "it has %d bytes, not 8: %x", len(value), value)
		}
	})
	if err != nil {
		c.Report("store", storeDir, err.Error())
		return false
	}
	if empty, err := (&store{db: db}).empty(); err != nil {
		c.Report("store", storeDir, err.Error())
		return false
	} else if !empty && !seen {
		wrong(checkpointKey, "it is missing, and there are rows")
	}
	return well
}
