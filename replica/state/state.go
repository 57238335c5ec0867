// Package state stores what a replica must not forget and its journal does not have: its
// identity, its term and its vote. They have a file of their own, so that votes need no fsync of
// the journal, and a copy of the store has no vote.
//
// FORMAT.md has the bytes. Promises:
//  1. When Set has returned nil, the state is on disk twice, and any one damaged or
//     torn slot is harmless.
//  2. A state that Open returns is on disk, too; it is the newest that Set was given, or,
//     if a crash came during Set, perhaps the one before.
//  3. A term never goes back, and a vote in a term is never given twice.
package state

import (
	"errors"
	"fmt"

	"redoubt/journal"
)

// Errors of Open and Set, wrapped with the file and what to do.
var (
	// ErrDamaged: neither slot is valid. The node may have voted in any term.
	ErrDamaged = errors.New("the replica's state is damaged")
	// ErrVersion: a newer program wrote the file.
	ErrVersion = errors.New("unknown version of the replica's state")
	// ErrBack: the state would take back a term, a vote or an identity.
	ErrBack = errors.New("the replica's state cannot go back")
	// ErrFailed: a write or an fsync failed, before or now. What is on disk is not known.
	ErrFailed = errors.New("writing the replica's state failed")
)

// ID names a cluster, a node or a boot of a machine, at random.
type ID [16]byte

// State is the contents of the file.
type State struct {
	Cluster, Node ID
	RaftID        uint64 // who this node is in Raft; not 0
	Incarnation   uint64 // how many Raft ids it had before
	Term, Vote    uint64
	Boot          ID   // of the machine, when the node was started
	Clean         bool // the node ended with everything fsynced
	// Returning: the node may have forgotten what it promised, and takes part again only when it
	// has caught up with a leader that was elected without it: see replica.Return.
	Returning bool
}

// Remembers reports whether a node that was started again may keep its identity although its
// policy does not fsync before it acknowledges: it cannot have lost what it has acknowledged. boot
// is the ID of this boot of the machine.
func (s State) Remembers(boot ID) bool { return s.Clean || boot == s.Boot && boot != ID{} }

// File is the open file. It is not safe for concurrent use.
type File struct {
	path   string
	file   journal.File
	state  State
	serial uint64
	slot   int // where the older serial is
	failed error
	// Repaired says that one of the slots was not valid, and what Open did about it.
	Repaired bool
}

// Create makes the file, durably, whole or not at all. An older one is replaced.
func Create(fs journal.FS, path string, s State) (*File, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var b [fileSize]byte
	s.put(b[:], 1)
	s.put(b[slotApart:], 1)
	if err := journal.ReplaceFile(fs, path, b[:]); err != nil {
		return nil, fmt.Errorf("%w: making %s: %w", ErrFailed, path, err)
	}
	return Open(fs, path)
}

// Open reads the file; the error is one of os.ErrNotExist if there is none.
func Open(fs journal.FS, path string) (*File, error) {
	file, err := fs.OpenForWrite(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	f := &File{path: path, file: file}
	if err := f.read(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	// The state may have been read from the page cache, and must be on disk before it is used.
	if err := f.write(f.state); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func (f *File) read() error {
	valid := 0
	err := journal.ReadSlots(f.file, slotSize, slotApart, func(slot int, b []byte) error {
		s, serial, ok, err := parse(b)
		if ok && s.check() == nil {
			if valid++; valid == 1 || serial > f.serial {
				f.state, f.serial, f.slot = s, serial, 1-slot
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.path, err)
	}
	f.Repaired = valid == 1
	if valid == 0 {
		return fmt.Errorf("%w: %s has no valid slot, so this node may have voted in any term: take it out of its group and let it join anew", ErrDamaged, f.path)
	}
	return nil
}

// State returns the newest state.
func (f *File) State() State { return f.state }

// Set makes s the state, durably. On an error the file must be opened again.
func (f *File) Set(s State) error {
	switch old := f.state; {
	case f.failed != nil:
		return f.failed
	case s == old:
		return nil
	case s.Cluster != old.Cluster || s.Node != old.Node:
		return fmt.Errorf("%w: %s is of node %x of cluster %x", ErrBack, f.path, old.Node, old.Cluster)
	case s.Incarnation < old.Incarnation || (s.Incarnation == old.Incarnation) != (s.RaftID == old.RaftID):
		return fmt.Errorf("%w: %s: from incarnation %d with Raft id %d to incarnation %d with Raft id %d", ErrBack, f.path, old.Incarnation, old.RaftID, s.Incarnation, s.RaftID)
	case s.Term < old.Term:
		return fmt.Errorf("%w: %s: from term %d to term %d", ErrBack, f.path, old.Term, s.Term)
	case s.Term == old.Term && s.Incarnation == old.Incarnation && old.Vote != 0 && s.Vote != old.Vote:
		return fmt.Errorf("%w: %s: in term %d the vote is given to %d, not to %d", ErrBack, f.path, s.Term, old.Vote, s.Vote)
	}
	if err := s.check(); err != nil {
		return err
	}
	return f.write(s)
}

func (s State) check() error {
	if s.Cluster == (ID{}) || s.Node == (ID{}) || s.RaftID == 0 {
		return fmt.Errorf("%w: a state needs a cluster, a node and a Raft id: %+v", ErrBack, s)
	}
	return nil
}

// write writes both slots, the older one first.
func (f *File) write(s State) error {
	var b [slotSize]byte
	s.put(b[:], f.serial+1)
	for _, slot := range []int{f.slot, 1 - f.slot} {
		_, err := f.file.WriteAt(b[:], int64(slot)*slotApart)
		if err == nil {
			err = f.file.Sync()
		}
		if err != nil {
			f.failed = fmt.Errorf("%w: %s: %w: this node must not vote any more: check the disk, then restart it", ErrFailed, f.path, err)
			return f.failed
		}
	}
	f.state, f.serial = s, f.serial+1
	return nil
}

// Close closes the file. It writes nothing: what Set was given is on disk.
func (f *File) Close() error { return f.file.Close() }
