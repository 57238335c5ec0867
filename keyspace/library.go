package keyspace

import (
	"errors"
	"fmt"

	"redoubt/engine"
)

// Libraries of functions: each is a system row with its name in the key and its source
// as the value. Libraries belong to no database, and no command on keys touches them.
//
// A change of libraries is in the effects until the commit, so that later commands of
// the same batch see the change, and a rollback undoes it. Space.OnLibraries tells
// the package that has the libraries loaded.

// LibraryChange is a library that was stored or, when its source is empty, deleted.
type LibraryChange struct{ Name, Source string }

// PutLibrary stores a library, and replaces one of that name. The whole keyspace must
// be latched.
func (t *Tx) PutLibrary(name, source string) { t.changeLibrary(LibraryChange{name, source}) }

// DeleteLibrary deletes an existing library. The whole keyspace must be latched.
func (t *Tx) DeleteLibrary(name string) { t.changeLibrary(LibraryChange{Name: name}) }

func (t *Tx) changeLibrary(c LibraryChange) {
	if !t.writable() || !t.Space.store.changesCatalog(t) {
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

// LibraryChanges returns the changes of the batch so far, which is not committed; they are
// valid until the next change. The call counts as a read of the catalog, since the caller
// depends on the libraries in use: see catalog.go.
func (t *Tx) LibraryChanges() []LibraryChange {
	t.Space.store.usesCatalog(t)
	return t.FX.libraries
}

// Libraries returns all stored libraries, sorted by name.
func (s *Space) Libraries() (list []LibraryChange, err error) {
	view, err := s.eng.Begin(engine.ViewOptions{})
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
