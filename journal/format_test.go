package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func fixSegmentHeader(b []byte) {
	binary.BigEndian.PutUint32(b[36:], crc32.Checksum(b[:36], castagnoli))
}

// goldenLog writes the log of the golden files.
func goldenLog(t *testing.T, tmp string) {
	t.Helper()
	for round := range 2 {
		j, _ := mustOpen(t, Options{Dir: tmp, Policy: No, LogID: 0x52444254}, 0)
		mustAppend(t, j, "SET k v")
		if round == 0 {
			ok(t, j.Sync(1))
		}
		mustAppend(t, j, "")
		if round == 1 {
			ok(t, j.Sync(4)) // now, since the one of Rotate comes at any time
			ok(t, j.Rotate())
			mustAppend(t, j, strings.Repeat("0123456789", 20))
		}
		mustClose(t, j)
	}
}

// goldenRaftLog writes the Raft log of the golden files: an entry that is voided
// and written again by another leader, and a mark.
func goldenRaftLog(t *testing.T, tmp string) {
	t.Helper()
	for round := range uint64(2) {
		r := mustOpenRaft(t, Options{Dir: tmp, Policy: No, LogID: 0x52444254}, Applied{})
		first, term := 1+2*round, 1+2*round
		mustAppendRaft(t, r.RaftLog, RaftHead{Index: first, Term: term, Commit: first - 1, Time: 0x19a9d000000, Type: EntryEmpty}, "")
		mustAppendRaft(t, r.RaftLog, RaftHead{Index: first + 1, Term: term, Commit: first, Time: 0x19a9d000001, Type: EntryRows, Version: 1}, "SET k v")
		ok(t, r.Sync(r.Position()))
		_, err := r.Cut(first)
		ok(t, err)
		mustAppendRaft(t, r.RaftLog, RaftHead{Index: first + 1, Term: term + 1, Commit: first, Time: 0x19a9d000002, Type: EntryConf, Version: 1}, "conf")
		r.Commit(first + 1)
		if round == 1 {
			ok(t, r.Sync(8)) // now, since the one of Rotate comes at any time
			ok(t, r.Rotate())
		}
		ok(t, r.Close())
	}
}

// The bytes of the format do not change by accident: a changed golden file
// needs a new version, and the old files must be kept and still be read.
func TestGolden(t *testing.T) {
	for name, write := range map[string]func(*testing.T, string){"v1": goldenLog, "v2": goldenRaftLog} {
		t.Run(name, func(t *testing.T) { compareGolden(t, filepath.Join("testdata", name), write) })
	}
}

func compareGolden(t *testing.T, golden string, write func(*testing.T, string)) {
	tmp := t.TempDir()
	write(t, tmp)
	names, err := OS.List(tmp)
	ok(t, err)
	if *rewrite {
		ok(t, os.RemoveAll(golden))
		ok(t, os.MkdirAll(golden, 0o755))
	}
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(tmp, name))
		ok(t, err)
		if *rewrite {
			ok(t, os.WriteFile(filepath.Join(golden, name), got, 0o644))
		}
		want, err := os.ReadFile(filepath.Join(golden, name))
		ok(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, hex.Dump(got), hex.Dump(want))
		}
	}
	if len(names) != 3 {
		t.Errorf("%d segments", len(names))
	}
}

// The golden files can be read: from a copy, since opening writes.
func TestGoldenIsRead(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	ok(t, os.CopyFS(tmp, os.DirFS(filepath.Join("testdata", "v1"))))
	j, got := mustOpen(t, Options{Dir: tmp}, 0)
	wantRecords(t, got, 1, "SET k v", "", "SET k v", "", strings.Repeat("0123456789", 20))
	mustClose(t, j)
}

func TestGoldenRaftLogIsRead(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	ok(t, os.CopyFS(tmp, os.DirFS(filepath.Join("testdata", "v2"))))
	r := mustOpenRaft(t, Options{Dir: tmp}, Applied{})
	got := make([]string, 0, 4)
	for _, e := range r.replayed {
		got = append(got, fmt.Sprintf("%d/%d %v %q", e.Index, e.Term, e.Type, e.Payload))
	}
	want := []string{`1/1 empty ""`, `2/2 conf change "conf"`, `3/3 empty ""`, `4/4 conf change "conf"`}
	if !slices.Equal(got, want) || r.Position() != 8 || r.Committed() != 4 {
		t.Errorf("%q, position %d, committed %d", got, r.Position(), r.Committed())
	}
	ok(t, r.Close())
}

// The examples in FORMAT.md are the first golden files.
func TestFormatExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("FORMAT.md")
	ok(t, err)
	for _, version := range []string{"v1", "v2"} {
		want, err := os.ReadFile(filepath.Join("testdata", version, segmentName(1)))
		ok(t, err)
		dump := hex.Dump(want)
		for line := range strings.Lines(dump) {
			line = strings.TrimSpace(strings.SplitN(line, "|", 2)[0])
			if !strings.Contains(string(text), line) {
				t.Fatalf("FORMAT.md lacks %q of\n%s", line, dump)
			}
		}
	}
}

// FuzzOpen has no log opened differently twice, by either way of opening.
func FuzzOpen(f *testing.F) {
	for _, version := range []string{"v1", "v2"} {
		for n := 1; n <= 3; n++ {
			b, err := os.ReadFile(filepath.Join("testdata", version, segmentName(uint64(n))))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, []byte{}, uint64(0))
			f.Add(b[:len(b)-40], b, uint64(1))
		}
	}
	f.Fuzz(func(t *testing.T, one, two []byte, from uint64) {
		if from == 1<<64-1 {
			from--
		}
		im := image{segmentName(1): one, segmentName(2): two}
		fs := im.write(t)
		before, err := Walk(fs, dir, from, func(Entry) error { return nil })
		j, got, oerr := open(Options{FS: fs, SegmentBytes: 1000}, from)
		if errors.Is(oerr, ErrReplicated) {
			fuzzRaft(t, fs, before, from)
			return
		}
		if (err != nil) != errors.Is(oerr, ErrVersion) {
			t.Fatalf("Walk: %v, Open: %v", err, oerr)
		}
		if oerr != nil {
			if errors.Is(oerr, ErrCorrupt) {
				if len(before.Problems) == 0 {
					t.Fatalf("Walk saw no problem, Open says %v", oerr)
				}
				if _, err := Salvage(fs, dir, from); err != nil {
					t.Fatal(err)
				}
				if j, _, err = open(Options{FS: fs}, from); err != nil {
					t.Fatalf("after salvage: %v", err)
				}
				mustClose(t, j)
			}
			return
		}
		// What was read once is read again, and can be appended to.
		seq := mustAppend(t, j, "more")
		mustClose(t, j)
		j, again := mustOpen(t, Options{FS: fs}, from)
		got = append(got, replayed{seq, "more"})
		if len(again) != len(got) {
			t.Fatalf("%d records, then %d", len(got), len(again))
		}
		for i := range got {
			if got[i] != again[i] {
				t.Fatalf("record %d was %v and is %v", i, got[i], again[i])
			}
		}
		mustClose(t, j)
	})
}

// fuzzRaft opens what may be a Raft log. The tables have nothing but position from:
// most of such logs do not fit to that.
func fuzzRaft(t *testing.T, fs FS, before Report, from uint64) {
	have := Applied{Position: from, Index: from, Term: 1}
	r, err := openRaft(Options{FS: fs, SegmentBytes: 1000}, have)
	if errors.Is(err, ErrCorrupt) {
		if len(before.Problems) == 0 && !strings.Contains(err.Error(), "take this node out") {
			t.Fatalf("Walk saw no problem, OpenRaft says %v", err)
		}
		if _, err := Salvage(fs, dir, from); err != nil {
			t.Fatal(err)
		}
		if r, err = openRaft(Options{FS: fs, SegmentBytes: 1000}, have); errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), "take this node out") {
			return // the tables are of another log
		}
	}
	ok(t, err)
	h := RaftHead{Index: r.Last() + 1, Term: 1<<64 - 1, Commit: r.Committed()}
	if _, err := r.Append(h, entryRecord("more")); err != nil {
		if h.Index < 1<<64-2 {
			t.Fatal(err)
		}
		ok(t, r.Close())
		return
	}
	first, last, committed := r.First(), r.Last(), r.Committed()
	entries, err := r.Entries(first, last+1, 1<<30)
	ok(t, err)
	ok(t, r.Close())
	again := mustOpenRaft(t, Options{FS: fs}, have)
	if again.First() > first || again.Last() != last || again.Committed() != committed {
		t.Fatalf("from %d to %d, committed %d; then from %d to %d, committed %d", first, last, committed, again.First(), again.Last(), again.Committed())
	}
	more, err := again.Entries(first, last+1, 1<<30)
	ok(t, err)
	if !reflect.DeepEqual(entries, more) {
		t.Fatalf("entries are different when they are read again")
	}
	ok(t, again.Close())
}

// FuzzRaftHead reads heads of entries, cuts and marks, and writes them again.
func FuzzRaftHead(f *testing.F) {
	f.Add(uint8(3), make([]byte, 40))
	f.Add(uint8(4), make([]byte, 16))
	f.Add(uint8(5), make([]byte, 8))
	f.Fuzz(func(t *testing.T, kind uint8, payload []byte) {
		h := head{length: uint32(len(payload)), log: 7, seq: 9, synced: 3, kind: Kind(kind)}
		rec := append(make([]byte, HeadRoom), payload...)
		if len(rec) < h.kind.room() {
			return
		}
		h.put(rec, crc32.Checksum(rec[h.kind.room():], castagnoli))
		got, ok := parse(rec)
		if !ok || h.kind.of() != raftVersion {
			return
		}
		if h.sum = got.sum; got != h || sumOf(rec, h.kind) != h.sum {
			t.Fatalf("%+v became %+v", h, got)
		}
		var r RaftHead
		if why := r.parse(h.kind, rec); why != "" || h.kind != RaftEntry {
			return
		}
		again := append([]byte(nil), rec...)
		clear(again[HeadRoom:RaftRoom])
		if r.put(again); !bytes.Equal(again, rec) {
			t.Fatalf("%x became %x", rec, again)
		}
	})
}
