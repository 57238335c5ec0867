package journal

import (
	"fmt"
	"slices"
	"sort"
)

// A lineage is the state of a Raft log after its records, in the order in which they were
// written: which entries there are, of which terms, and where. A cut voids the entries
// behind its index, wherever their records are; later entries have the same indices again.
// Committed entries are never cut.
//
// Reading and writing maintain the lineage by the same code, so Open finds the lineage that
// the writer had.
type lineage struct {
	begun  bool
	base   raftBase    // the entry before the oldest that can be read; a term of 0 is not known
	last   uint64      // the newest entry, or base's
	commit uint64      // the greatest index that a record claims as committed
	terms  []termStart // of the entries behind base
	points []point
	fresh  bool // the next entry does not follow the one before in the same file
}

// termStart is the first entry of a term.
type termStart struct{ index, term uint64 }

// point is the place of an entry's record. The entries up to that of the next point follow
// in the same segment, with no void entry between them.
type point struct {
	index   uint64
	seq     uint64 // of the record
	segment uint64
	off     int64
}

// pointBytes is the distance of points: how much is read at most to find an entry.
const pointBytes = 64 << 10

// begin makes l a lineage whose entries come behind base.
func (l *lineage) begin(base raftBase) {
	*l = lineage{begun: true, base: base, last: base.index, commit: base.commit, fresh: true}
}

// enter adds a segment, by its header. It returns why the segment cannot follow the records
// before, or "".
func (l *lineage) enter(s *found) string {
	h := s.head
	switch {
	case h.version != raftVersion && l.begun:
		return "the segment is of version 1, those before are of version 2"
	case h.version != raftVersion:
		return ""
	case !l.begun:
		l.begin(h.base)
	case h.base.index != l.last || h.base.term != l.term(l.last):
		return fmt.Sprintf("the segment begins behind entry %d of term %d, the log is at entry %d of term %d", h.base.index, h.base.term, l.last, l.term(l.last))
	}
	l.commit, l.fresh = max(l.commit, h.base.commit), true
	return ""
}

// take adds a record. It returns why the record cannot follow the records before, or "".
func (l *lineage) take(e *Entry) string {
	h := e.Raft
	switch e.Kind {
	case RaftEntry:
		if !l.begun {
			l.begin(raftBase{index: h.Index - 1})
		}
		if why := l.refuse(h); why != "" {
			return why
		}
		l.add(h, e.Seq, e.Index, e.Offset)
	case RaftCut:
		if !l.begun {
			l.begin(raftBase{index: h.Index, term: h.Term})
		}
		if why := l.refuseCut(h); why != "" {
			return why
		}
		l.cut(h)
	case RaftMark:
		if l.begun && h.Commit > l.last {
			return fmt.Sprintf("a mark says that entry %d is committed, the log ends with entry %d", h.Commit, l.last)
		}
		l.commit = max(l.commit, h.Commit)
	}
	return ""
}

// refuse returns why an entry cannot be the next one, or "".
func (l *lineage) refuse(h RaftHead) string {
	switch {
	case h.Term == 0 || h.Index == 1<<64-1:
		return fmt.Sprintf("entry %d of term %d cannot be", h.Index, h.Term)
	case h.Index != l.last+1:
		return fmt.Sprintf("entry %d follows entry %d", h.Index, l.last)
	case h.Term < l.term(l.last):
		return fmt.Sprintf("entry %d of term %d follows one of term %d", h.Index, h.Term, l.term(l.last))
	}
	return ""
}

// refuseCut returns why the entries behind h.Index cannot be cut, or "".
func (l *lineage) refuseCut(h RaftHead) string {
	switch {
	case h.Index > l.last:
		return fmt.Sprintf("a cut behind entry %d, the log ends with entry %d", h.Index, l.last)
	case h.Index < l.commit:
		return fmt.Sprintf("a cut behind entry %d, but all up to %d is committed", h.Index, l.commit)
	case h.Index >= l.base.index && l.term(h.Index) != 0 && h.Term != l.term(h.Index):
		return fmt.Sprintf("a cut behind entry %d of term %d, whose term is %d", h.Index, h.Term, l.term(h.Index))
	}
	return ""
}

// add adds an entry for which refuse returns "".
func (l *lineage) add(h RaftHead, seq, segment uint64, off int64) {
	if len(l.terms) == 0 || l.terms[len(l.terms)-1].term != h.Term {
		l.terms = append(l.terms, termStart{h.Index, h.Term})
	}
	if l.fresh || off-l.points[len(l.points)-1].off >= pointBytes {
		l.points = append(l.points, point{h.Index, seq, segment, off})
	}
	l.fresh, l.last, l.commit = false, h.Index, max(l.commit, h.Commit)
}

// cut applies a cut for which refuseCut returns "".
func (l *lineage) cut(h RaftHead) {
	if h.Index < l.base.index { // the entries before were removed, since all of them were void or old
		l.base = raftBase{index: h.Index, term: h.Term}
	}
	l.last, l.fresh = h.Index, true
	for n := len(l.terms); n > 0 && l.terms[n-1].index > h.Index; n = len(l.terms) {
		l.terms = l.terms[:n-1]
	}
	for n := len(l.points); n > 0 && l.points[n-1].index > h.Index; n = len(l.points) {
		l.points = l.points[:n-1]
	}
}

// term returns the term of an entry from base to last.
func (l *lineage) term(index uint64) uint64 {
	i := sort.Search(len(l.terms), func(i int) bool { return l.terms[i].index > index })
	if i == 0 {
		return l.base.term
	}
	return l.terms[i-1].term
}

// at returns the number of the point from which an entry behind base is found.
func (l *lineage) at(index uint64) int {
	return sort.Search(len(l.points), func(i int) bool { return l.points[i].index > index }) - 1
}

// forget notes that the segments before oldest were removed.
func (l *lineage) forget(oldest uint64) {
	n := slices.IndexFunc(l.points, func(p point) bool { return p.segment >= oldest })
	index := l.last
	if n >= 0 {
		index = l.points[n].index - 1
	} else {
		n = len(l.points)
	}
	if index <= l.base.index {
		return
	}
	l.base = raftBase{index: index, term: l.term(index)}
	l.points = slices.Delete(l.points, 0, n)
	l.fresh = l.fresh || len(l.points) == 0
	first := sort.Search(len(l.terms), func(i int) bool { return l.terms[i].index > index })
	l.terms = slices.Delete(l.terms, 0, first)
}
