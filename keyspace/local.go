package keyspace

import (
	"redoubt/engine"
)

// localStore is a store that no other process uses: the copies in memory are always valid.
type localStore struct{ space *Space }

func (localStore) openAgain(error) bool                         { return false }
func (localStore) join(engine.Reader, *engine.Batch) error      { return nil }
func (localStore) joined() error                                { return nil }
func (localStore) exact() bool                                  { return true }
func (localStore) readMeta(*Tx)                                 {}
func (localStore) opened(*Tx, Meta)                             {}
func (localStore) appendSweep(lo []byte, _ int, _ int64) []byte { return lo }
func (localStore) swept(int, int64)                             {}
func (localStore) unswept()                                     {}
func (localStore) changesCatalog(t *Tx) bool                    { return t.err == nil }
func (localStore) usesCatalog(*Tx)                              {}
func (localStore) catalogSettled(t *Tx) bool                    { return t.err == nil }
func (l localStore) newNumber(*Tx) uint32                       { return l.space.nextKS.Add(1) }

func (l localStore) newID(nowMicros int64, b *engine.Batch, e *Effects) (uint64, error) {
	return l.space.nextID(nowMicros, b, e), nil
}

func (l localStore) published(e *Effects) {
	for _, m := range e.moves {
		l.space.dbs[m.db].Store(m.ks)
	}
	if e.role != nil {
		l.space.useRole(*e.role)
	}
	if len(e.libraries) > 0 && l.space.OnLibraries != nil {
		l.space.OnLibraries(e.libraries)
	}
}
