package journal

import (
	"errors"
	"path/filepath"
)

// Files of two slots. A small state that changes often is in a file twice, each copy with a
// checksum: a write that a crash interrupts damages one slot, and the other one is valid. The
// end file is such a file, and so is that of replica/state.

// ReplaceFile writes a file atomically and durably: after a crash the file has its old contents
// or data.
func ReplaceFile(fs FS, path string, data []byte) error {
	f, err := fs.Create(path + ".tmp")
	if err == nil {
		if _, err = f.WriteAt(data, 0); err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = fs.Rename(path+".tmp", path)
	}
	if err == nil {
		err = fs.SyncDir(filepath.Dir(path))
	}
	return err
}

// ReadSlots calls visit with each of the two slots of a file: size bytes, from 0 and from
// distance on. A slot behind the end of the file is left out. The bytes are valid during the
// call. An error of visit ends ReadSlots.
func ReadSlots(f File, size, distance int64, visit func(slot int, b []byte) error) error {
	end, err := f.Size()
	if err != nil {
		return err
	}
	b := make([]byte, size)
	for slot := range 2 {
		off := int64(slot) * distance
		if off+size > end {
			break
		}
		if n, err := f.ReadAt(b, off); n < len(b) {
			return err
		}
		if err := visit(slot, b); err != nil {
			return err
		}
	}
	return nil
}
