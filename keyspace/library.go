package keyspace

import (
	"errors"
	"fmt"

	"redoubt/engine"
)

// Libraries of functions: each is a system row, its name in the key and its source
// as the value. They belong to no database, and no command about keys touches
// them.
//
// What a transaction does to libraries is in its effects until the commit, so that
// the commands behind it in the same batch see it, and a rollback takes it back.
// Whoever keeps the libraries ready to run is told by Space.OnLibraries.

// LibraryChange is a library that was stored or, when its source is empty, deleted.
type LibraryChange struct{ Name, Source string }

// PutLibrary stores a library, in the place of one of that name. The whole
// keyspace must be latched.
func (t *Tx) PutLibrary(name, source string) { t.changeLibrary(LibraryChange{name, source}) }

// DeleteLibrary deletes one that exists. The whole keyspace must be latched.
func (t *Tx) DeleteLibrary(name string) { t.changeLibrary(LibraryChange{Name: name}) }

func (t *Tx) changeLibrary(c LibraryChange) {
	if !t.writable() || !t.renumber() {
		return
	}
	row := append(sysKey(sysLibrary), c.Name...)
	if c.Source == "" {
		t.Rows.Batch.Delete(row)
	} else {
		t.Rows.Batch.Put(row, []byte(c.Source))
	}
	t.FX.libraries = append(t.FX.libraries, c)
	t.FX.Changes++
}

// LibraryChanges are those of the batch so far, which is not committed. They are
// valid until it goes on. Whoever asks goes by the libraries in use, and so has read
// the catalog: see catalog.go.
func (t *Tx) LibraryChanges() []LibraryChange {
	if t.Space.shared != nil {
		t.reads++
	}
	return t.FX.libraries
}

// Libraries returns all that are stored, by name.
func (s *Space) Libraries() (list []LibraryChange, err error) {
	view, err := s.eng.Begin(true)
	if err != nil {
		return nil, fmt.Errorf("read libraries: %w", err)
	}
	defer view.Close()
	return readLibraries(view)
}

func readLibraries(view engine.Reader) (list []LibraryChange, err error) {
	lo := sysKey(sysLibrary)
	it := view.Iter(lo, successor(lo), false)
	for it.Next() {
		name, source := it.Key()[len(lo):], it.Value()
		if len(name) == 0 || len(source) == 0 {
			err = fmt.Errorf("%w: library row % x of %d bytes", engine.ErrCorrupt, it.Key(), len(source))
			break
		}
		list = append(list, LibraryChange{string(name), string(source)})
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return nil, fmt.Errorf("read libraries: %w", err)
	}
	return list, nil
}
