package cql

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"redoubt/engine"
	"redoubt/engine/partition"
)

// The table:
//
//	store    the prefix of the store, which several Redoubts that share a table differ in
//	part     the number of the partition (partition.Layout); -1 has what the store is
//	row      the row's key; the empty one is the sentinel, which exists in each partition that
//	         was ever changed, so that its static columns are read also if no row is found
//	value    the row's value and version (partition/row.go); the sentinel's: the partition's
//	         note (partition/gap.go)
//	ver      static: the partition's version
//	lock     static: the lock of a transaction over several partitions
//	staged   static: what that transaction writes here
//	last     static: the versions that processes have made last, by their numbers, for a day
//	done     static: the transactions that are committed and not applied everywhere yet
const tableName = "redoubt"

// schemaVersion is the version of the above.
const schemaVersion = 1

const createTable = `CREATE TABLE IF NOT EXISTS %s.%s (store text, part int, row blob, value blob, ver bigint static, lock blob static, ` +
	`staged blob static, last map<int, bigint> static, done map<text, boolean> static, PRIMARY KEY ((store, part), row)) WITH id = %s`

// about is what a store is, in the row of partition -1.
type about struct {
	Version int    `json:"version"`
	Width   int    `json:"width"`
	Serial  string `json:"serial"`
}

// prepare makes the keyspace, the table and the store if they do not exist, and returns the
// layout of the store.
func (s *store) prepare(ctx context.Context) (l partition.Layout, err error) {
	if err := s.requirePaxos(ctx); err != nil {
		return l, err
	}
	if err := s.create(ctx); err != nil {
		return l, fmt.Errorf("make the table %s.%s: %w", s.o.Keyspace, tableName, err)
	}
	is, err := s.settleAbout(ctx)
	if err != nil {
		return l, err
	}
	switch {
	case is.Version > schemaVersion:
		return l, fmt.Errorf("%w: the store %q was made by a newer version (%d, this one knows %d): %w", errRefused, s.o.Prefix, is.Version, schemaVersion, engine.ErrFormat)
	case is.Serial != s.o.Serial:
		return l, fmt.Errorf("%w: the store %q is used with cql-serial %s, not %s: all processes must agree", errRefused, s.o.Prefix, is.Serial, s.o.Serial)
	}
	return partition.NewLayout(s.o.Slots, is.Width, s.o.Apart...)
}

// requirePaxos refuses a node whose light-weight transactions may lose a read's or a write's
// outcome where others do not. A store without that setting is another product.
func (s *store) requirePaxos(ctx context.Context) error {
	var variant string
	err := s.session.Query(`SELECT value FROM system_views.settings WHERE name = 'paxos_variant'`).Consistency(gocql.One).ScanContext(ctx, &variant)
	if invalid := new(gocql.RequestErrInvalid); errors.Is(err, gocql.ErrNotFound) || errors.As(err, &invalid) {
		return nil
	}
	if err != nil {
		return err
	}
	if variant != "v2" {
		return fmt.Errorf("%w: paxos_variant of the nodes is %s, and must be v2: set it in cassandra.yaml on every node", errRefused, variant)
	}
	return nil
}

// create makes keyspace and table. The table has an id that follows from its name: nodes that
// make it at the same time, for several processes, make the same one.
func (s *store) create(ctx context.Context) error {
	var name string
	find := s.session.Query(`SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?`, s.o.Keyspace, tableName)
	err := find.Consistency(gocql.One).ScanContext(ctx, &name)
	if err == nil || !errors.Is(err, gocql.ErrNotFound) {
		return err
	}
	if s.o.Existing {
		return fmt.Errorf("%w: keyspace %s has no table %s", errRefused, s.o.Keyspace, tableName)
	}
	replication, err := replicationMap(s.o.Replication)
	if err != nil {
		return err
	}
	id := sha256.Sum256([]byte(s.o.Keyspace + "." + tableName))
	id[6], id[8] = id[6]&0x0f|0x50, id[8]&0x3f|0x80
	uuid, err := gocql.UUIDFromBytes(id[:16])
	if err != nil {
		return err
	}
	for _, text := range []string{
		fmt.Sprintf(`CREATE KEYSPACE IF NOT EXISTS %s WITH replication = %s`, s.o.Keyspace, replication),
		fmt.Sprintf(createTable, s.o.Keyspace, tableName, uuid),
	} {
		if err := s.session.Query(text).ExecContext(ctx); err != nil {
			return err
		}
	}
	return s.session.AwaitSchemaAgreement(ctx)
}

// replicationMap is the replication of a keyspace as CQL has it.
func replicationMap(text string) (string, error) {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return fmt.Sprintf(`{'class': 'SimpleStrategy', 'replication_factor': %d}`, n), nil
	}
	parts := []string{`'class': 'NetworkTopologyStrategy'`}
	for _, p := range strings.Split(text, ",") {
		dc, number, _ := strings.Cut(strings.TrimSpace(p), ":")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || dc == "" || strings.ContainsAny(dc, `'"{}\`) {
			return "", fmt.Errorf("%w: cql-replication is %q: it is a number, or dc:number for each data centre, with commas", errRefused, text)
		}
		parts = append(parts, fmt.Sprintf(`'%s': %d`, dc, n))
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// settleAbout reads what the store is, or makes it what the options say if it is new.
func (s *store) settleAbout(ctx context.Context) (is about, err error) {
	text, err := json.Marshal(about{schemaVersion, s.o.Width, s.o.Serial})
	if err != nil {
		return is, err
	}
	put := s.session.Query(fmt.Sprintf(`INSERT INTO %s (store, part, row, value) VALUES (?, -1, ?, ?) IF NOT EXISTS`, s.table), s.o.Prefix, sentinel, text)
	if !s.o.Existing {
		if _, err := put.MapScanCASContext(ctx, map[string]any{}); err != nil {
			return is, err // it is made again: another attempt finds out whether it was
		}
	}
	var found []byte
	get := s.session.Query(fmt.Sprintf(`SELECT value FROM %s WHERE store = ? AND part = -1 AND row = ?`, s.table), s.o.Prefix, sentinel)
	if err := get.Consistency(levels[s.o.Serial]).ScanContext(ctx, &found); errors.Is(err, gocql.ErrNotFound) {
		return is, fmt.Errorf("%w: there is no store %q in keyspace %s", errRefused, s.o.Prefix, s.o.Keyspace)
	} else if err != nil {
		return is, err
	}
	if err := json.Unmarshal(found, &is); err != nil {
		return is, fmt.Errorf("what the store %q is does not decode: %w", s.o.Prefix, engine.ErrCorrupt)
	}
	return is, nil
}
