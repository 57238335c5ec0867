package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// keeper is the state of a fleet's goroutine.
type keeper struct {
	self   Member // as in its row
	peers  map[ID]*peer
	looked time.Duration // when the rows were read last
	forgot time.Duration // when the store last dropped old states
	failed map[string]bool
}

// peer is another member, living or dead.
type peer struct {
	silent bool // its row has not changed for a lease
	Member
	row            []byte
	changed        time.Duration // when its row was first read with this content
	dead           bool
	refused        bool // its address refused, and its row has not changed since
	refutedRefusal bool // its row has changed after that, and it was not reached since
}

func newKeeper(f *Fleet) keeper {
	return keeper{self: f.o.Self, peers: make(map[ID]*peer), failed: make(map[string]bool)}
}

// turn writes the row of this process and reads the others; the leader also cleans up.
func (f *Fleet) turn(ctx context.Context) {
	f.note("write the row of this front end", f.beat(ctx))
	if err := f.list(); err != nil {
		f.note("read the rows of the fleet", err)
		return
	}
	f.note("read the rows of the fleet", nil)
	if !f.Leader() {
		f.forgot = f.now()
		return
	}
	f.note("delete the rows of dead front ends", f.deleteDead(ctx))
	if f.now()-f.forgot >= forgetEvery {
		f.forgot = f.now()
		f.note("let the store forget old states", f.forget())
	}
}

// note logs when something begins to fail, and when it works again.
func (f *Fleet) note(what string, err error) {
	switch {
	case err != nil && !f.failed[what]:
		f.log.Warn("the fleet cannot "+what, "error", err)
	case err == nil && f.failed[what]:
		f.log.Info("the fleet can again " + what)
	}
	f.failed[what] = err != nil
}

// beat writes the row of this process, even if it was deleted or the last write failed.
func (f *Fleet) beat(ctx context.Context) error {
	began := f.now()
	f.mu.Lock()
	for _, change := range f.changes {
		change(&f.self)
	}
	f.changes = nil
	f.mu.Unlock()
	f.self.Beat++
	f.self.Oldest = f.o.Engine.Oldest()
	f.self.At = f.o.Engine.Now().UnixMilli()
	if count := f.work.Load(); count != nil {
		f.self.Work = (*count)() + 1
	}
	value, err := encode(f.self)
	if err != nil {
		return err
	}
	err = transact(ctx, f.o.Engine, func(_ engine.SharedView, b *engine.Batch) error {
		b.Put(keyspace.MemberRow(f.self.ID), value)
		return nil
	})
	if err == nil {
		f.beaten.Store(int64(began))
	}
	return err
}

// delete removes the row of this process.
func (f *Fleet) delete(ctx context.Context) error {
	return transact(ctx, f.o.Engine, func(_ engine.SharedView, b *engine.Batch) error {
		b.Delete(keyspace.MemberRow(f.self.ID))
		return nil
	})
}

// list reads the rows of all members and updates the division.
func (f *Fleet) list() error {
	reports := f.takeReports() // first: a row that was written before a member was refused proves nothing
	rows, err := readMembers(f.o.Engine)
	if err != nil {
		f.keepReports(reports)
		return err
	}
	now := f.now() // after the read, so that a silent member has really been silent
	// A gap between two reads shows nothing about the others: only a part of it counts, so
	// that it takes more than one read to find a member silent.
	if gap := now - f.looked - 2*f.o.Beat; gap > 0 {
		for _, p := range f.peers {
			p.changed += gap
		}
	}
	f.looked = now
	for id, row := range rows {
		if id == f.self.ID {
			continue
		}
		p := f.peers[id]
		if p == nil {
			p = new(peer)
			f.peers[id] = p
		}
		if !bytes.Equal(p.row, row) {
			m, err := decode(id, row)
			if err != nil {
				f.note("understand the row of "+id.String(), err)
				m = Member{ID: id}
			}
			m.Seen = f.o.Engine.Now()
			if m.Work == 0 || m.Work != p.Work {
				f.news.Add(1)
			}
			p.Member, p.row, p.changed = m, row, now
			if p.refused {
				f.livesOn(p)
			}
		}
		p.heed(reports)
		if silent := now-p.changed >= f.o.Lease; silent != p.silent {
			if p.silent = silent; silent {
				f.deaths.Add(1)
			}
		}
		p.dead = p.silent || p.refused || p.Host == "" // a member without an address cannot be shown to clients
	}
	for id := range f.peers {
		if rows[id] == nil {
			delete(f.peers, id)
		}
	}
	f.divide()
	return nil
}

// divide makes the division of the living members, and calls the OnChange functions if it
// has changed.
func (f *Fleet) divide() {
	d := &Division{all: []Member{f.self}, Epoch: 1}
	for _, p := range f.peers {
		if !p.dead {
			d.all = append(d.all, p.Member)
		}
	}
	byAge(d.all)
	for _, m := range d.all {
		switch {
		case m.ID == f.self.ID:
			d.Self = len(d.Members)
			fallthrough
		case !m.Away:
			d.Members = append(d.Members, m)
		}
	}
	old := f.division.Load()
	if old != nil {
		d.Epoch = old.Epoch
		if slices.EqualFunc(old.all, d.all, alike) {
			f.division.Store(d)
			return
		}
		d.Epoch++
		f.news.Add(1)
		f.tell(old, d)
	}
	f.division.Store(d)
	f.mu.Lock()
	calls := slices.Clone(f.onChange)
	f.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// tell logs which members have joined and gone.
func (f *Fleet) tell(old, new *Division) {
	missing := func(from []Member, m Member) bool {
		return !slices.ContainsFunc(from, func(o Member) bool { return o.ID == m.ID })
	}
	for _, m := range new.all {
		if missing(old.all, m) {
			f.log.Info("a front end has joined", "id", m.ID.String(), "host", m.Host, "port", m.Port)
		}
	}
	for _, m := range old.all {
		if missing(new.all, m) {
			f.log.Info("a front end has gone", "id", m.ID.String(), "host", m.Host, "port", m.Port)
		}
	}
}

// deleteDead deletes the rows of members that have been dead for long, unless a row has
// changed.
func (f *Fleet) deleteDead(ctx context.Context) error {
	var failed error
	for id, p := range f.peers {
		if f.looked-p.changed < deadLeases*f.o.Lease {
			continue
		}
		key := keyspace.MemberRow(id)
		err := transact(ctx, f.o.Engine, func(v engine.SharedView, b *engine.Batch) error {
			row, found, err := v.Get(key, nil)
			if err == nil && found && bytes.Equal(row, p.row) {
				b.Delete(key)
			}
			return err
		})
		failed = errors.Join(failed, err)
	}
	return failed
}

// forget lets the store drop old states that no member reads. Members that are considered
// dead count too, as long as they have a row.
func (f *Fleet) forget() error {
	now, err := f.o.Engine.Stamp()
	if err != nil {
		return err
	}
	oldest := f.o.Engine.Later(now, -remember)
	if oldest > now {
		return nil // the store is younger than remember
	}
	oldest = min(oldest, f.o.Engine.Oldest())
	for _, p := range f.peers {
		if p.Oldest != 0 {
			oldest = min(oldest, p.Oldest)
		}
	}
	return f.o.Engine.Forget(oldest)
}

// readMembers reads the rows of all members.
func readMembers(e engine.Engine) (map[ID][]byte, error) {
	v, err := e.Begin(engine.ViewOptions{Background: true})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	rows := make(map[ID][]byte)
	lo, hi := keyspace.MemberRows()
	it := v.Iter(lo, hi, false)
	for it.Next() {
		if id, ok := keyspace.MemberID(it.Key()); ok {
			rows[id] = append([]byte{}, it.Value()...)
		}
	}
	if err := it.Close(); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return rows, nil
}
