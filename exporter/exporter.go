// Package exporter writes the data of a store as an RDB file that Redis loads. It writes to
// a stream, and reads one state of the store, so it could also feed a replica.
//
// Open reads all keys once, to find which version of the format they need, how many there
// are, and whether any cannot be written. Write then reads them again, database by database,
// in the order of their slots. A large value is written in portions (rdb.Encoder.Spill).
package exporter

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/rdb"
)

// Channels says how to export channels, which no Redis has.
type Channels byte

// The ways to export channels.
const (
	Refuse Channels = iota // Open fails if there are any
	Leave                  // they are left out
	Keep                   // they are written as values of a module, which Redoubt reads
)

// Options of an export.
type Options struct {
	// Version is that of the format; zero: the lowest that holds everything. A lower version is
	// refused if the expiry of hash fields would be lost; it may lose when consumers were active.
	Version int
	// Oldest has the lowest version that loses no data: it may lose when consumers were active, as
	// Redis before 7.2 does not know that.
	Oldest   bool
	Channels Channels
	// Now is the present time in Unix milliseconds: expired keys are left out.
	Now int64
	// LeaveKeys and LeaveLibraries leave all keys or all functions out.
	LeaveKeys, LeaveLibraries bool
	// RedisVersion is the version of Redis that the file names as its writer.
	RedisVersion string
	// Progress, if set, is called after each key.
	Progress func(keys, bytes int64)
}

// Errors of Open.
var (
	ErrChannels = errors.New("the store has channels, which no Redis can load")
	ErrVersion  = errors.New("the file would need a newer version of the format")
)

// Database is what Open has found in a database.
type Database struct{ Keys, Volatile int64 }

// Export is an export under way. It is for one goroutine.
type Export struct {
	// Version is the version of the format that Write writes.
	Version   int
	Databases []Database
	// Keys is how many keys are to be written, Left how many channels are left out.
	Keys, Left int64
	// Bytes is the length of the written file.
	Bytes     int64
	Libraries []keyspace.LibraryChange

	o     Options
	rows  engine.Reader
	space *keyspace.Space
	batch engine.Batch
	fx    keyspace.Effects
	tx    keyspace.Tx
}

// state is a Reader in the place of a Snapshot: the caller of Open closes the Reader.
type state struct{ engine.Reader }

func (state) Close() error { return nil }

// Open prepares the export of one state of a store. c are the capabilities of its engine.
func Open(rows engine.Reader, c engine.Capabilities, o Options) (*Export, error) {
	space, err := keyspace.OpenFrozen(rows, c)
	if err != nil {
		return nil, err
	}
	e := &Export{o: o, rows: rows, space: space, Version: rdb.VersionRedis70}
	e.tx = keyspace.Tx{
		Space: space, Rows: engine.Txn{View: engine.FrozenView{Snapshot: state{rows}}, Batch: &e.batch}, FX: &e.fx,
		Now: o.Now, NowMicros: o.Now * 1000, Latched: true, Worker: true, OneState: true, Unrefused: true,
	}
	if !o.LeaveLibraries {
		if e.Libraries, err = keyspace.ReadLibraries(rows); err != nil {
			return nil, err
		}
	}
	e.Databases = make([]Database, space.Databases())
	needs := ""
	err = e.each(func(key []byte, m keyspace.Meta) error {
		if m.Type == keyspace.Channel {
			switch o.Channels {
			case Refuse:
				return fmt.Errorf("%w: %.128q of database %d is one", ErrChannels, key, e.tx.DB)
			case Leave:
				e.Left++
				return nil
			}
		} else if v := command.NeedsVersion(&e.tx, key, m); v > e.Version {
			e.Version, needs = v, fmt.Sprintf("key %.128q of database %d has version %d", key, e.tx.DB, v)
		}
		d := &e.Databases[e.tx.DB]
		d.Keys++
		if m.Expire != 0 {
			d.Volatile++
		}
		e.Keys++
		return nil
	})
	if err != nil {
		return nil, err
	}
	if o.Oldest && e.Version == rdb.VersionRedis72 {
		e.Version = rdb.VersionRedis70
	}
	if o.Version != 0 {
		if e.Version == rdb.VersionRedis74 && o.Version < e.Version {
			return nil, fmt.Errorf("%w: %s (fields of a hash that expire)", ErrVersion, needs)
		}
		e.Version = o.Version
	}
	return e, nil
}

// each visits all keys of all databases.
func (e *Export) each(visit func(key []byte, m keyspace.Meta) error) error {
	for db := range e.space.Databases() {
		if e.o.LeaveKeys {
			break
		}
		e.tx.Start()
		e.tx.DB = db
		var failed error
		e.tx.Walk(0, nil, func(_ uint16, key []byte, m keyspace.Meta) bool {
			if m.Exists() {
				failed = visit(key, m)
			}
			return failed == nil && e.tx.Err() == nil
		})
		if failed == nil {
			failed = e.tx.Err()
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// Write writes the file.
func (e *Export) Write(to io.Writer) error {
	w := rdb.NewWriter(to, e.Version)
	w.Aux("redis-ver", e.o.RedisVersion)
	w.Aux("redis-bits", "64")
	w.Aux("ctime", strconv.FormatInt(e.o.Now/1000, 10))
	for _, l := range e.Libraries {
		w.Library([]byte(l.Source))
	}
	keys, last := int64(0), -1
	err := e.each(func(key []byte, m keyspace.Meta) error {
		if m.Type == keyspace.Channel && e.o.Channels != Keep {
			return nil
		}
		if db := e.tx.DB; db != last {
			w.Database(db, e.Databases[db].Keys, e.Databases[db].Volatile)
			last = db
		}
		if err := command.EncodeKey(&e.tx, w.Key(key, m.Expire), key, m, e.Version >= rdb.VersionRedis72); err != nil {
			return fmt.Errorf("key %.128q of database %d: %w", key, e.tx.DB, err)
		}
		if err := w.EndKey(); err != nil {
			return fmt.Errorf("key %.128q of database %d: %w", key, e.tx.DB, err)
		}
		if keys++; e.o.Progress != nil {
			e.o.Progress(keys, w.Bytes())
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = w.End()
	e.Bytes = w.Bytes()
	return err
}
