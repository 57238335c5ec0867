package local

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// File is a file of a store, by its path inside of the directory.
type File struct {
	Path string
	Size int64 // how many bytes from its beginning a copy needs
	// Table is its name for CheckTable, if it is a table.
	Table string
}

// Files returns the files that a copy needs. The file REDOUBT is the last one.
func (i *Inspection) Files() (list []File, err error) {
	j, err := i.Journal(nil)
	if err != nil {
		return nil, err
	}
	names, err := i.fs.List(i.path(journalDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, ".jnl") {
			continue
		}
		size, err := i.used(i.path(journalDir, name), j.ends[name])
		if err != nil {
			return nil, err
		}
		if size > 0 {
			list = append(list, File{Path: journalDir + "/" + name, Size: size})
		}
	}
	if info, err := i.fs.Stat(i.path(endFile)); err == nil {
		list = append(list, File{Path: endFile, Size: info.Size()})
	} else if !errors.Is(err, os.ErrNotExist) { // a store of an older version has none
		return nil, err
	}
	db, err := i.tables()
	if err != nil {
		return nil, err
	}
	live, err := liveTables(db)
	if err != nil {
		return nil, err
	}
	if names, err = i.fs.List(i.path(storeDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(name string) bool { return name == lockFile || strings.HasSuffix(name, ".sst") })
	for _, name := range names {
		info, err := i.fs.Stat(i.path(storeDir, name))
		if err != nil {
			return nil, err
		}
		list = append(list, File{Path: storeDir + "/" + name, Size: info.Size()})
	}
	for _, t := range live {
		info, err := i.fs.Stat(i.path(storeDir, t.name))
		if err != nil {
			return nil, err
		}
		list = append(list, File{Path: storeDir + "/" + t.name, Size: info.Size(), Table: t.name})
	}
	info, err := i.fs.Stat(i.path(formatFile))
	if err != nil {
		return nil, err
	}
	return append(list, File{Path: formatFile, Size: info.Size()}), nil
}

// used is the length of a segment without the preallocated zeros behind its last record.
func (i *Inspection) used(path string, end int64) (int64, error) {
	f, err := i.readOnly.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	for size := info.Size(); size > end; {
		b := buf[:min(int64(len(buf)), size-end)]
		if _, err := f.ReadAt(b, size-int64(len(b))); err != nil {
			return 0, err
		}
		for n := len(b) - 1; n >= 0; n-- {
			if b[n] != 0 {
				end = size - int64(len(b)) + int64(n) + 1
				break
			}
		}
		size -= int64(len(b))
	}
	// A header or a record may end with zeros: both end at a multiple of 8.
	return min((end+7)&^7, info.Size()), nil
}
