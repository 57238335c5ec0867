package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/journal"
	"redoubt/keyspace"
)

// redoubt journal: prints the records of a journal as text, or salvages a corrupt journal.

func runJournal(args []string, out, log io.Writer) (err error) {
	f := flags("journal", log)
	dir := f.String("dir", "", "the server's `directory`, or a store's: a checkpoint, say")
	from := f.Uint64("from", 0, "begin with this record `number`")
	limit := f.Int("limit", 0, "end after so `many` records; 0 means all")
	values := f.Bool("values", false, "show the bytes of values, not only how many there are")
	salvage := f.Bool("salvage", false, "keep what is before the first bad place, put the rest aside")
	yes := f.Bool("yes", false, "with --salvage: do it")
	if err := parse(f, args, "dir"); err != nil {
		return err
	}
	i, err := inspect(*dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	state, err := i.Journal(nil)
	if err != nil {
		return err
	}
	if *salvage {
		return salvageJournal(i, state, *yes, out)
	}
	p := &journalPrinter{out: out, from: *from, limit: *limit, teller: keyspace.Describer{Values: *values}}
	p.problems = state.Problems
	lo, hi := p.teller.Databases()
	if err := i.Stored(lo, hi, p.teller.Learn); err != nil {
		fmt.Fprintf(log, "the tables cannot be read, so it is not known which database has which keyspace: %v\n", err)
	}
	if _, err := i.WalkJournal(p.entry); err != nil && err != errEnough {
		return err
	}
	p.end(state)
	if n := len(state.Wrong); n > 0 {
		return fmt.Errorf("the journal in %s is corrupt", i.Dir())
	}
	return nil
}

// journalPrinter prints entries of a journal.
type journalPrinter struct {
	out      io.Writer
	from     uint64
	limit    int
	teller   keyspace.Describer
	problems []journal.Problem // those not shown yet

	segment string
	printed int
	batch   engine.Batch
}

var errEnough = errors.New("enough")

func (p *journalPrinter) entry(e journal.Entry) error {
	if p.limit > 0 && p.printed == p.limit {
		return errEnough
	}
	var bad error
	if p.batch.Reset(); e.Rows() {
		bad = local.ReadRecord(e.Payload, &p.batch)
	}
	if bad == nil {
		for op := range p.batch.Ops() {
			p.teller.Learn(op.Key, op.Value)
		}
	}
	if e.Seq < p.from {
		return nil
	}
	// Names of segments compare as their numbers do: they have equal lengths up to 10^8.
	for len(p.problems) > 0 && (p.problems[0].File < e.File || p.problems[0].File == e.File && p.problems[0].Offset <= e.Offset) {
		p.problem()
	}
	p.enter(e.File)
	switch h := e.Raft; e.Kind {
	case journal.Mark:
		fmt.Fprintf(p.out, "%10d  mark: on disk up to record %d\n", e.Offset, e.Synced)
		return nil
	case journal.RaftMark:
		fmt.Fprintf(p.out, "%10d  mark: on disk up to record %d, committed up to entry %d\n", e.Offset, e.Synced, h.Commit)
		return nil
	case journal.RaftCut:
		fmt.Fprintf(p.out, "%10d  record %d, cut: the entries behind entry %d of term %d are void\n", e.Offset, e.Seq, h.Index, h.Term)
	case journal.RaftEntry:
		fmt.Fprintf(p.out, "%10d  record %d, entry %d of term %d, %v, %d bytes, %s, committed up to entry %d\n",
			e.Offset, e.Seq, h.Index, h.Term, h.Type, len(e.Payload), time.UnixMilli(int64(h.Time)).UTC().Format("2006-01-02 15:04:05.000"), h.Commit)
	default:
		fmt.Fprintf(p.out, "%10d  record %d, %d bytes\n", e.Offset, e.Seq, len(e.Payload))
	}
	p.printed++
	if bad != nil {
		fmt.Fprintf(p.out, "%12s!! %v: %x\n", "", bad, e.Payload[:min(len(e.Payload), 256)])
		return nil
	}
	say := func(verb, what string) { fmt.Fprintf(p.out, "%12s%-7s%s\n", "", verb, what) }
	for lo, hi := range p.batch.Ranges() {
		say("clear", p.teller.Range(lo, hi))
	}
	for op := range p.batch.Ops() {
		if op.Delete {
			say("delete", p.teller.Key(op.Key))
		} else {
			say("put", p.teller.Row(op.Key, op.Value))
		}
	}
	for name, delta := range p.batch.Counters() {
		say("add", fmt.Sprintf("%+d to %s", delta, p.teller.Counter(name)))
	}
	return nil
}

func (p *journalPrinter) enter(segment string) {
	if segment != p.segment {
		p.segment = segment
		fmt.Fprintf(p.out, "segment %s\n", segment)
	}
}

func (p *journalPrinter) problem() {
	b := p.problems[0]
	p.problems = p.problems[1:]
	p.enter(b.File)
	fmt.Fprintf(p.out, "%10d  !! record %d: %s\n", b.Offset, b.Seq, b.What)
}

func (p *journalPrinter) end(j *local.JournalState) {
	for len(p.problems) > 0 && (p.limit == 0 || p.printed < p.limit) {
		p.problem()
	}
	fmt.Fprintf(p.out, "%s (%d to %d) and %s in %s, %s; on disk up to record %d; the tables have everything up to record %d\n",
		count(j.Records, "record"), j.First, j.Last, count(j.Marks, "mark"), count(j.Segments, "segment"), size(j.Bytes), j.Synced, j.Checkpoint)
	for _, w := range j.Wrong {
		fmt.Fprintln(p.out, "corrupt:", w)
	}
	if j.Torn != nil {
		fmt.Fprintln(p.out, "torn tail, which the next start cuts off:", *j.Torn)
	}
}

// salvageJournal says what can be kept of a corrupt journal, and with yes cuts the journal
// at its first bad place.
func salvageJournal(i *local.Inspection, j *local.JournalState, yes bool, out io.Writer) error {
	if _, err := i.Checkpoint(); err != nil {
		return fmt.Errorf("the tables cannot be read, and the journal alone is not enough: restore a backup: %w", err)
	}
	if len(j.Wrong) == 0 {
		fmt.Fprintln(out, "There is nothing to salvage: a server can start from this journal.")
		if j.Torn != nil {
			fmt.Fprintln(out, "Its tail is torn, which the next start cuts off:", *j.Torn)
		}
		return nil
	}
	for _, p := range j.Wrong {
		fmt.Fprintln(out, "corrupt:", p)
	}
	fmt.Fprintf(out, "Up to record %d everything can be kept.\n", j.Kept)
	if j.LostLast > j.Kept {
		fmt.Fprintf(out, "Lost is what comes behind: records %d to %d and what followed them, of which %d can still be read in the files that are put aside.\nThese writes were acknowledged. A backup may have them.\n",
			j.Kept+1, j.LostLast, j.Lost)
	} else {
		fmt.Fprintln(out, "Nothing is known to be lost, but nobody can tell whether there were records behind that.")
	}
	if !yes {
		return errors.New("nothing was changed; to go on, run this again with --yes")
	}
	s, err := i.Salvage()
	if err != nil {
		return err
	}
	for _, name := range s.Aside {
		fmt.Fprintln(out, "put aside:", name)
	}
	if j, err = i.Journal(nil); err != nil {
		return err
	} else if len(j.Wrong) > 0 {
		return fmt.Errorf("salvaging does not help, since not all records that are whole can be understood: restore a backup: %v", j.Wrong[0])
	}
	fmt.Fprintf(out, "Done. The server can start. Run redoubt check first: rows of lost commits may have reached the tables already.\n")
	return nil
}
