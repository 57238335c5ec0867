package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"redoubt/engine/local"
	"redoubt/keyspace"
)

// redoubt backup and restore: copies of a store. The file REDOUBT, which marks a
// directory as a store, is created last, when everything else is on disk. So an
// interrupted copy is never taken for a store.

func runBackup(args []string, out, log io.Writer) (err error) {
	f := flags("backup", log)
	dir := f.String("dir", "", "the server's `directory`, or a store's: a checkpoint, say")
	to := f.String("to", "", "the `directory` to be made, or the file if its name ends in .tar")
	if err := parse(f, args, "dir", "to"); err != nil {
		return err
	}
	if exists(*to) {
		return fmt.Errorf("%s exists; give another name, or remove it", *to)
	}
	i, err := inspect(*dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	var target sink
	if strings.HasSuffix(*to, ".tar") {
		target, err = newTarSink(*to)
	} else {
		target, err = newDirSink(*to)
	}
	if err != nil {
		return err
	}
	p := newProgress(log, 10*time.Second)
	n, err := copyStore(i, target, p, true)
	p.end()
	if err == nil {
		err = target.finish()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("no backup was made: %w", err), target.abandon())
	}
	fmt.Fprintf(out, "%s: %s\n", *to, size(n))
	return nil
}

func runRestore(args []string, out, log io.Writer) (err error) {
	f := flags("restore", log)
	from := f.String("from", "", "the `backup`, a directory or a .tar file")
	dir := f.String("dir", "", "the server's `directory`; the store goes to local in it")
	if err := parse(f, args, "from", "dir"); err != nil {
		return err
	}
	to := filepath.Join(*dir, "local")
	if exists(*dir, formatFile) {
		return fmt.Errorf("%s is a store itself; give the directory of a server", *dir)
	}
	if list, err := os.ReadDir(to); err == nil && len(list) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is not empty; move it away first", to)
	}
	target, err := newDirSink(to)
	if err != nil {
		return err
	}
	p := newProgress(log, 10*time.Second)
	n, err := copyBackup(*from, target, p)
	p.end()
	if err == nil {
		err = target.sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("nothing was restored: %w", err), target.abandon())
	}
	list := &findings{out: out, limit: 100}
	if err := checkCopy(to, list, p); err != nil {
		return err
	}
	if list.files > 0 {
		return fmt.Errorf("the backup is damaged; what could be copied is in %s, without the file %s, so that no server takes it for a store", to, formatFile)
	}
	if err := target.finish(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\n", to, size(n))
	if list.rows > 0 {
		return fmt.Errorf("%s was restored as it was, with %s", to, inconsistencies(list.rows))
	}
	return nil
}

// checkCopy checks a copy that has no file REDOUBT yet.
func checkCopy(dir string, list *findings, p *progress) error {
	i, err := local.Inspect(local.InspectOptions{Dir: dir, Unit: keyspace.Unit, Unfinished: true})
	if err != nil {
		return err
	}
	checkStore(i, list, p)
	list.end()
	return i.Close()
}

// sink takes the files of a store.
type sink interface {
	add(name string, size int64, r io.Reader) error
	// finish makes the copy durable, and then valid.
	finish() error
	// abandon removes what was made so far.
	abandon() error
}

// copyStore copies a store. With verify it checks the checksums of journal and tables.
func copyStore(i *local.Inspection, target sink, p *progress, verify bool) (done int64, err error) {
	if verify {
		j, err := i.Journal(nil)
		if err != nil {
			return 0, err
		}
		if len(j.Wrong) > 0 {
			return 0, fmt.Errorf("the journal is corrupt: %v; see: redoubt check --dir %s", j.Wrong[0], i.Dir())
		}
	}
	files, err := i.Files()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, f := range files {
		total += f.Size
	}
	for _, f := range files {
		if f.Table != "" && verify {
			if wrong := i.CheckTable(f.Table, f.Size); len(wrong) > 0 {
				return done, fmt.Errorf("the table %s is corrupt: %s; see: redoubt check --dir %s", f.Path, wrong[0], i.Dir())
			}
		}
		err := copyFile(filepath.Join(i.Dir(), filepath.FromSlash(f.Path)), f.Size, func(r io.Reader) error {
			return target.add(f.Path, f.Size, &counter{r, func(n int) { done += int64(n); p.bytes("copied", done, total) }})
		})
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func copyFile(name string, size int64, take func(io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return take(io.LimitReader(f, size))
}

// counter is a Reader that calls tell with the size of each read.
type counter struct {
	r    io.Reader
	tell func(n int)
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.tell(n)
	return n, err
}

// copyBackup copies the files of a backup, a directory or an archive.
func copyBackup(from string, target sink, p *progress) (done int64, err error) {
	info, err := os.Stat(from)
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		i, err := inspect(from)
		if err != nil {
			return 0, err
		}
		done, err = copyStore(i, target, p, false)
		return done, errors.Join(err, i.Close())
	}
	f, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	archive := tar.NewReader(&counter{f, func(n int) { done += int64(n); p.bytes("copied", done, info.Size()) }})
	whole := false
	short := fmt.Errorf("%s ends too early: it is not a whole backup", from)
	for {
		h, err := archive.Next()
		switch {
		case err == io.EOF && whole:
			return done, nil
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return done, short
		case err != nil:
			return done, fmt.Errorf("%s: %w", from, err)
		case h.Typeflag != tar.TypeReg || !ours.MatchString(h.Name) || whole:
			return done, fmt.Errorf("%s has a file %q, which is none of a store", from, h.Name)
		}
		if err := target.add(h.Name, h.Size, archive); errors.Is(err, io.ErrUnexpectedEOF) {
			return done, short
		} else if err != nil {
			return done, err
		}
		whole = h.Name == formatFile // it is the last one
	}
}

// ours matches the names of the files of a store.
var ours = regexp.MustCompile(`^(REDOUBT|journal\.end|(journal|store)/[A-Za-z0-9][A-Za-z0-9._-]*)$`)

// dirSink makes a directory.
type dirSink struct {
	dir  string
	made string // the uppermost directory that was created
}

func newDirSink(dir string) (*dirSink, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &dirSink{dir: abs}
	for at := abs; !exists(at); at = filepath.Dir(at) {
		s.made = at
	}
	for _, name := range []string{"journal", "store"} {
		if err := os.MkdirAll(filepath.Join(abs, name), 0o700); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *dirSink) path(name string) string {
	if name == formatFile {
		name += ".tmp"
	}
	return filepath.Join(s.dir, filepath.FromSlash(name))
}

func (s *dirSink) add(name string, size int64, r io.Reader) error {
	f, err := os.OpenFile(s.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, r)
	if err == nil && n < size {
		err = fmt.Errorf("%s: %w", name, io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// sync makes everything durable; REDOUBT has still another name.
func (s *dirSink) sync() error {
	err := errors.Join(syncDir(filepath.Join(s.dir, "journal")), syncDir(filepath.Join(s.dir, "store")))
	for at := s.dir; ; at = filepath.Dir(at) {
		err = errors.Join(err, syncDir(at))
		if s.made == "" || len(at) < len(s.made) {
			return err
		}
	}
}

func (s *dirSink) finish() error {
	if err := s.sync(); err != nil {
		return err
	}
	if err := os.Rename(s.path(formatFile), filepath.Join(s.dir, formatFile)); err != nil {
		return err
	}
	return syncDir(s.dir)
}

func (s *dirSink) abandon() error {
	if s.made != "" {
		return os.RemoveAll(s.made)
	}
	err := errors.Join(os.RemoveAll(filepath.Join(s.dir, "journal")), os.RemoveAll(filepath.Join(s.dir, "store")))
	for _, name := range []string{formatFile, endFile} {
		if e := os.Remove(s.path(name)); !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// tarSink makes an archive, under another name until it is complete.
type tarSink struct {
	name string
	f    *os.File
	w    *tar.Writer
	now  time.Time
}

const unfinished = ".part"

func newTarSink(name string) (*tarSink, error) {
	f, err := os.OpenFile(name+unfinished, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &tarSink{name, f, tar.NewWriter(f), time.Now()}, nil
}

func (s *tarSink) add(name string, size int64, r io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Clean(name), Size: size, Mode: 0o600, ModTime: s.now}
	if err := s.w.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(s.w, r)
	if err == nil && n < size {
		err = fmt.Errorf("%s: %w", name, io.ErrUnexpectedEOF)
	}
	return err
}

func (s *tarSink) finish() error {
	err := s.w.Close()
	if err == nil {
		err = s.f.Sync()
	}
	if err = errors.Join(err, s.f.Close()); err != nil {
		return err
	}
	if err := os.Rename(s.name+unfinished, s.name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.name))
}

func (s *tarSink) abandon() error {
	_ = s.f.Close() // the backup has failed already
	return os.Remove(s.name + unfinished)
}
