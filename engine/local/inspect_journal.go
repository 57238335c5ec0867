package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"redoubt/engine"
	"redoubt/journal"
)

// JournalState describes the condition of a store's journal.
type JournalState struct {
	journal.Report
	// Checkpoint: the tables have everything up to this record; 0 if they cannot be read.
	Checkpoint uint64
	// Wrong are the problems for which a server refuses to start.
	Wrong []journal.Problem
	// Torn is a tail that the next start cuts off: it was never reported as durable.
	Torn *journal.Problem
	// Old are problems of segments that the store does not need any more.
	Old []journal.Problem
	// Kept is the last record before the first bad place. Lost is how many records were
	// found behind that place, LostLast the newest number among them or known to have
	// been synced.
	Kept, LostLast uint64
	Lost           int
	// Payload is how many bytes of records a start replays.
	Payload int64

	start uint64           // the segment with which a start begins
	bad   bool             // there is a bad place
	stop  place            // the first bad place
	ends  map[string]int64 // where the last record of a segment ends, by file name
}

// place is where a record is.
type place struct {
	segment uint64
	offset  int64
}

func (p place) before(q place) bool {
	return p.segment < q.segment || p.segment == q.segment && p.offset < q.offset
}

func placeOf(p journal.Problem) place {
	digits, _, _ := strings.Cut(p.File, ".")
	n, _ := strconv.ParseUint(digits, 10, 64) // the journal made the name
	return place{n, p.Offset}
}

// replays reports whether a start would replay a record.
func (j *JournalState) replays(e journal.Entry) bool {
	at := place{e.Index, e.Offset}
	return e.Rows() && e.Seq > j.Checkpoint && e.Index >= j.start && (!j.bad || at.before(j.stop))
}

// WalkJournal is journal.Walk for the journal of this store. A journal that is not there has
// no records.
func (i *Inspection) WalkJournal(visit func(journal.Entry) error) (journal.Report, error) {
	seq, _ := i.Checkpoint() // an error is returned again when the tables are read
	return journal.Walk(JournalFiles(i.fs), i.path(journalDir), seq, visit)
}

// Journal reads the whole journal and classifies its problems. progress may be nil.
func (i *Inspection) Journal(progress func(done, total int64)) (*JournalState, error) {
	if i.log != nil {
		return i.log, nil
	}
	j := &JournalState{ends: make(map[string]int64)}
	var tables error // returned when they are needed
	j.Checkpoint, tables = i.Checkpoint()
	total, err := i.journalBytes()
	if err != nil {
		return nil, err
	}
	var wrong []journal.Problem
	var first uint64 // record number
	var batch engine.Batch
	var done int64
	j.Report, err = i.WalkJournal(func(e journal.Entry) error {
		next := e.Seq
		if e.Kind == journal.Mark || e.Kind == journal.RaftMark {
			next++
		}
		if _, seen := j.ends[e.File]; !seen && next <= j.Checkpoint+1 {
			j.start = e.Index
		}
		if first == 0 {
			first = next
		}
		size := journal.HeadRoom + int64(len(e.Payload))
		j.ends[e.File] = e.Offset + size
		if done += size; progress != nil {
			progress(done, max(done, total))
		}
		if !e.Rows() {
			return nil
		}
		if err := checkRecord(e.Payload, &batch); err != nil {
			wrong = append(wrong, journal.Problem{File: e.File, Offset: e.Offset, Seq: e.Seq, What: err.Error(), Corrupt: true})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if first > j.Checkpoint+1 && tables == nil {
		what := fmt.Sprintf("the journal begins with record %d, and the tables end with %d: what is between is missing", first, j.Checkpoint)
		wrong = append(wrong, journal.Problem{File: journalDir, Seq: j.Checkpoint + 1, What: what, Corrupt: true})
	}
	if err := i.checkEnd(); err != nil {
		wrong = append(wrong, journal.Problem{File: endFile, What: err.Error(), Corrupt: true})
	}
	j.judge(append(j.Problems, wrong...))
	if err := i.count(j); err != nil {
		return nil, err
	}
	i.log = j
	return j, nil
}

// judge sorts problems by what they mean for a start.
func (j *JournalState) judge(list []journal.Problem) {
	for _, p := range list {
		at := placeOf(p)
		switch {
		case p.File == journalDir || p.File == endFile: // not in a segment
			j.Wrong = append(j.Wrong, p)
			continue
		case at.segment < j.start:
			j.Old = append(j.Old, p)
			continue
		case p.Corrupt:
			j.Wrong = append(j.Wrong, p)
		case j.Torn == nil:
			j.Torn = &p
		}
		if !j.bad || at.before(j.stop) {
			j.bad, j.stop = true, at
		}
	}
}

// count counts the records before and behind the first bad place.
func (i *Inspection) count(j *JournalState) error {
	j.Kept, j.LostLast = j.Checkpoint, j.Claimed
	_, err := i.WalkJournal(func(e journal.Entry) error {
		switch {
		case !e.Rows() || e.Index < j.start:
		case j.replays(e):
			j.Payload += int64(len(e.Payload))
			j.Kept = max(j.Kept, e.Seq)
		case j.bad && e.Seq > j.Checkpoint && !(place{e.Index, e.Offset}).before(j.stop):
			j.Lost++
			j.LostLast = max(j.LostLast, e.Seq)
		}
		return nil
	})
	return err
}

// checkRecord returns why a record cannot be a commit.
func checkRecord(payload []byte, b *engine.Batch) error {
	if err := ReadRecord(payload, b); err != nil {
		return err
	}
	for op := range b.Ops() {
		if isReserved(op.Key) {
			return fmt.Errorf("%w: it changes the engine's own row %x", engine.ErrCorrupt, op.Key)
		}
	}
	return nil
}

func (i *Inspection) journalBytes() (total int64, err error) {
	names, err := i.fs.List(i.path(journalDir))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, name := range names {
		if info, err := i.fs.Stat(i.path(journalDir, name)); err == nil && strings.HasSuffix(name, ".jnl") {
			total += info.Size()
		}
	}
	return total, err
}

// checkEnd returns an error if the end file is missing. It does not read the file.
func (i *Inspection) checkEnd() error {
	ended, err := readFormat(i.readOnly, i.dir)
	if err != nil {
		return err
	}
	return checkEnd(i.fs, i.dir, ended)
}

// Salvage reduces the journal to the records before its first bad place, and moves the
// rest aside; see journal.Salvage.
func (i *Inspection) Salvage() (journal.Salvaged, error) {
	seq, err := i.Checkpoint()
	if err != nil {
		return journal.Salvaged{}, err
	}
	i.log = nil
	return journal.Salvage(JournalFiles(i.fs), i.path(journalDir), seq)
}
