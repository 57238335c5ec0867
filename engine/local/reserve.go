package local

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// reserve is disk space that is kept for the time when the disk is full: files of
// real blocks, which are removed one after the other as writes find no space. So
// deletes, and the compactions that free their space, can be written, and no write
// fails in the middle. When there is space again the files are made anew.
//
// A file is allocated under another name and then renamed: a file with its final
// name has its space.
type reserve struct {
	fs    vfs.FS
	dir   string
	piece int64 // bytes of one file

	mu   sync.Mutex
	left int // files 0 to left-1 exist
}

const (
	// reservePieces is the number of files.
	reservePieces = 16
	// The reserve has a share of the file system, up to mostReserve bytes.
	reserveShare = 32
	mostReserve  = 64 << 20
	leastPiece   = 64 << 10
	// allocating is the name of a file that does not have its space yet.
	allocating = "new"
)

// How many files of the reserve a kind of write leaves to more important writes. Without
// the journal nothing can be deleted, and a store whose MANIFEST cannot be written, or
// that cannot be opened, frees no space at all.
const (
	leftByTables  = 6
	leftByJournal = 3
	leftByMeta    = 0
)

// openReserve finds the existing files of a reserve. total is the size of the file
// system, 0 if that is not known. openReserve makes no files: see fill.
func openReserve(fs vfs.FS, dir string, total int64) (*reserve, error) {
	r := &reserve{fs: fs, dir: dir, piece: max(min(total/reserveShare, mostReserve)/reservePieces&^4095, leastPiece)}
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading directory %s: %w", dir, err)
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	for r.left < reservePieces && there[strconv.Itoa(r.left)] {
		delete(there, strconv.Itoa(r.left))
		r.left++
	}
	for name := range there { // above a gap, or half made
		if err := fs.Remove(fs.PathJoin(dir, name)); err != nil {
			return nil, fmt.Errorf("removing a file of the reserve: %w", err)
		}
	}
	return r, nil
}

func (r *reserve) bytes() int64 { return r.piece * reservePieces }

// missing is how many bytes the files take that are missing.
func (r *reserve) missing() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(reservePieces-r.left) * r.piece
}

// giveUp removes one file if more than leave files are left, and reports whether it did.
func (r *reserve) giveUp(leave int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left <= leave {
		return false
	}
	if err := r.fs.Remove(r.path(strconv.Itoa(r.left - 1))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false
	}
	r.left--
	return true
}

// fill makes the files that are missing.
func (r *reserve) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == reservePieces {
		return nil
	}
	if err := r.fs.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("creating directory %s: %w", r.dir, err)
	}
	for r.left < reservePieces {
		if err := r.allocate(r.piece); err != nil {
			return err
		}
		if err := r.fs.Rename(r.path(allocating), r.path(strconv.Itoa(r.left))); err != nil {
			return errors.Join(fmt.Errorf("naming a file of the reserve: %w", err), r.fs.Remove(r.path(allocating)))
		}
		r.left++
	}
	return nil
}

// probe returns an error if bytes cannot be allocated besides the reserve; quotas can be
// checked in no other way. On a file system without preallocation it checks nothing.
func (r *reserve) probe(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fs.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("creating directory %s: %w", r.dir, err)
	}
	if err := r.allocate(bytes); err != nil {
		return err
	}
	return r.fs.Remove(r.path(allocating))
}

// allocate makes the file named allocating.
func (r *reserve) allocate(bytes int64) (err error) {
	f, err := r.fs.Create(r.path(allocating), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating a file of the reserve: %w", err)
	}
	if err = f.Preallocate(0, bytes); errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		err = nil
		if bytes == r.piece { // a probe does not write
			err = writeNoise(f, bytes)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("allocating %s: %w", r.path(allocating), err), r.fs.Remove(r.path(allocating)))
	}
	return nil
}

// writeNoise fills a file with bytes that no file system compresses.
func writeNoise(f vfs.File, bytes int64) error {
	block := make([]byte, 64<<10)
	state := uint64(bytes) | 1
	for ; bytes > 0; bytes -= int64(len(block)) {
		for i := range block {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			block[i] = byte(state)
		}
		if _, err := f.Write(block[:min(int64(len(block)), bytes)]); err != nil {
			return err
		}
	}
	return f.Sync() // delayed allocation may fail later
}

func (r *reserve) path(name string) string { return r.fs.PathJoin(r.dir, name) }
