package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Reading. A cursor walks the records of all segments in order and stops at the first place
// that is no valid record. That place is a torn tail or corruption. To tell which, every
// record claims up to which sequence number the log was on disk when the record was written,
// and so does the end file. If such a claim covers the record that should be at the bad
// place, the disk has lost this record: that is corruption. If no claim does, the record was
// never acknowledged as durable: the tail is torn, and is cut off.

// Entry is a record as it was read.
type Entry struct {
	File    string // name of the segment
	Index   uint64 // of the segment
	Offset  int64
	Seq     uint64 // of a mark: of the record before it
	Synced  uint64 // up to here the log was on disk when the record was written
	Kind    Kind
	Raft    RaftHead // of kinds RaftEntry, RaftCut and RaftMark
	Payload []byte   // of a commit, or of another entry; valid until the next record is read
}

// Rows reports whether the record is a commit of the store.
func (e Entry) Rows() bool {
	return e.Kind == Data || e.Kind == RaftEntry && e.Raft.Type == EntryRows
}

// damage is a place at which a cursor finds no valid record.
type damage struct {
	i    int    // segment
	name string // its name
	off  int64
	seq  uint64 // of the record that should be there
	why  string
	// proof, if it is not empty, is why this is no torn tail.
	proof string
}

func (d *damage) Error() string {
	return fmt.Sprintf("segment %s, offset %d, record %d: %s", d.name, d.off, d.seq, d.why)
}

// found is a segment file.
type found struct {
	name  string
	index uint64
	size  int64
	first uint64
	head  segmentHead
	bad   error // what is wrong with its header, or nil
	end   int64 // behind its last good record, once it was read
}

const chunk = 1 << 20

type cursor struct {
	fs   FS
	dir  string
	segs []*found // by index
	log  uint32   // the log's number, 0 if no header could tell it
	from uint64   // the records up to here need not be there

	end    end // what the end file claims
	older  int // its slot for the next claim
	ends   bool
	endErr error // why the end file has no valid claim

	i     int // where the next record is
	off   int64
	want  uint64 // the sequence number that it must have; 0 for any
	begun bool   // the segment before i was read
	ended bool   // the end of the log was judged
	raft  *lineage

	file   File // of segment opened, with some bytes of it from base on
	opened int
	buf    []byte
	base   int64
	onRead func(i int, off int64)
}

// load lists the segments and reads their headers and the end file. A directory
// that is not there has no segments.
func load(fs FS, dir string, from uint64) (*cursor, error) {
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("journal: listing %s: %w", dir, err)
	}
	c := &cursor{fs: fs, dir: dir, from: from, opened: -1, raft: &lineage{}}
	if c.end, c.older, c.ends, err = readEnd(fs, dir); errors.Is(err, ErrCorrupt) {
		c.endErr = err
	} else if err != nil {
		return nil, err
	}
	for _, name := range names {
		if index, ok := parseName(name); ok {
			c.segs = append(c.segs, &found{name: name, index: index})
		}
	}
	slices.SortFunc(c.segs, func(a, b *found) int { return cmp.Compare(a.index, b.index) })
	for i, s := range c.segs {
		if err := c.open(i); err != nil {
			return nil, errors.Join(err, c.close())
		}
		if s.size < headerSize {
			s.bad = errHeader
			continue
		}
		b, err := c.at(i, 0, min(s.size, raftHeaderSize))
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		s.head, s.bad = parseSegmentHeader(b, s.index)
		s.first = s.head.first
		log := s.head.log
		switch {
		case errors.Is(s.bad, ErrVersion):
			return nil, errors.Join(fmt.Errorf("journal: segment %s: %w", s.name, s.bad), c.close())
		case s.bad == nil && c.log == 0:
			c.log = log
		case s.bad == nil && c.log != log:
			s.bad = errors.New("the segment belongs to another log")
		}
	}
	return c, nil
}

// start moves to the newest segment from which on there is every record behind from.
func (c *cursor) start() {
	c.want = c.from + 1
	for i, s := range c.segs {
		if s.bad == nil && s.first <= c.from+1 {
			c.i, c.want = i, s.first
		}
	}
}

// next returns the next record; io.EOF at the end; a *damage at a bad place, and at the end if
// records behind it are known to be missing.
func (c *cursor) next() (Entry, error) {
	e, err := c.read()
	if err == io.EOF && !c.ended {
		c.ended = true
		if d := c.missing(); d != nil {
			return e, d
		}
	}
	return e, err
}

// missing returns what is known to be missing behind the end of the log, or nil.
func (c *cursor) missing() *damage {
	last := c.from
	if c.begun {
		last = max(c.want, 1) - 1
	}
	d := &damage{i: len(c.segs), name: segmentName(max(c.end.index, 1)), seq: last + 1, why: "the log has no records"}
	for i := len(c.segs) - 1; i >= 0; i-- {
		if s := c.segs[i]; s.end > 0 {
			d.name, d.off, d.why = s.name, s.end, "the log ends here"
			break
		}
	}
	name := filepath.Base(endPath(c.dir))
	switch {
	case c.log != 0 && c.end.log != 0 && c.log != c.end.log && c.end.synced > c.from:
		d.proof = fmt.Sprintf("%s is about another log: the segments were replaced by those of another store", name)
	case c.end.synced > max(last, c.from):
		d.proof = fmt.Sprintf("%s says that %v", name, c.end)
		if !slices.ContainsFunc(c.segs, func(s *found) bool { return s.index == c.end.index }) {
			d.proof += ", which is missing"
		}
	case last < c.from:
		d.proof = fmt.Sprintf("the tables have everything up to record %d, and the log had been synced before they got it", c.from)
	default:
		return nil
	}
	return d
}

// read returns the next record, with io.EOF at the end of what there is.
func (c *cursor) read() (Entry, error) {
	for c.i < len(c.segs) {
		s := c.segs[c.i]
		if c.off == 0 {
			if spare, err := c.onlySpares(); err != nil || spare {
				return Entry{}, orEOF(err)
			}
			if why := c.misplaced(s); why != "" {
				return Entry{}, c.damaged(why)
			}
			if why := c.raft.enter(s); why != "" {
				return Entry{}, c.inconsistent(why)
			}
			c.off, c.want, c.begun, s.end = s.head.size(), s.first, true, s.head.size()
		}
		h, rec, why, err := c.record(c.i, c.off)
		if err != nil {
			return Entry{}, err
		}
		if why != "" {
			if empty, err := c.empty(c.i, c.off); err != nil {
				return Entry{}, err
			} else if !empty {
				return Entry{}, c.damaged(why)
			}
			c.i, c.off = c.i+1, 0
			continue
		}
		e := Entry{File: s.name, Index: s.index, Offset: c.off, Seq: h.seq, Synced: h.synced, Kind: h.kind, Payload: rec[h.kind.room():]}
		follows := h.seq + 1
		if h.kind.numbered() && h.seq != c.want || !h.kind.numbered() && follows != c.want {
			return Entry{}, c.damaged(fmt.Sprintf("record %d is here", h.seq))
		}
		if h.kind.of() == raftVersion {
			why := e.Raft.parse(h.kind, rec)
			if why == "" {
				why = c.raft.take(&e)
			}
			if why != "" {
				return Entry{}, c.inconsistent(why)
			}
		}
		c.off, c.want = c.off+h.size(), follows
		s.end = c.off
		return e, nil
	}
	return Entry{}, io.EOF
}

// misplaced returns why a segment cannot follow the segments read so far, or "".
func (c *cursor) misplaced(s *found) string {
	switch {
	case s.bad != nil:
		return s.bad.Error()
	case c.begun && s.index != c.segs[c.i-1].index+1:
		return fmt.Sprintf("segment %s, which stood before this one, is missing", segmentName(s.index-1))
	case c.want != s.first && c.want != 0 && c.begun:
		return fmt.Sprintf("the segment begins with record %d", s.first)
	case c.want != s.first && c.want != 0:
		return fmt.Sprintf("the log begins with record %d, older segments are missing", s.first)
	}
	return ""
}

// inconsistent returns the damage of a valid record that cannot follow the records before it.
func (c *cursor) inconsistent(why string) *damage {
	d := c.damaged(why)
	d.proof = "this place is whole, so it is no write that was cut short"
	return d
}

// firstRaft returns the first segment of a Raft log, or nil.
func (c *cursor) firstRaft() *found {
	for _, s := range c.segs {
		if s.bad == nil && s.head.version == raftVersion {
			return s
		}
	}
	return nil
}

func orEOF(err error) error {
	if err != nil {
		return err
	}
	return io.EOF
}

func (c *cursor) damaged(why string) *damage {
	return &damage{i: c.i, name: c.segs[c.i].name, off: c.off, seq: c.want, why: why}
}

// onlySpares reports whether this and all later files were never used.
func (c *cursor) onlySpares() (bool, error) {
	for i := c.i; i < len(c.segs); i++ {
		if c.segs[i].bad == nil {
			return false, nil
		}
		if empty, err := c.empty(i, 0); err != nil || !empty {
			return false, err
		}
	}
	return true, nil
}

// record reads the record at a place. why is empty if it is valid; rec is the record without
// its padding.
func (c *cursor) record(i int, off int64) (h head, rec []byte, why string, err error) {
	rest := c.segs[i].size - off
	if rest < HeadRoom {
		return h, nil, "the file ends inside of a record's header", nil
	}
	b, err := c.at(i, off, HeadRoom)
	if err != nil {
		return h, nil, "", err
	}
	h, ok := parse(b)
	n := HeadRoom + int64(h.length)
	switch {
	case !ok || c.segs[i].bad == nil && h.kind.of() != c.segs[i].head.version:
		return h, nil, "no record begins here", nil
	case h.log != c.log && c.log != 0:
		return h, nil, "the record belongs to another log", nil
	case n > rest:
		return h, nil, "the record is longer than its file", nil
	}
	if b, err = c.at(i, off, min(h.size(), rest)); err != nil {
		return h, nil, "", err
	}
	if sumOf(b[:n], h.kind) != h.sum || !zeros(b[n:]) {
		return h, nil, "the record's checksum is wrong", nil
	}
	return h, b[:n:n], "", nil
}

// find looks for a valid record at or behind a place. It returns i past the
// last segment if there is none.
func (c *cursor) find(i int, off int64) (int, int64, head, error) {
	for ; i < len(c.segs); i, off = i+1, 0 {
		for off = max(off, headerSize); off+HeadRoom <= c.segs[i].size; off += align {
			if h, _, why, err := c.record(i, off); err != nil || why == "" {
				return i, off, h, err
			}
		}
	}
	return i, 0, head{}, nil
}

// witness searches the end file and the records behind d for a claim that covers the record
// which should be at d. It describes the claim, and returns "" if there is none.
func (c *cursor) witness(d *damage) (string, error) {
	switch {
	case d.proof != "":
		return d.proof, nil
	case d.seq > 0 && d.seq <= c.from:
		return fmt.Sprintf("the tables have everything up to record %d, and the log had been synced before they got it", c.from), nil
	case c.end.synced >= max(d.seq, 1) && (c.end.log == c.log || c.log == 0 || c.end.log == 0):
		return fmt.Sprintf("%s says that %v", filepath.Base(endPath(c.dir)), c.end), nil
	}
	for i, off := d.i, d.off; ; {
		at, where, h, err := c.find(i, off)
		if err != nil || at == len(c.segs) {
			return "", err
		}
		if h.synced >= max(d.seq, 1) {
			return fmt.Sprintf("segment %s, offset %d says that all up to %d had been synced", c.segs[at].name, where, h.synced), nil
		}
		i, off = at, where+h.size()
	}
}

// empty reports whether a segment has only zeros from off on.
func (c *cursor) empty(i int, off int64) (bool, error) {
	for size := c.segs[i].size; off < size; {
		b, err := c.at(i, off, min(chunk, size-off))
		if err != nil || !zeros(b) {
			return false, err
		}
		off += int64(len(b))
	}
	return true, nil
}

// at returns n bytes of a segment, which are valid until the next call. The segment must have
// as many.
func (c *cursor) at(i int, off, n int64) ([]byte, error) {
	if i == c.opened && off >= c.base && off+n <= c.base+int64(len(c.buf)) {
		return c.buf[off-c.base:][:n], nil
	}
	if err := c.open(i); err != nil {
		return nil, err
	}
	n, size := max(n, min(chunk, c.segs[i].size-off)), n
	c.buf = slices.Grow(c.buf[:0], int(n))[:n]
	c.base = off
	if m, err := c.file.ReadAt(c.buf, off); int64(m) < n {
		c.buf = c.buf[:0]
		return nil, fmt.Errorf("journal: reading %d bytes at offset %d of %s: %w", n, off, c.segs[i].name, err)
	}
	if c.onRead != nil {
		c.onRead(i, off+n)
	}
	return c.buf[:size], nil
}

func (c *cursor) open(i int) error {
	if i == c.opened {
		return nil
	}
	if err := c.close(); err != nil {
		return err
	}
	f, err := c.fs.Open(c.path(i))
	if err != nil {
		return fmt.Errorf("journal: opening %s: %w", c.segs[i].name, err)
	}
	c.file, c.opened = f, i
	if c.segs[i].size, err = f.Size(); err != nil {
		return fmt.Errorf("journal: size of %s: %w", c.segs[i].name, err)
	}
	return nil
}

func (c *cursor) path(i int) string { return filepath.Join(c.dir, c.segs[i].name) }

func (c *cursor) close() error {
	if c.opened < 0 {
		return nil
	}
	c.opened, c.buf = -1, c.buf[:0]
	return c.file.Close()
}
