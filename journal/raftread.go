package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Reading entries back by their index. The lineage has a point every 64 KiB, and
// one for the first entry of each segment and behind each cut. From a point on
// the entries follow each other in one file, up to the next point.

// StoredEntry is an entry of a Raft log as it was read back.
type StoredEntry struct {
	RaftHead
	Payload []byte
}

// Entries returns entries from lo on and before hi, whose payloads have at most maxBytes
// together; but at least one, if lo is before hi. The caller owns the result, and must not
// cut any of these entries meanwhile. An error wraps ErrCorrupt if an entry is damaged.
func (r *RaftLog) Entries(lo, hi, maxBytes uint64) ([]StoredEntry, error) {
	if lo >= hi {
		return nil, nil
	}
	r.j.mu.Lock()
	l := &r.line
	if lo <= l.base.index || hi > l.last+1 {
		defer r.j.mu.Unlock()
		if lo <= l.base.index {
			return nil, ErrCompacted
		}
		return nil, fmt.Errorf("journal: %w: entry %d, the log ends with entry %d", ErrOrder, hi-1, l.last)
	}
	points := slices.Clone(l.points[l.at(lo) : l.at(hi-1)+1])
	r.j.mu.Unlock()

	r.reader.mu.Lock()
	defer r.reader.mu.Unlock()
	var out []StoredEntry
	for i, p := range points {
		end := hi
		if i+1 < len(points) {
			end = points[i+1].index
		}
		more, err := r.reader.run(p, lo, end, &maxBytes, &out)
		if errors.Is(err, os.ErrNotExist) {
			return nil, ErrCompacted // it was removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("journal: reading entry %d back: segment %s, %w", lo+uint64(len(out)), segmentName(p.segment), err)
		}
		if !more {
			break
		}
	}
	return out, nil
}

// raftReader reads records of one segment at a time.
type raftReader struct {
	mu  sync.Mutex
	fs  FS
	dir string

	file    File
	segment uint64
	buf     []byte // of the segment, from off on
	off     int64
}

// run appends to out those entries from lo on and before end that follow p. more reports
// whether there is room for more.
func (r *raftReader) run(p point, lo, end uint64, room *uint64, out *[]StoredEntry) (more bool, err error) {
	if err := r.open(p.segment); err != nil {
		return false, err
	}
	for index, off := p.index, p.off; index < end; {
		rec, h, err := r.record(off)
		if err != nil {
			return false, fmt.Errorf("offset %d: %w", off, err)
		}
		off += h.size()
		if h.kind != RaftEntry {
			continue // a mark
		}
		var e StoredEntry
		if why := e.parse(h.kind, rec); why != "" || e.Index != index {
			return false, fmt.Errorf("offset %d: %w: entry %d is not there", off-h.size(), ErrCorrupt, index)
		}
		index++
		if e.Index < lo {
			continue
		}
		payload := rec[RaftRoom:]
		if n := uint64(len(payload)); n > *room && len(*out) > 0 {
			return false, nil
		} else {
			*room -= min(n, *room)
		}
		e.Payload = append(make([]byte, 0, len(payload)), payload...)
		*out = append(*out, e)
	}
	return true, nil
}

// record returns the record at off. It is valid until the next call.
func (r *raftReader) record(off int64) ([]byte, head, error) {
	b, err := r.at(off, HeadRoom)
	if err != nil {
		return nil, head{}, err
	}
	h, ok := parse(b)
	if !ok || h.kind.of() != raftVersion {
		return nil, h, fmt.Errorf("%w: no record begins here", ErrCorrupt)
	}
	if b, err = r.at(off, HeadRoom+int64(h.length)); err != nil {
		return nil, h, err
	}
	if sumOf(b, h.kind) != h.sum {
		return nil, h, fmt.Errorf("%w: the record's checksum is wrong", ErrCorrupt)
	}
	return b, h, nil
}

var errShort = fmt.Errorf("%w: the file ends before the record", ErrCorrupt)

// at returns n bytes from off on.
func (r *raftReader) at(off, n int64) ([]byte, error) {
	if off >= r.off && off+n <= r.off+int64(len(r.buf)) {
		return r.buf[off-r.off:][:n], nil
	}
	if n > MaxPayload {
		return nil, errShort
	}
	want := max(n, pointBytes)
	if n > pointBytes { // a damaged length must not allocate that much
		if size, err := r.file.Size(); err != nil || off+n > size {
			return nil, errors.Join(err, errShort)
		}
	}
	r.buf = slices.Grow(r.buf[:0], int(want))[:want]
	m, err := r.file.ReadAt(r.buf, off)
	r.buf, r.off = r.buf[:m], off
	if int64(m) < n {
		if err == io.EOF {
			err = errShort
		}
		return nil, err
	}
	return r.buf[:n], nil
}

// open opens a segment, and discards the buffer: the segment may have grown.
func (r *raftReader) open(segment uint64) error {
	r.buf = r.buf[:0]
	if cap(r.buf) > 1<<20 {
		r.buf = nil
	}
	if r.file != nil && r.segment == segment {
		return nil
	}
	if err := r.closeFile(); err != nil {
		return err
	}
	f, err := r.fs.Open(filepath.Join(r.dir, segmentName(segment)))
	if err == nil {
		r.file, r.segment = f, segment
	}
	return err
}

func (r *raftReader) closeFile() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

func (r *raftReader) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closeFile()
}
