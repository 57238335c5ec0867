package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/zset"
)

func TestCheckOfAHealthyStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newStore(t, dir)
	f.populate()
	must(t, f.eng.Checkpoint(filepath.Join(dir, "checkpoint-1")))
	// A checkpoint can be looked at while the server runs.
	out, log, err := use("check", "--dir", filepath.Join(dir, "checkpoint-1"))
	if err != nil || !strings.HasSuffix(out, "no inconsistencies\n") {
		t.Errorf("the checkpoint: %v\n%s", err, out)
	}
	if !strings.Contains(log, "tables: 100 %") || !strings.Contains(log, "rows: 100 %") {
		t.Errorf("progress: %s", log)
	}
	f.close()
	for _, at := range []string{dir, filepath.Join(dir, "local"), filepath.Join(dir, "local", "journal")} {
		out, _, err := use("check", "--dir", at)
		if err != nil || !strings.Contains(out, "keys: 406, 203 of them with an expiry, 2 with rows of their own\n") {
			t.Errorf("%s: %v\n%s", at, err, out)
		}
	}
}

// What is wrong with rows is reported by kind, and kinds that are long are cut.
func TestCheckReportsRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newStore(t, dir)
	f.populate()
	meta := func(ks byte, key string) []byte {
		slot := keyspace.SlotOf([]byte(key))
		return append([]byte{byte(slot >> 8), byte(slot), 1, 0, 0, 0, ks}, key...)
	}
	expiring := append([]byte{0x12}, binary.BigEndian.AppendUint64(nil, someTime)...)
	f.raw(func(b *engine.Batch) {
		b.Put(meta(2, "foo"), []byte{1})
		b.Add([]byte{0xff, 2, 0, 0, 0, 1}, 5)
		for i := range 20 {
			b.Put(meta(4, fmt.Sprint("dies", i)), append(expiring, "x"...))
		}
		b.Add([]byte{0xff, 2, 0, 0, 0, 4}, 20)
		b.Add([]byte{0xff, 3, 0, 0, 0, 4}, 20)
		b.Put([]byte{0x2f, 0x96, 2, 0, 0, 0, 0, 0, 0, 0, 9, 1}, []byte("orphan"))
	})
	f.close()
	out, _, err := use("check", "--dir", dir, "--limit", "3")
	if err == nil || err.Error() != "23 inconsistencies in "+filepath.Join(dir, "local") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`meta: key "foo" of database 0 (keyspace 2), slot 12182: store is corrupt: meta row of 1 bytes: 01` + "\n",
		"counter: count of keys of database 1 (keyspace 1): it says 8, and there are 3\n",
		"orphan: sub rows of value 0000000000000009, slot 12182: no key has this value, and no garbage row either\n",
		"of database 3 (keyspace 4), slot ",
		": it has no expire row for 2023-11-14T22:13:20.000Z\n",
		"expire: 20 in all, 17 are not listed\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %s", out, want)
		}
	}
	if n := strings.Count(out, "expire: "); n != 4 {
		t.Errorf("%d lines about expire rows:\n%s", n, out)
	}
}

func TestCheckReportsFlippedBits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		at   int64
		want string
	}{
		"a table":   {"store/*.sst", 5000, "table: store/%s: offset "},
		"a footer":  {"store/*.sst", -10, "table: store/%s: "},
		"a segment": {"journal/*.jnl", 100, "journal: journal/%s, offset "},
	} {
		dir := populated(t)
		file := only(t, dir, "local", c.file)
		flip(t, file, c.at)
		before, err := os.ReadFile(file)
		must(t, err)
		out, _, err := use("check", "--dir", dir)
		if want := fmt.Sprintf(c.want, filepath.Base(file)); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s\nlacks %s", name, err, out, want)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%s: the file was changed (%v)", name, err)
		}
	}
}

// A tail that a crash has torn is nothing to complain of.
func TestCheckForgivesATornTail(t *testing.T) {
	t.Parallel()
	dir := populated(t)
	seg := only(t, dir, "local", "journal", "*.jnl")
	b, err := os.ReadFile(seg)
	must(t, err)
	must(t, os.WriteFile(seg, append(b[:len(b):len(b)], "half of a record"...), 0o644))
	out, _, err := use("check", "--dir", dir)
	if err != nil || !strings.Contains(out, "note: journal: journal/"+filepath.Base(seg)) || !strings.Contains(out, "the next start cuts it off") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The tools know the rows of collections.
func TestToolsKnowCollections(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newStore(t, dir)
	limits := types.DefaultLimits
	var ref keyspace.Ref
	f.DoIn(0, func(tx *keyspace.Tx) {
		z := zset.Create(tx, []byte("board"), &limits)
		for i := range 2000 {
			z.Add(fmt.Appendf(nil, "player %d", i), float64(i))
		}
		z.Save()
		ref = tx.Find([]byte("board")).Ref()
	})
	f.close()
	out, _, err := use("check", "--dir", dir)
	if err != nil || !strings.Contains(out, "rows: 4014; keys: 1, 0 of them with an expiry, 1 with rows of their own\n") {
		t.Errorf("%v\n%s", err, out)
	}
	f = newStore(t, dir)
	score := keyspace.AppendRowKey(nil, ref, keyspace.ScoreRow)
	f.raw(func(b *engine.Batch) { b.Delete(append(score, "\xc0\x8f\x40\x00\x00\x00\x00\x00player 1000"...)) })
	f.close()
	out, _, err = use("check", "--dir", dir)
	for _, want := range []string{`value: member "player 1000" of value `, ": it has no score row for its score; it belongs to key \"board\" ", "value: segment from score ", " of member \"player "} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v\n%s\nlacks %s", err, out, want)
		}
	}
	out, _, err = use("journal", "--dir", dir)
	for _, want := range []string{`put    key "board" of database 0 (keyspace 1), slot `, " = zset, rows, 2000 members, value ", `delete score 1000 of member "player 1000" of value `, "put    first segment of value "} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}
