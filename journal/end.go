package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync/atomic"
)

// The end file tells how far the log had got. Without it a log whose newest segments were
// removed, cut or replaced by older ones would be as valid as a log that never had more
// records. The end file is beside the log's directory, so that it survives the loss of the
// directory. FORMAT.md has its bytes, docs/adr/0021-journal-end.md the reasons.
//
// The end file claims only what an fsync of the log has made durable. So it is right
// whichever of its writes a crash keeps, and nothing has to wait for an fsync of the end
// file: it is written after each fsync of the log, before any caller learns of that fsync,
// and fsynced about once a second.

const (
	endMagic   = "RDBTJEND"
	endVersion = 1
	endSize    = 64  // of a claim
	endSlot    = 512 // one sector for each of the two claims
)

// EndSuffix is appended to the name of the log's directory for the name of the end file.
const EndSuffix = ".end"

// end is a claim: every record up to synced is durable, and the log reached
// offset off of the segment with that index.
type end struct {
	log           uint32 // the log's number; 0 if it is not known
	synced, index uint64
	off           int64
}

func (e end) String() string {
	return fmt.Sprintf("all up to record %d had been synced, the last of it at offset %d of segment %s", e.synced, e.off, segmentName(e.index))
}

func (e end) put(b []byte) {
	clear(b[:endSize])
	copy(b, endMagic)
	binary.BigEndian.PutUint32(b[8:], endVersion)
	binary.BigEndian.PutUint32(b[12:], e.log)
	binary.BigEndian.PutUint64(b[16:], e.synced)
	binary.BigEndian.PutUint64(b[24:], e.index)
	binary.BigEndian.PutUint64(b[32:], uint64(e.off))
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

func parseEnd(b []byte) (e end, ok bool, err error) {
	if string(b[:8]) != endMagic || crc32.Checksum(b[:60], castagnoli) != binary.BigEndian.Uint32(b[60:]) {
		return e, false, nil
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != endVersion {
		return e, false, fmt.Errorf("%w: its version is %d, this program knows %d: use the program that wrote it", ErrVersion, v, endVersion)
	}
	return end{
		log: binary.BigEndian.Uint32(b[12:]), synced: binary.BigEndian.Uint64(b[16:]),
		index: binary.BigEndian.Uint64(b[24:]), off: int64(binary.BigEndian.Uint64(b[32:])),
	}, true, nil
}

func endPath(dir string) string { return filepath.Clean(dir) + EndSuffix }

// readEnd reads the end file of the log in dir. exists is false if there is no such file:
// then nothing is claimed. older is the slot for the next claim. An error wraps ErrCorrupt
// if the file has no valid claim.
func readEnd(fs FS, dir string) (e end, older int, exists bool, err error) {
	path := endPath(dir)
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return e, 0, false, nil
	}
	if err != nil {
		return e, 0, true, fmt.Errorf("journal: opening %s: %w", path, err)
	}
	defer f.Close()
	valid := false
	err = ReadSlots(f, endSize, endSlot, func(slot int, b []byte) error {
		c, ok, err := parseEnd(b)
		if ok && (!valid || c.synced >= e.synced) {
			e, older, valid = c, 1-slot, true
		}
		return err
	})
	if err != nil {
		return e, 0, true, fmt.Errorf("journal: reading %s: %w", path, err)
	}
	if !valid {
		return e, 0, true, fmt.Errorf("%w: %s, offset 0: no valid claim: the file is damaged", ErrCorrupt, path)
	}
	return e, older, true, nil
}

// writeEnd replaces the end file, atomically and durably.
func writeEnd(fs FS, dir string, e end) error {
	path := endPath(dir)
	var b [2 * endSlot]byte
	e.put(b[:])
	e.put(b[endSlot:])
	if err := ReplaceFile(fs, path, b[:]); err != nil {
		return fmt.Errorf("journal: making %s: %w", path, err)
	}
	return nil
}

// endFile is the end file of an open log. One goroutine at a time calls claim; flush may be
// called concurrently.
type endFile struct {
	path  string
	file  File
	slot  int // for the next claim
	dirty atomic.Bool
	buf   [endSize]byte
}

// openEnd opens or makes the end file of a log that was read, and writes the claim e.
func openEnd(c *cursor, e end) (*endFile, error) {
	if !c.ends {
		if err := writeEnd(c.fs, c.dir, e); err != nil {
			return nil, err
		}
	}
	f := &endFile{path: endPath(c.dir), slot: c.older}
	var err error
	if f.file, err = c.fs.OpenForWrite(f.path); err != nil {
		return nil, fmt.Errorf("journal: opening %s: %w", f.path, err)
	}
	if c.ends {
		if err := f.claim(e); err != nil {
			return nil, errors.Join(err, f.file.Close())
		}
	}
	return f, nil
}

// claim writes a claim over the older one.
func (f *endFile) claim(e end) error {
	e.put(f.buf[:])
	if _, err := f.file.WriteAt(f.buf[:], int64(f.slot)*endSlot); err != nil {
		return fmt.Errorf("journal: writing %s: %w", f.path, err)
	}
	f.slot = 1 - f.slot
	f.dirty.Store(true)
	return nil
}

// flush fsyncs the claims.
func (f *endFile) flush() error {
	if !f.dirty.Swap(false) {
		return nil
	}
	if err := f.file.Sync(); err != nil {
		f.dirty.Store(true)
		return fmt.Errorf("journal: fsync of %s: %w", f.path, err)
	}
	return nil
}
