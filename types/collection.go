package types

// Collection is what the types that have elements (set, hash, zset, list and stream)
// have in common. Each of their packages also has these functions, with its own type
// for T:
//
//	Open(tx, key, limits) (*T, error)    the collection at a key that is about to be changed
//	Read(tx, key) (*T, error)            the same for reading: it counts as a hit or a miss
//	Of(tx, key, meta) (*T, error)        the same, from a meta row that was found before
//	Create(tx, key, limits) *T           a new one, to replace the value of the key
//
// A missing key is an empty collection; a key of another type is ErrWrongType. Create
// returns an empty collection; Save replaces the key's value with it, of whatever type,
// without an expiry. Changes are kept in memory until Save, except that rows of elements
// may be written at once.
//
// Types note no events: the handlers do, since they know the client's command. The
// exception is what no command asked for, such as the expiry of hash fields.
type Collection interface {
	// Exists reports whether the key was there when it was opened.
	Exists() bool
	// Len is the number of elements.
	Len() int64
	// Save stores the changes, and keeps the key's expiry. A key without elements is
	// removed, and Save reports that; streams stay.
	Save() (gone bool)
	// Release ends the use of the value and of bytes that it returned. Calling it is
	// optional: frequent commands do, to avoid garbage.
	Release()
}
