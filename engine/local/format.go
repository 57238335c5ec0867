package local

// The file REDOUBT names the program, the format version and the engine of a
// store's directory. It is text, one word and its value a line:
//
//	redoubt store
//	format 1
//	engine local
//	journal.end yes
//
// The last line is there since the store has a file journal.end, which tells how
// far the journal had got; the first version had none. A program ignores lines that it
// does not know.
//
// REDOUBT is the first file made in a new directory (written to REDOUBT.tmp, synced,
// renamed, directory synced), so a directory with anything else in it and
// without REDOUBT is not a store. A crash at any moment of creation leaves a
// directory that is empty, or holds only files listed in creationLeftovers, or has REDOUBT:
// each of them can be opened again.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/journal"
)

const (
	formatFile    = "REDOUBT"
	formatMagic   = "redoubt store"
	formatVersion = 1
	formatEngine  = "local"
)

// creationLeftovers are the names that a directory may hold without being a store: what a
// crash during creation leaves, and what a fresh file system has.
var creationLeftovers = map[string]bool{formatFile + ".tmp": true, "LOCK": true, "lost+found": true}

// endFile tells how far the journal had got: see journal/end.go.
const endFile = journalDir + journal.EndSuffix

// checkFormat reports whether dir already holds a store, and returns an error if dir
// belongs to another program, format version or engine.
func checkFormat(fs vfs.FS, dir string) (exists bool, err error) {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", dir, err)
	}
	foreign := ""
	for _, name := range names {
		if name == formatFile {
			_, err := readFormat(fs, dir)
			return true, err
		}
		if !creationLeftovers[name] {
			foreign = name
		}
	}
	if foreign != "" {
		return false, fmt.Errorf("%w: directory %s has files (%s, for one) but no file %s, so it was not made by Redoubt; give an empty directory",
			engine.ErrFormat, dir, foreign, formatFile)
	}
	return false, nil
}

// readFormat reads the file REDOUBT. ended reports whether the store has an end file.
func readFormat(fs vfs.FS, dir string) (ended bool, err error) {
	path := fs.PathJoin(dir, formatFile)
	f, err := fs.Open(path)
	if err != nil {
		return false, fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", path, err)
	}
	lines := strings.Split(string(text), "\n")
	if lines[0] != formatMagic {
		return false, fmt.Errorf("%w: %s does not begin with %q; the directory %s is not a Redoubt store, give another one",
			engine.ErrFormat, path, formatMagic, dir)
	}
	fields := map[string]string{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, " ")
		fields[name] = value
	}
	version, err := strconv.Atoi(fields["format"])
	switch {
	case err != nil || version < 1:
		return false, fmt.Errorf("%w: %s has no valid format version (%q); restore it from a backup",
			engine.ErrFormat, path, fields["format"])
	case version > formatVersion:
		return false, fmt.Errorf("%w: directory %s has format %d, this program knows up to %d; open it with a newer version of Redoubt",
			engine.ErrFormat, dir, version, formatVersion)
	case fields["engine"] != formatEngine:
		return false, fmt.Errorf("%w: directory %s was written by the engine %q, not %q; start with that engine or give another directory",
			engine.ErrFormat, dir, fields["engine"], formatEngine)
	}
	return fields[endFile] == "yes", nil
}

// writeFormat writes the file REDOUBT in an existing directory, atomically. ended says
// that the store has an end file.
func writeFormat(fs vfs.FS, dir string, ended bool) error {
	path := fs.PathJoin(dir, formatFile)
	text := fmt.Sprintf("%s\nformat %d\nengine %s\n", formatMagic, formatVersion, formatEngine)
	if ended {
		text += endFile + " yes\n"
	}
	f, err := fs.Create(path+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	_, err = f.Write([]byte(text))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := fs.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("renaming %s.tmp: %w", path, err)
	}
	return syncDir(fs, dir)
}

// checkEnd returns an error if the store should have an end file and it is missing.
func checkEnd(fs vfs.FS, dir string, ended bool) error {
	path := fs.PathJoin(dir, endFile)
	if _, err := fs.Stat(path); !ended || err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking for %s: %w", path, err)
	}
	return fmt.Errorf("%w: %s is missing, which tells how far the journal had got: put it back, restore a backup, or go by what the journal itself says with \"redoubt journal --salvage\"",
		engine.ErrCorrupt, path)
}

// makeDir makes a directory and its parents, and syncs them to outlive a power cut.
func makeDir(fs vfs.FS, dir string) error {
	var missing []string
	for at := dir; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); err == nil || fs.PathDir(at) == at {
			break
		}
		missing = append(missing, at)
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating directory %s: %w", dir, err)
	}
	for _, at := range missing {
		if err := syncDir(fs, fs.PathDir(at)); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("syncing directory %s: %w", dir, err)
	}
	return nil
}
