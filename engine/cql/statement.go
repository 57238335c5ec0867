package cql

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"redoubt/engine/partition"
)

// store implements partition.Store.
type store struct {
	session *gocql.Session
	o       Options
	table   string

	byKeys, forward, backward, forwardRest, backwardRest, trace   string
	update                                                        map[kind]string
	note, decide, forget, remove, removeRange, removeRest, insert string
}

// kind tells the statements apart that make a change's condition.
type kind struct{ create, locked, lock, unlock bool }

// sentinel is the key of the row that each partition has.
var sentinel = []byte{}

// traceLasts is for how many seconds a partition remembers the last change of a process. The
// fate of a change is settled within seconds, or never.
const traceLasts = 86400

func newStore(session *gocql.Session, o Options) *store {
	s := &store{session: session, o: o, table: o.Keyspace + "." + tableName, update: make(map[kind]string)}
	const in = ` WHERE store = ? AND part = ?`
	read := `SELECT row, value, ver, lock FROM ` + s.table + in
	s.byKeys = read + ` AND row IN ?`
	s.forward = read + ` AND row >= ? AND row < ? LIMIT ?`
	s.forwardRest = read + ` AND row >= ? LIMIT ?`
	s.backward = read + ` AND row >= ? AND row < ? ORDER BY row DESC LIMIT ?`
	s.backwardRest = read + ` AND row >= ? ORDER BY row DESC LIMIT ?`
	s.trace = `SELECT row, value, ver, lock, last[?], done[?], staged FROM ` + s.table + in + ` AND row = ?`
	for _, k := range []kind{{}, {create: true}, {lock: true}, {create: true, lock: true}, {locked: true}, {locked: true, unlock: true}} {
		set, condition := `ver = ?`, ` IF ver = ? AND lock = null`
		if k.lock {
			set += `, lock = ?, staged = ?`
		}
		if k.unlock {
			set += `, lock = null, staged = null`
		}
		if k.create {
			condition = ` IF ver = null`
		}
		if k.locked {
			condition = ` IF ver = ?`
		}
		s.update[k] = `UPDATE ` + s.table + ` SET ` + set + in + condition
	}
	s.note = fmt.Sprintf(`UPDATE %s USING TTL %d SET last[?] = ?`, s.table, traceLasts) + in
	s.decide = `UPDATE ` + s.table + ` SET done[?] = true` + in
	s.forget = `DELETE done[?] FROM ` + s.table + in
	s.remove = `DELETE FROM ` + s.table + in + ` AND row = ?`
	s.removeRange = `DELETE FROM ` + s.table + in + ` AND row >= ? AND row < ?`
	s.removeRest = `DELETE FROM ` + s.table + in + ` AND row >= ?`
	s.insert = `INSERT INTO ` + s.table + ` (store, part, row, value) VALUES (?, ?, ?, ?)`
	return s
}

func (s *store) level(l partition.Level) gocql.Consistency {
	switch l {
	case partition.Serial:
		return levels[s.o.Serial]
	case partition.Single:
		if s.o.Single != "serial" {
			return levels[s.o.Single]
		}
		return levels[s.o.Serial]
	}
	if s.o.Serial == "local_serial" {
		return gocql.LocalQuorum
	}
	return gocql.Quorum
}

// warnedFrom is from how many deleted rows on that a read has passed over Cassandra warns
// (tombstone_warn_threshold), unless it is told otherwise.
const warnedFrom = 1000

// Read implements partition.Store.
func (s *store) Read(ctx context.Context, q *partition.Query) (a partition.Answer, err error) {
	var query *gocql.Query
	lo, limit := q.Lo, q.Limit
	if limit > 1 {
		limit++ // tells whether there are more
	}
	if len(lo) == 0 {
		lo = sentinel // which is one of the rows
		limit++
	}
	switch {
	case q.Keys != nil:
		keys := make([][]byte, 1, len(q.Keys)+1)
		keys[0] = sentinel
		for _, key := range q.Keys {
			if len(key) > 0 {
				keys = append(keys, key)
			}
		}
		query = s.session.Query(s.byKeys, s.o.Prefix, q.Part, keys)
	case q.Hi == nil && q.Reverse:
		query = s.session.Query(s.backwardRest, s.o.Prefix, q.Part, lo, limit)
	case q.Hi == nil:
		query = s.session.Query(s.forwardRest, s.o.Prefix, q.Part, lo, limit)
	case q.Reverse:
		query = s.session.Query(s.backward, s.o.Prefix, q.Part, lo, q.Hi, limit)
	default:
		query = s.session.Query(s.forward, s.o.Prefix, q.Part, lo, q.Hi, limit)
	}
	iter := query.Consistency(s.level(q.Level)).IterContext(ctx)
	a.Known = q.Keys != nil // without any row the partition does not exist
	var row, value, lock []byte
	for iter.Scan(&row, &value, &a.Version, &lock) {
		a.Known = true
		if len(lock) > 0 {
			a.Lock = lock
		}
		if len(row) == 0 {
			a.Note = value
		}
		if q.Keys == nil && len(a.Rows) == q.Limit && len(row) > 0 {
			a.More = true
			break
		}
		if len(row) > 0 {
			a.Rows = append(a.Rows, partition.Row{Key: row, Value: value})
		}
		row, value, lock = nil, nil, nil
	}
	warned := slices.ContainsFunc(iter.Warnings(), func(w string) bool { return strings.Contains(w, "tombstone") })
	if err := iter.Close(); err != nil {
		return partition.Answer{}, readError(ctx, err)
	}
	if q.Keys == nil && q.Limit == 1 && len(a.Rows) == 1 {
		a.More = true
	}
	if warned {
		a.Passed = warnedFrom
	}
	if q.Keys == nil && !a.Known && len(q.Lo) == 0 && q.Hi == nil {
		a.Known = true // not even the sentinel
	}
	return a, nil
}

// Trace implements partition.Store.
func (s *store) Trace(ctx context.Context, part int, owner int32, txn []byte) (t partition.Trace, err error) {
	var row []byte
	var version, last *int64
	var decided *bool
	err = s.session.Query(s.trace, owner, hex.EncodeToString(txn), s.o.Prefix, part, sentinel).Consistency(levels[s.o.Serial]).
		ScanContext(ctx, &row, &t.Note, &version, &t.Lock, &last, &decided, &t.Staged)
	if err == gocql.ErrNotFound {
		return partition.Trace{}, nil
	}
	if err != nil {
		return t, readError(ctx, err)
	}
	if version != nil {
		t.Version = *version
	}
	if last != nil {
		t.Last = *last
	}
	t.Decided = decided != nil && *decided
	if len(t.Lock) == 0 {
		t.Lock = nil
	}
	return t, nil
}

// Change implements partition.Store: one conditional batch.
func (s *store) Change(ctx context.Context, c *partition.Change) (applied bool, now partition.State, err error) {
	b := s.session.Batch(gocql.UnloggedBatch).Consistency(levels[s.o.Commit]).SerialConsistency(levels[s.o.Serial])
	k := kind{create: c.From == 0, locked: c.Locked, lock: c.Lock != nil, unlock: c.Unlock}
	args := []any{c.To}
	if k.lock {
		args = append(args, c.Lock, c.Staged)
	}
	if args = append(args, s.o.Prefix, c.Part); !k.create {
		args = append(args, c.From)
	}
	b.Query(s.update[k], args...)
	b.Query(s.note, c.Owner, c.To, s.o.Prefix, c.Part)
	if k.create || c.Note != nil {
		b.Query(s.insert, s.o.Prefix, c.Part, sentinel, append(sentinel, c.Note...))
	}
	if c.Decide != nil {
		b.Query(s.decide, hex.EncodeToString(c.Decide), s.o.Prefix, c.Part)
	}
	for _, id := range c.Forget {
		b.Query(s.forget, hex.EncodeToString(id), s.o.Prefix, c.Part)
	}
	for _, r := range c.Ranges {
		if r.Hi == nil {
			b.Query(s.removeRest, s.o.Prefix, c.Part, r.Lo)
		} else {
			b.Query(s.removeRange, s.o.Prefix, c.Part, r.Lo, r.Hi)
		}
	}
	for _, key := range c.Deletes {
		b.Query(s.remove, s.o.Prefix, c.Part, key)
	}
	for _, r := range c.Puts {
		b.Query(s.insert, s.o.Prefix, c.Part, r.Key, r.Value)
	}
	was := map[string]any{}
	applied, iter, err := b.MapExecCASContext(ctx, was)
	if err == nil {
		err = iter.Close()
	}
	if err != nil {
		return false, now, changeError(ctx, err)
	}
	if applied {
		return true, partition.State{Version: c.To}, nil
	}
	version, known := was["ver"].(int64)
	if !known { // the answer shows columns of the conditions only
		a, err := s.Read(ctx, &partition.Query{Part: c.Part, Keys: [][]byte{nil}})
		return false, a.State, err
	}
	now.Version = version
	if lock, _ := was["lock"].([]byte); len(lock) > 0 {
		now.Lock = lock
	}
	return false, now, nil
}

// Time implements partition.Store.
func (s *store) Time(ctx context.Context) (t time.Time, err error) {
	err = s.session.Query(`SELECT toTimestamp(now()) FROM system.local`).Consistency(gocql.One).ScanContext(ctx, &t)
	if err != nil {
		err = readError(ctx, err)
	}
	return t, err
}

// Address implements partition.Store.
func (s *store) Address() string {
	if host := s.o.Hosts[0]; strings.Contains(host, "]:") || strings.Count(host, ":") == 1 {
		return host
	}
	return net.JoinHostPort(strings.Trim(s.o.Hosts[0], "[]"), "9042")
}

// Close implements partition.Store.
func (s *store) Close() error {
	s.session.Close()
	return nil
}
