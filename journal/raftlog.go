package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A RaftLog is a journal whose newest entries may be taken back until they are
// committed, as Raft needs it (docs/adr/0028-raft-log.md).
//
// Two numbers name a record. Its position is the order in which it was written. Cuts have
// positions too, and no position is used twice: positions tell what is durable, missing or
// damaged, exactly as in a log of version 1. The index of an entry is its place in Raft's
// order, which is used again after a cut. Nothing is ever removed from the end of a file,
// since checkpoints share the files: a cut is a record.
type RaftLog struct {
	j       *Journal
	line    lineage // guarded by j.mu
	claimed uint64  // the newest commit that a record has; guarded by j.mu
	reader  raftReader
	cutRec  [HeadRoom + cutSize]byte // guarded by j.mu
}

// ErrCompacted: the entries are not in the log any more.
var ErrCompacted = errors.New("the entry is older than the log")

// ErrOrder: the entry cannot follow the newest one, or the cut would void committed
// entries. Nothing was written.
var ErrOrder = errors.New("this cannot follow in the log")

// Applied says what the owner of a log has applied durably to its own tables: all records
// up to Position, which are the entries up to Index, and nothing that is not committed.
// Term is the term of the entry at Index. The tables may have parts of the entries up to
// Committed already, so that only the state after all of those is whole again.
type Applied struct {
	Position    uint64
	Index, Term uint64
	Committed   uint64 // at least Index, if it is known
}

// appliedSize is how many bytes Append adds.
const appliedSize = 32

// Append appends the bytes of a to b: position, index, term and committed.
func (a Applied) Append(b []byte) []byte {
	for _, n := range []uint64{a.Position, a.Index, a.Term, a.Committed} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// ParseApplied reads what Append has made, and returns what is behind it.
func ParseApplied(b []byte) (a Applied, rest []byte, err error) {
	if len(b) < appliedSize {
		return a, nil, fmt.Errorf("%w: how far the tables are in the log takes %d bytes, there are %d", ErrCorrupt, appliedSize, len(b))
	}
	for i, n := range []*uint64{&a.Position, &a.Index, &a.Term, &a.Committed} {
		*n = binary.BigEndian.Uint64(b[8*i:])
	}
	return a, b[appliedSize:], nil
}

// convertedTerm is the term of records that were written before a store became
// replicated: a log of version 1 counts as committed in that term.
const convertedTerm = 1

// OpenRaft reads the log in o.Dir and returns it. It calls replay for the entries above
// have.Index that are known to be committed, in order; the payload is valid during the call.
// The entries behind them may be read with Entries. A log of version 1 is continued: each of
// its records counts as a committed entry of rows whose index is its number, but cannot be
// read back.
//
// OpenRaft cuts off a torn tail and refuses damage, as Open does.
func OpenRaft(o Options, have Applied, replay func(h RaftHead, payload []byte) error, progress func(done, total int64)) (*RaftLog, error) {
	r := &RaftLog{}
	var err error
	if r.j, err = newJournal(o, r); err != nil {
		return nil, err
	}
	c, err := r.j.load(have.Position)
	if err != nil {
		return nil, err
	}
	c.history()
	q := releaser{from: have.Index, replay: replay}
	x, err := r.j.read(c, func(e Entry) error { return q.take(e, c.raft.commit) }, progress)
	if err == nil {
		err = r.adopt(c, have)
	}
	if err == nil {
		err = q.release(r.line.commit)
	}
	if err == nil {
		err = r.j.settle(c, x)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	r.reader = raftReader{fs: r.j.o.FS, dir: r.j.o.Dir}
	r.j.run()
	return r, nil
}

// history reads the segments that the owner does not need: other replicas may ask for their
// entries. Behind a damaged place the history begins anew.
func (c *cursor) history() {
	all, first, want := c.segs, c.i, c.want
	c.segs = all[:first]
	for c.i = 0; c.i < first; {
		c.off, c.want, c.begun = 0, 0, false
		for err := error(nil); err == nil; {
			_, err = c.read()
		}
		if c.i < first { // a bad place: begin anew with this segment, or behind it
			if c.raft = (&lineage{}); c.off > 0 || !c.begun {
				c.i++
			}
		}
	}
	c.segs, c.i, c.off, c.want, c.begun = all, first, 0, want, false
	if first < len(all) && all[first].bad == nil && c.raft.begun && c.raft.enter(all[first]) != "" {
		c.raft = &lineage{}
	}
}

// adopt makes the lineage that the cursor has read the log's. It fails if the owner's tables
// have entries that the lineage does not have.
func (r *RaftLog) adopt(c *cursor, have Applied) error {
	l := c.raft
	if !l.begun {
		base := raftBase{index: have.Index, term: have.Term, commit: have.Index}
		if c.begun && c.want-1 > have.Position { // a log of version 1
			base = raftBase{index: c.want - 1, term: convertedTerm, commit: c.want - 1}
		}
		l.begin(base)
	}
	switch {
	case l.last < have.Index:
		return fmt.Errorf("%w: %s: the log ends with entry %d, the tables have everything up to entry %d: take this node out and let it join anew", ErrCorrupt, c.dir, l.last, have.Index)
	case have.Index > l.base.index && l.term(have.Index) != have.Term:
		return fmt.Errorf("%w: %s: entry %d has term %d, the tables have one of term %d: take this node out and let it join anew", ErrCorrupt, c.dir, have.Index, l.term(have.Index), have.Term)
	}
	// What was committed is on disk as soon as the tables are, the newest mark perhaps not.
	l.commit = max(l.commit, have.Index, min(have.Committed, l.last))
	r.line = *l
	return nil
}

// releaser holds entries back until they are known to be committed, and then replays them.
type releaser struct {
	from   uint64
	replay func(RaftHead, []byte) error
	queue  []waiting // entries behind from, in order
}

type waiting struct {
	head    RaftHead
	payload []byte
}

func (q *releaser) take(e Entry, commit uint64) error {
	switch e.Kind {
	case Data:
		if e.Seq > q.from {
			return q.replay(RaftHead{Index: e.Seq, Term: convertedTerm, Commit: e.Seq, Type: EntryRows}, e.Payload)
		}
	case RaftEntry:
		switch {
		case e.Raft.Index <= q.from:
		case e.Raft.Index <= commit && len(q.queue) == 0:
			return q.replay(e.Raft, e.Payload)
		default:
			q.queue = append(q.queue, waiting{e.Raft, append([]byte(nil), e.Payload...)})
		}
	case RaftCut:
		for n := len(q.queue); n > 0 && q.queue[n-1].head.Index > e.Raft.Index; n = len(q.queue) {
			q.queue = q.queue[:n-1]
		}
	}
	return q.release(commit)
}

func (q *releaser) release(commit uint64) error {
	n := 0
	for ; n < len(q.queue) && q.queue[n].head.Index <= commit; n++ {
		if err := q.replay(q.queue[n].head, q.queue[n].payload); err != nil {
			return err
		}
		q.queue[n].payload = nil
	}
	if q.queue = q.queue[n:]; len(q.queue) == 0 {
		q.queue = nil
	}
	return nil
}

// Append adds the entry behind the newest one. Its payload is rec[RaftRoom:]; Append writes
// the header before the payload. h.Commit may be the newest commit that is known; if it is
// beyond h.Index, a later record has it. Append returns the record's position, and does not
// keep rec. On an error the entry is not in the log.
func (r *RaftLog) Append(h RaftHead, rec []byte) (position uint64, err error) {
	if len(rec) < RaftRoom {
		return 0, fmt.Errorf("journal: an entry of %d bytes has no room for its header", len(rec))
	}
	if uint64(len(rec)-HeadRoom) > MaxPayload {
		return 0, fmt.Errorf("journal: %w: %d bytes", ErrTooLarge, len(rec)-RaftRoom)
	}
	sum := crc32.Checksum(rec[RaftRoom:], castagnoli)
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.room(int64(len(rec))); err != nil {
		return 0, err
	}
	r.note(h.Commit)
	h.Commit = min(h.Commit, h.Index)
	if why := r.line.refuse(h); why != "" {
		return 0, fmt.Errorf("journal: %w: %s", ErrOrder, why)
	}
	h.put(rec)
	segment, off := j.active.index, j.active.end
	if position, err = j.add(rec, sum, RaftEntry); err != nil {
		return 0, err
	}
	r.line.add(h, position, segment, off)
	r.claimed = max(r.claimed, h.Commit)
	return position, nil
}

// Cut voids all entries behind index, none of which may be committed. It returns the position
// of the cut's record.
func (r *RaftLog) Cut(index uint64) (position uint64, err error) {
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.room(int64(len(r.cutRec))); err != nil {
		return 0, err
	}
	if index < r.line.base.index {
		return 0, fmt.Errorf("journal: %w: a cut behind entry %d: %w", ErrOrder, index, ErrCompacted)
	}
	h := RaftHead{Index: index, Term: r.line.term(index)}
	if why := r.line.refuseCut(h); why != "" {
		return 0, fmt.Errorf("journal: %w: %s", ErrOrder, why)
	}
	payload := r.cutRec[HeadRoom:]
	binary.BigEndian.PutUint64(payload, h.Index)
	binary.BigEndian.PutUint64(payload[8:], h.Term)
	if position, err = j.add(r.cutRec[:], crc32.Checksum(payload, castagnoli), RaftCut); err != nil {
		return 0, err
	}
	r.line.cut(h)
	return position, nil
}

// Commit notes that the entries up to index are committed. The next record stores that; if
// none comes, a mark stores it when a segment ends, and when the log is idle or closed.
func (r *RaftLog) Commit(index uint64) {
	r.j.mu.Lock()
	r.note(index)
	r.j.mu.Unlock()
}

func (r *RaftLog) note(commit uint64) { r.line.commit = max(r.line.commit, min(commit, r.line.last)) }

// Remove removes segments that are not needed: the owner has the records up to position
// elsewhere, and no replica asks for entries up to index any more.
func (r *RaftLog) Remove(position, index uint64) error {
	j := r.j
	j.mu.Lock()
	if n := r.line.at(index + 1); n < 0 {
		position = 0
	} else {
		position = min(position, r.line.points[n].seq-1)
	}
	oldest := j.active.index
	for i, o := range j.old {
		if j.endOf(i) > position {
			oldest = o.index
			break
		}
	}
	r.line.forget(oldest)
	j.mu.Unlock()
	return j.Remove(position)
}

// Retained returns the newest entry without which the segments behind it still have so many
// bytes: what may be forgotten of a log of which that much is to be kept.
func (r *RaftLog) Retained(bytes int64) (index uint64) {
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	kept, oldest := j.active.end, j.active.index
	for i := len(j.old) - 1; i >= 0 && kept < bytes; i-- {
		kept, oldest = kept+j.old[i].bytes, j.old[i].index
	}
	if kept < bytes {
		return r.line.base.index
	}
	for _, p := range r.line.points {
		if p.segment >= oldest {
			return p.index - 1
		}
	}
	return r.line.base.index
}

// First is the index of the oldest entry that can be read.
func (r *RaftLog) First() uint64 { return r.ask(func(l *lineage) uint64 { return l.base.index + 1 }) }

// Last is the index of the newest entry, or First - 1 if there is none.
func (r *RaftLog) Last() uint64 { return r.ask(func(l *lineage) uint64 { return l.last }) }

// Committed is the index of the newest entry that is known to be committed.
func (r *RaftLog) Committed() uint64 { return r.ask(func(l *lineage) uint64 { return l.commit }) }

// Applied returns what OpenRaft is to be told by an owner that has everything up to an entry
// elsewhere. The entry is committed, and in the log or the one before its first. Position may be somewhat before that of
// the entry: what is read again is left out by its index.
func (r *RaftLog) Applied(index uint64) (Applied, error) {
	term, err := r.Term(index)
	if err != nil {
		return Applied{}, err
	}
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	a := Applied{Index: index, Term: term, Position: r.j.Last(), Committed: r.line.commit}
	if points := r.line.points; len(points) > 0 {
		a.Position = points[max(0, r.line.at(index))].seq - 1
	}
	return a, nil
}

func (r *RaftLog) ask(what func(*lineage) uint64) uint64 {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	return what(&r.line)
}

// Term returns the term of an entry from First - 1 to Last.
func (r *RaftLog) Term(index uint64) (uint64, error) {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	switch l := &r.line; {
	case index < l.base.index:
		return 0, ErrCompacted
	case index > l.last:
		return 0, fmt.Errorf("journal: %w: entry %d, the log ends with entry %d", ErrOrder, index, l.last)
	default:
		return l.term(index), nil
	}
}

// Position is the position of the newest record.
func (r *RaftLog) Position() uint64 { return r.j.Last() }

// Synced is the position up to which all records are fsynced.
func (r *RaftLog) Synced() uint64 { return r.j.Synced() }

// Durable is the position up to which all records are durable, by the policy.
func (r *RaftLog) Durable() uint64 { return r.j.Durable() }

// Sync waits until all records up to position survive a loss of power.
func (r *RaftLog) Sync(position uint64) error { return r.j.Sync(position) }

// Rotate has later records go to a new segment.
func (r *RaftLog) Rotate() error { return r.j.Rotate() }

// SetPolicy changes the policy; see Journal.SetPolicy.
func (r *RaftLog) SetPolicy(p Policy) error { return r.j.SetPolicy(p) }

// LinkTo is Journal.LinkTo, in positions.
func (r *RaftLog) LinkTo(dir string, from uint64) (last uint64, err error) {
	return r.j.LinkTo(dir, from)
}

// Stats returns the figures.
func (r *RaftLog) Stats() Stats { return r.j.Stats() }

// Err is nil, or says why the log takes no more records.
func (r *RaftLog) Err() error { return r.j.Err() }

// Close makes all records durable and ends the log.
func (r *RaftLog) Close() error { return errors.Join(r.reader.close(), r.j.Close()) }

// The form of a Raft log, version 2.

func (r *RaftLog) headerSize() int64 { return raftHeaderSize }

func (r *RaftLog) putHeader(b []byte, log uint32, index, first uint64) {
	l := &r.line
	raftBase{l.last, l.term(l.last), l.commit}.put(b, log, index, first)
	l.fresh = true
	r.claimed = max(r.claimed, l.commit)
}

func (r *RaftLog) claims() bool { return r.claimed < r.line.commit }

func (r *RaftLog) mark(payload []byte) (Kind, int) {
	binary.BigEndian.PutUint64(payload, r.line.commit)
	r.claimed = r.line.commit
	return RaftMark, raftMarkSize
}

func (r *RaftLog) keepsOld() bool { return true }
