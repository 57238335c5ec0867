// Package importer brings the data of a Redis into a store: RDB files, and the commands of
// an append-only file. It reads streams, and uses neither files nor sockets, so the stream
// of a master can be imported, too.
//
// Approach. Keys go into keyspaces that no database has yet (keyspace/load.go), in commits
// of about a megabyte; a large value is committed in portions while it is read. The last
// commit gives the new keyspaces to the databases, and replaces the libraries of functions.
// So an import is atomic, even under kill -9: the store has all of the new data, or its old
// data. The rows of an import that ended early are cleared by the next import, or by the
// server that opens the store.
//
// The clock. A file says when keys expire, and its commands were executed in the past. They
// are executed again with a clock that expires no key that was alive then: the time that the
// file gives, at first that of its beginning (Options.Now is for plain RDB files alone).
//
// Rejected: sending the commands to a server (it would expire keys between them, and serve
// half of the data); resuming an interrupted import (each commit would need a mark, and the
// file would have to be the same, to save some minutes once).
package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/wire"
)

// Options of an import.
type Options struct {
	// Databases is how many databases the store is to have at least; zero: 16.
	Databases int
	// Now is the present time in Unix milliseconds: expired keys of an RDB file are left out.
	Now int64
	// SkipUnknown leaves out values of modules and unknown commands, and reports them to
	// Skipped.
	SkipUnknown bool
	// Skipped, if set, is called with each thing that was left out.
	Skipped func(what string)
	// Truncated allows a file to end within a command or a transaction, which is left out.
	Truncated bool
	// Libraries checks whether the sources of all libraries of functions can be loaded together.
	Libraries func(sources []string) error
	// Live, if set, is the server of the store, which serves clients during the import.
	Live *Live
	// Patience is how long failed commits are retried; zero: a minute.
	Patience time.Duration
}

// Result is what was imported.
type Result struct {
	Keys     int64 // of RDB files
	Expired  int64 // keys left out since they have expired
	Empty    int64 // collections without elements, as a bug of Redis 6.2 wrote them
	Commands int64
	Skipped  int64 // unknown values and commands
	StreamDB int   // the database that is selected in the stream of commands behind an RDB file
	// Unchecked: a file has no checksum. Base: the last RDB file is the beginning of an
	// append-only file.
	Unchecked, Base bool
}

// Live is a store that a server serves while data is imported into it: the data of a master.
// Keys that have expired are imported, too: the master deletes them.
type Live struct {
	Space *keyspace.Space
	// Exclusively runs f as a transaction with the whole keyspace latched and commits it. It
	// calls f again after a conflict with another process.
	Exclusively func(f func(*keyspace.Tx)) error
}

// ErrDatabases: a key is in a database that the store does not have.
var ErrDatabases = errors.New("the store has too few databases")

// mark is the value of keyspace.CopyRow in a shared store during an import: the row keeps
// front ends away, which would clear the keyspaces that are not installed yet.
var mark = []byte(keyspace.ImportMark)

// Import is an import under way. It is for one goroutine.
type Import struct {
	Result
	o      Options
	ctx    context.Context
	eng    engine.Engine
	space  *keyspace.Space
	shared bool
	// rows and bytes are about how much a commit holds.
	rows, bytes int

	numbers   []uint32 // of the new keyspaces; 0: the database has none yet
	libraries map[string]string

	view  engine.View
	batch engine.Batch
	fx    keyspace.Effects
	tx    keyspace.Tx
	call  command.Ctx
	reply wire.Writer
	limit command.Limits
	clock int64 // of commands
	seed  uint64
	table *command.Table
}

// Begin prepares a store, and clears the rows of an import that ended early. The store must
// have no other user. Its data stays unchanged until Finish.
func Begin(ctx context.Context, eng engine.Engine, o Options) (*Import, error) {
	i := &Import{o: o, ctx: ctx, eng: eng, rows: 1024, bytes: 1 << 20, libraries: make(map[string]string), clock: 1}
	if o.Patience <= 0 {
		i.o.Patience = time.Minute
	}
	if o.Databases <= 0 {
		i.o.Databases = 16
	}
	if eng.Capabilities().Remote {
		i.rows, i.bytes = 256, 512<<10
	}
	i.shared = eng.Capabilities().Shared
	i.limit = command.Limits{Limits: types.DefaultLimits, MaxBulk: 512 << 20}
	i.table = command.NewTable(command.All()...)
	i.batch.GroupBy(keyspace.RowGroup)
	if o.Live != nil {
		i.space = o.Live.Space
		i.prepare()
		return i, nil
	}
	have, err := i.unmark()
	if err != nil {
		return nil, err
	}
	if i.space, err = keyspace.Open(eng, max(have, i.o.Databases)); err != nil {
		return nil, err
	}
	i.prepare()
	if err := i.clear(); err != nil {
		return nil, err
	}
	if i.shared {
		err = i.change(func() { i.batch.Put(keyspace.CopyRow(), mark) })
	}
	return i, err
}

// prepare makes the transaction in which keys are written.
func (i *Import) prepare() {
	i.numbers = make([]uint32, i.space.Databases())
	i.tx = keyspace.Tx{
		Space: i.space, FX: &i.fx, Numbers: i.numbers, Undying: i.o.Live != nil,
		Writable: true, Latched: true, Worker: true, OneState: true, Unrefused: true,
	}
	if i.eng.Capabilities().CheapRangeDelete {
		i.tx.CommitAside = i.commitPortion
	}
	i.call = command.Ctx{
		Tx: &i.tx, Reply: &i.reply, Limits: &i.limit, Usage: unused{}, NoBlock: true,
		Receivers: func([]byte, bool) (int, bool) { return 0, false },
	}
}

// unmark removes the mark of an import that ended early, and returns the number of databases.
func (i *Import) unmark() (databases int, err error) {
	snap, err := i.eng.Snapshot()
	if err != nil {
		return 0, fmt.Errorf("look at the store: %w", err)
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	if databases, err = keyspace.Databases(snap); err != nil {
		return 0, err
	}
	v, found, err := snap.Get(keyspace.CopyRow(), nil)
	if err != nil || !found || string(v) != string(mark) {
		return databases, err
	}
	i.batch.Delete(keyspace.CopyRow())
	err = i.write(&i.batch)
	i.batch.Reset()
	return databases, err
}

// unused implements command.Ctx.Usage for an import, which knows no idle times.
type unused struct{}

func (unused) Idle([]byte) int64 { return 0 }
func (unused) Freq([]byte) int64 { return 0 }
func (unused) Touch([]byte)      {}

// clear clears keyspaces that no database has.
func (i *Import) clear() error {
	var c keyspace.Clearing
	for more := true; more; {
		err := i.change(func() { more = i.tx.ClearDead(&c, clearRows) })
		if err != nil {
			return fmt.Errorf("clear what an import has left: %w", err)
		}
	}
	return nil
}

const clearRows = 512

// change runs f as an execution of its own, and commits it.
func (i *Import) change(f func()) error {
	if err := i.commit(); err != nil {
		return err
	}
	if err := i.begin(); err != nil {
		return err
	}
	i.tx.Start()
	f()
	if err := i.tx.Err(); err != nil {
		i.drop()
		return err
	}
	return i.commit()
}

// begin opens a view, if none is open.
func (i *Import) begin() (err error) {
	if i.view != nil {
		return nil
	}
	if err := i.ctx.Err(); err != nil {
		return err
	}
	if i.view, err = i.eng.Begin(engine.ViewOptions{}); err != nil {
		return err
	}
	i.tx.Rows = engine.Txn{View: i.view, Batch: &i.batch}
	if i.o.Live == nil {
		return nil
	}
	if err := i.eng.Full(); err != nil {
		return err
	}
	if i.shared {
		i.tx.Start()
		i.tx.Loads(i.numbers)
	}
	return i.tx.Err()
}

// drop discards what is not committed.
func (i *Import) drop() {
	i.tx.Settle(false)
	i.close()
}

func (i *Import) close() {
	if i.view != nil {
		i.view.Close()
		i.view = nil
	}
	i.batch.Reset()
	i.fx.Reset()
}

// commit commits the batch, if it is not empty.
func (i *Import) commit() error {
	if i.batch.Empty() {
		i.tx.Settle(true)
		i.close()
		return nil
	}
	if err := i.write(&i.batch); err != nil {
		i.drop()
		return fmt.Errorf("write to the store: %w", err)
	}
	i.tx.Settle(true)
	i.space.Publish(&i.fx)
	i.close()
	return nil
}

// commitPortion commits a portion of a large value.
func (i *Import) commitPortion(b *engine.Batch) error { return i.put(b, nil) }

// write commits a batch, with retries. The store has no other writer, so a batch that was not
// written may be written again.
func (i *Import) write(b *engine.Batch) error {
	for begun, pause := time.Now(), 2*time.Millisecond; ; pause = min(2*pause, time.Second) {
		view := i.view
		i.view = nil
		err := i.put(b, view)
		if err == nil || !errors.Is(err, engine.ErrConflict) && !engine.Transient(err) || time.Since(begun) > i.o.Patience {
			return err
		}
		select {
		case <-i.ctx.Done():
			return i.ctx.Err()
		case <-time.After(pause):
		}
	}
}

// put commits a batch on a view, or on a new one.
func (i *Import) put(b *engine.Batch, view engine.View) (err error) {
	if view == nil {
		if view, err = i.eng.Begin(engine.ViewOptions{}); err != nil {
			return err
		}
	}
	defer view.Close()
	_, err = view.Commit(b)
	return err
}

// full commits if the batch is large enough.
func (i *Import) full() error {
	if i.batch.Len() < i.rows && i.batch.Size() < i.bytes {
		return nil
	}
	return i.commit()
}

// selectDB selects a database, and makes a keyspace for it if it has none yet.
func (i *Import) selectDB(db int) error {
	if db >= len(i.numbers) {
		return fmt.Errorf("%w: it has %d, and the file has keys in database %d", ErrDatabases, len(i.numbers), db)
	}
	i.tx.DB = db
	if i.numbers[db] != 0 {
		return nil
	}
	return i.newKeyspace(db)
}

// newKeyspace gives a database an empty keyspace.
func (i *Import) newKeyspace(db int) error {
	if live := i.o.Live; live != nil {
		if err := i.commit(); err != nil {
			return err
		}
		return live.Exclusively(func(tx *keyspace.Tx) {
			i.numbers[db] = tx.NewNumber()
			i.space.Protect(i.numbers[db])
		})
	}
	return i.change(func() { i.numbers[db] = i.tx.NewNumber() })
}

// Finish replaces the data of the store by what was imported. The functions also, if any, are
// a part of the commit that does so.
func (i *Import) Finish(also ...func(*keyspace.Tx)) error {
	sources := make([]string, 0, len(i.libraries))
	for _, source := range i.libraries {
		sources = append(sources, source)
	}
	if len(sources) > 0 && i.o.Libraries != nil {
		if err := i.o.Libraries(sources); err != nil {
			return fmt.Errorf("the functions: %w", err)
		}
	}
	if err := i.commit(); err != nil {
		return err
	}
	old, err := i.space.Libraries()
	if err != nil {
		return err
	}
	install := func(tx *keyspace.Tx) {
		tx.Install(i.numbers)
		for _, l := range old {
			if i.libraries[l.Name] == "" {
				tx.DeleteLibrary(l.Name)
			}
		}
		for name, source := range i.libraries {
			tx.PutLibrary(name, source)
		}
		for _, f := range also {
			f(tx)
		}
	}
	if live := i.o.Live; live != nil {
		err := live.Exclusively(func(tx *keyspace.Tx) {
			if i.shared {
				tx.Loads(i.numbers)
			}
			install(tx)
		})
		if err == nil {
			i.space.Unprotect()
			return nil
		}
		return fmt.Errorf("make the data that of the store: %w", err)
	}
	err = i.change(func() {
		i.tx.Numbers = nil
		install(&i.tx)
		if i.shared {
			i.batch.Delete(keyspace.CopyRow())
		}
	})
	if err != nil {
		return fmt.Errorf("make the data that of the store: %w", err)
	}
	return i.clear()
}

// Abandon clears what was imported so far, or leaves that to the background work of a server
// that serves the store. The store keeps the data that it had before.
func (i *Import) Abandon() error {
	i.ctx = context.WithoutCancel(i.ctx)
	i.drop()
	if live := i.o.Live; live != nil {
		i.space.Unprotect()
		return live.Exclusively(func(tx *keyspace.Tx) { tx.FX.Garbage++ })
	}
	i.tx.Numbers = nil
	err := i.clear()
	if i.shared && err == nil {
		err = i.change(func() { i.batch.Delete(keyspace.CopyRow()) })
	}
	return err
}
