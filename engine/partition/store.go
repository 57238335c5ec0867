package partition

import (
	"context"
	"time"
)

// Store is a table of partitions. Each partition has a version, an optional lock, and rows in
// the order of their keys; all of them are read at one moment, and changed together, on the
// condition that the version is what the caller expects. There is nothing atomic about two
// partitions: that is what this package adds.
//
// Errors of a Store wrap those of package engine. Values are stored as they are given.
type Store interface {
	// Read reads rows of one partition, with its state, as of one moment.
	Read(ctx context.Context, q *Query) (Answer, error)
	// Trace reads what tells how commits of an owner, and a transaction, have ended. The
	// answer shows every change that has been made, and settles those that a crashed node
	// has left half-done.
	Trace(ctx context.Context, part int, owner int32, txn []byte) (Trace, error)
	// Change changes a partition if its version is c.From, and it is not locked unless
	// c.Locked. applied reports whether it was;
	// if not, now is the state that the partition has instead. After an error that wraps
	// engine.ErrUnknownOutcome the change may have been made, or may still be made later;
	// after any other error it never is.
	Change(ctx context.Context, c *Change) (applied bool, now State, err error)
	// Time returns the time of the store, or of one of its nodes.
	Time(ctx context.Context) (time.Time, error)
	// Address is host:port of a node, "" if the store has none: a front end announces its own
	// address on the way there.
	Address() string
	// Close ends the use of the store.
	Close() error
}

// Level is how much a read may miss.
type Level uint8

const (
	// Serial reads see every change that was made before they began, also one whose writer
	// has not heard of it.
	Serial Level = iota
	// Fresh reads see every change that was answered before they began.
	Fresh
	// Single is the level that the user chose for reads of one row.
	Single
)

// State is what a partition has besides its rows.
type State struct {
	Version int64  // 0: the partition does not exist yet
	Lock    []byte // nil if no transaction holds the partition
	// Note is what the engine keeps besides (gap.go). Trace and a Read by keys show it, others
	// may.
	Note []byte
}

// Query names rows of a partition: some by their keys, or a range if Keys is nil.
type Query struct {
	Part  int
	Level Level
	Keys  [][]byte
	// Lo and Hi are a range, Lo <= key < Hi. A nil Hi is the end of the partition.
	Lo, Hi  []byte
	Reverse bool
	Limit   int
}

// Row is a row as it is stored.
type Row struct{ Key, Value []byte }

// Answer is what a Query found.
type Answer struct {
	State
	// Known: State was read. A range without rows does not show it.
	Known bool
	// Rows are those that exist, in the order of their keys if a range was read.
	Rows []Row
	// More: the range may have further rows behind the last one. A read with a Limit of 1
	// does not look whether there are.
	More bool
	// Passed is about how many deleted rows the read has passed over; small numbers may be 0.
	Passed int
}

// Trace is what a partition remembers of commits.
type Trace struct {
	State
	Last    int64  // the version that the owner's last change has made, 0 if there was none for long
	Decided bool   // the transaction was committed
	Staged  []byte // what the lock's transaction writes here
}

// Span is a range of keys, Lo <= key < Hi; a nil Hi is the end.
type Span struct{ Lo, Hi []byte }

// Change is one atomic change of a partition.
type Change struct {
	Part     int
	From, To int64
	Owner    int32    // its last change becomes To
	Locked   bool     // the partition is locked in version From
	Ranges   []Span   // deleted first
	Deletes  [][]byte // none is in Puts
	Puts     []Row    // none is inside of Ranges
	// Lock, if not nil, locks the partition, with Staged. Unlock removes lock and staged.
	Lock, Staged []byte
	Unlock       bool
	// Decide notes that a transaction is committed; Forget drops such notes.
	Decide []byte
	Forget [][]byte
	// Note, if not nil, replaces the partition's note.
	Note []byte
}
