package journal

import (
	"errors"
	"fmt"
)

// Log is the log of a store's commits, as the store sees it: an ordered list of records,
// whose numbers begin with 1 and have no gaps. A record is durable when Durable has
// reached its number.
//
// Journal is the log of a process that is alone: it takes every record and never takes one
// back. Several processes may agree upon a log instead, by Raft: then only one of them, the
// leader, may append, and the newest records may be taken back as long as they are not
// durable. Whoever implements such a log promises, besides what the methods say:
//
//  1. Epoch grows when this process becomes leader, when it ends to be leader, and when
//     records are taken back; so what was evaluated on older memory cannot be appended.
//  2. The log tells its store when records are taken back (local.Engine.Rewind): after Epoch
//     has grown, and before Durable passes the newest record that stays.
//  3. The log gives its store the records that others appended, once they are agreed upon
//     (local.Engine.Replay), in order and from one goroutine, the same that tells of records
//     that were taken back.
//
// All methods may be called from any goroutine. None of them but Sync, LinkTo, SetPolicy and
// Close waits for anything but a write.
type Log interface {
	// HeadRoom is how many bytes at the front of a record are the log's to write.
	HeadRoom() int
	// Epoch names the present time of leadership. It never decreases. An epoch that was
	// read before the rows were read on which a record rests, is what Append wants.
	Epoch() uint64
	// Append adds a record behind all others and returns its number. Its payload is
	// rec[HeadRoom():]. Append does not keep rec. After an error the record is not in the
	// log: ErrNotLeader if this process does not lead, or the epoch is not the present
	// one; ErrCongested; ErrFull; ErrTooLarge; ErrClosed; any other error is final, and
	// Err returns it.
	Append(epoch uint64, rec []byte) (seq uint64, err error)
	// Durable is the number up to which all records are safe, in the sense of the log's
	// policy, and will never be taken back. It never decreases. The store may not have
	// been given all of them yet.
	Durable() uint64
	// Congested reports that too much was appended that is not durable yet: writers should
	// wait before Append refuses records.
	Congested() bool
	// Sync waits until all records up to seq survive a loss of power of this machine. It
	// does not wait for others: the records may still be taken back.
	Sync(seq uint64) error
	// Base returns what the log must be told to go on behind seq when the store has
	// everything up to there in its tables (Opening.Base), or nil if that is nothing. seq is
	// durable. The store keeps it with the tables.
	Base(seq uint64) ([]byte, error)
	// Remove allows the log to forget the records up to upTo: the store has them in its
	// tables.
	Remove(upTo uint64) error
	// LinkTo puts all records above from that there are now into dir, as a log that can be
	// opened there with the base of from. It returns the number of the last record that the copy
	// has; it survives a loss of power when LinkTo returns.
	LinkTo(dir string, from uint64) (last uint64, err error)
	// SetPolicy changes when records are durable.
	SetPolicy(p Policy) error
	// Stats returns the figures.
	Stats() Stats
	// Err is nil, or says why the log takes no more records: those above Durable will never
	// become durable.
	Err() error
	// Close makes all records survive a loss of power, as far as they are in the log of this
	// process, and ends the log. When it returns no Replay and no Rewind is under way.
	Close() error
}

// ErrNotLeader: this process may not append now, or what the record rests on may have been
// taken back. Nothing happened.
var ErrNotLeader = errors.New("this process does not lead")

// ErrCongested: too much waits to be agreed upon, or leadership is just being handed over.
// Nothing happened, and later appends may work.
var ErrCongested = errors.New("the log takes no more records for now")

// Opening is what a store gives to the function that opens its log.
type Opening struct {
	Options
	// From: the store has everything up to this record in its tables. Base is what Log.Base
	// returned for it; nil for a new store.
	From uint64
	Base []byte
	// Replay is to be called with each record above From that is known to be durable, in
	// order and before the log is returned. An empty payload is that of a record that says
	// nothing to the store; it has a number all the same. The payload is valid during the call.
	Replay func(seq uint64, payload []byte) error
	// Progress (or nil) is told how many bytes were read, and how many there are.
	Progress func(done, total int64)
}

// OpenLog opens the log of a store that is alone; see Open.
func OpenLog(o Opening) (Log, error) {
	if len(o.Base) > 0 {
		return nil, fmt.Errorf("journal: %s: %w: open the store as one, or take it out of its group", o.Dir, ErrReplicated)
	}
	j, err := Open(o.Options, o.From, o.Replay, o.Progress)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// HeadRoom implements Log.
func (j *Journal) HeadRoom() int { return HeadRoom }

// Epoch implements Log: no record is ever taken back.
func (j *Journal) Epoch() uint64 { return 0 }

// Congested implements Log: what is written need not wait for others.
func (j *Journal) Congested() bool { return false }

// Base implements Log: the number is all.
func (j *Journal) Base(uint64) ([]byte, error) { return nil, nil }
