package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
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

// The bytes of the format do not change by accident: a changed golden file
// needs a new version, and the old files must be kept and still be read.
func TestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "v1")
	tmp := t.TempDir()
	goldenLog(t, tmp)
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

// The example in FORMAT.md is the first golden file.
func TestFormatExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("FORMAT.md")
	ok(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", "v1", segmentName(1)))
	ok(t, err)
	dump := hex.Dump(want)
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(strings.SplitN(line, "|", 2)[0])
		if !strings.Contains(string(text), line) {
			t.Fatalf("FORMAT.md lacks %q of\n%s", line, dump)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for n := 1; n <= 3; n++ {
		b, err := os.ReadFile(filepath.Join("testdata", "v1", segmentName(uint64(n))))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte{}, uint64(0))
		f.Add(b[:len(b)-40], b, uint64(1))
	}
	f.Fuzz(func(t *testing.T, one, two []byte, from uint64) {
		if from == 1<<64-1 {
			from--
		}
		im := image{segmentName(1): one, segmentName(2): two}
		fs := im.write(t)
		before, err := Walk(fs, dir, from, func(Entry) error { return nil })
		j, got, oerr := open(Options{FS: fs, SegmentBytes: 1000}, from)
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
