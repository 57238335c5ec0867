package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// image is the files of a log, as bytes.
type image map[string][]byte

func imageOf(t testing.TB, fs FS) image {
	t.Helper()
	im := image{}
	names, err := fs.List(dir)
	ok(t, err)
	for _, name := range names {
		f, err := fs.Open(filepath.Join(dir, name))
		ok(t, err)
		size, err := f.Size()
		ok(t, err)
		b := make([]byte, size)
		if size > 0 {
			_, err = f.ReadAt(b, 0)
			ok(t, err)
		}
		ok(t, f.Close())
		im[name] = b
	}
	return im
}

// write makes a file system that has the image.
func (im image) write(t testing.TB) FS {
	t.Helper()
	mem := vfs.NewMem() // not crashable: faster
	ok(t, mem.MkdirAll(dir, 0o755))
	fs := pebbleFS{mem}
	for name, b := range im {
		f, err := fs.Create(filepath.Join(dir, name))
		ok(t, err)
		_, err = f.WriteAt(b, 0)
		ok(t, err)
		ok(t, f.Close())
	}
	return fs
}

// sample is a log of several segments: its image with zeros at the ends cut
// off, its payloads, and the number up to which the log itself says that it
// was synced. If it was not closed, it has a tail that was never synced.
func sample(t testing.TB, closed bool) (image, []string, uint64) {
	t.Helper()
	_, fs := newFS(t)
	tick := make(chan time.Time)
	j, _ := mustOpen(t, Options{FS: fs, SegmentBytes: 400, Policy: No, LogID: 0xabcd1234, Tick: tick}, 0)
	var payloads []string
	for i := range 14 {
		payloads = append(payloads, payloadOf(3, uint64(i), []int{0, 17, 60, 110}[i%4]))
		mustAppend(t, j, payloads[i])
		if i == 4 {
			ok(t, j.Sync(j.Last()))
			ticks(t, j, tick, 2) // the second writes a mark in the middle
		}
		if i == 9 {
			ok(t, j.Sync(j.Last()))
		}
	}
	im := imageOf(t, fs)
	if closed {
		mustClose(t, j)
		im = imageOf(t, fs)
	}
	synced := uint64(0)
	ends := map[string]int64{}
	r, err := Walk(im.write(t), dir, 0, func(e Entry) error {
		synced = max(synced, e.Synced)
		ends[e.File] = e.Offset + padded(HeadRoom+int64(len(e.Payload)))
		return nil
	})
	if err != nil || len(r.Problems) > 0 || r.Records != 14 || r.Marks < 1 {
		t.Fatalf("the sample: %+v %v", r, err)
	}
	for name, b := range im {
		if end := ends[name]; end == 0 {
			delete(im, name) // a spare
		} else if end < int64(len(b)) {
			im[name] = b[:end]
		}
	}
	if len(im) < 3 {
		t.Fatalf("the sample has %d segments", len(im))
	}
	mustClose(t, j)
	return im, payloads, synced
}

// Every flipped bit is noticed: the log is refused, or it is cut where nothing
// says that it was synced, or nothing is missing at all. Never is it different.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	for _, closed := range []bool{true, false} {
		im, payloads, synced := sample(t, closed)
		if closed != (synced == 14) {
			t.Fatalf("the sample (closed: %v) is synced up to %d", closed, synced)
		}
		refused, cut := 0, 0
		for name, b := range im {
			for i := range b {
				bit := byte(1) << rng.IntN(8)
				b[i] ^= bit
				fs := im.write(t)
				r, err := Walk(fs, dir, 0, func(e Entry) error {
					if e.Kind == Data && string(e.Payload) != payloads[e.Seq-1] {
						t.Fatalf("byte %d of %s: Walk shows a wrong record %d", i, name, e.Seq)
					}
					return nil
				})
				if err != nil || len(r.Problems) == 0 {
					t.Fatalf("byte %d of %s: Walk reports %+v %v", i, name, r, err)
				}
				j, got, err := open(Options{FS: fs}, 0)
				switch {
				case errors.Is(err, ErrCorrupt):
					refused++
					if !strings.Contains(err.Error(), ".jnl, offset ") || !r.Problems[0].Corrupt {
						t.Fatalf("byte %d of %s: %v, Walk says %v", i, name, err, r.Problems)
					}
					s, err := Salvage(fs, dir, 0)
					if err != nil || s.Problem.File == "" || len(s.Aside) == 0 {
						t.Fatalf("byte %d of %s: salvage: %+v %v", i, name, s, err)
					}
					if j, got, err = open(Options{FS: fs}, 0); err != nil || uint64(len(got)) != s.Kept {
						t.Fatalf("byte %d of %s: after salvage %d records of %d: %v", i, name, len(got), s.Kept, err)
					}
				case err != nil:
					t.Fatalf("byte %d of %s: %v", i, name, err)
				case len(got) < len(payloads):
					cut++
					if uint64(len(got)) < synced {
						t.Fatalf("byte %d of %s: cut to %d records, %d were synced", i, name, len(got), synced)
					}
				}
				wantRecords(t, got, 1, payloads[:len(got)]...)
				mustClose(t, j)
				b[i] ^= bit
			}
		}
		t.Logf("closed: %v: %d refused, %d cut", closed, refused, cut)
		if refused == 0 || closed != (cut == 0) {
			t.Errorf("closed: %v: %d refused, %d cut", closed, refused, cut)
		}
	}
}

// Files that are missing, cut or of another log.
func TestDamagedSegments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(im image)
		from uint64
		want string // of the error; "" if there is none
	}{
		"middle segment missing":     {func(im image) { delete(im, segmentName(2)) }, 0, "00000002.jnl, which stood before this one, is missing"},
		"first segment missing":      {func(im image) { delete(im, segmentName(1)) }, 0, "older segments are missing"},
		"first missing, not needed":  {func(im image) { delete(im, segmentName(1)) }, 6, ""},
		"second missing, not needed": {func(im image) { delete(im, segmentName(2)) }, 11, ""},
		"middle segment emptied":     {func(im image) { im[segmentName(2)] = nil }, 0, "header is damaged"},
		"segment shortened":          {func(im image) { im[segmentName(1)] = im[segmentName(1)][:110] }, 0, "longer than its file"},
		"two segments swapped":       {func(im image) { im[segmentName(1)], im[segmentName(2)] = im[segmentName(2)], im[segmentName(1)] }, 0, "names another segment"},
		"a newer version": {func(im image) {
			b := im[segmentName(2)]
			putSegmentHeader(b, 0xabcd1234, 2, 6)
			b[11] = 3
			fixSegmentHeader(b)
		}, 0, ErrVersion.Error()},
		"another log": {func(im image) { putSegmentHeader(im[segmentName(2)], 99, 2, 6) }, 0, "belongs to another log"},
		"spare at the end": {func(im image) {
			im[segmentName(20)] = make([]byte, 5000)
			im[segmentName(21)] = nil
		}, 0, ""},
		"other files": {func(im image) {
			im["00000001.jnl.damaged"], im["x"], im["1.jnl"], im["00000000.jnl"] = nil, nil, nil, nil
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im, payloads, _ := sample(t, true)
			c.harm(im)
			j, got, err := open(Options{FS: im.write(t)}, c.from)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrVersion) == errors.Is(err, ErrCorrupt) {
					t.Fatalf("want %q, got %v", c.want, err)
				}
				return
			}
			ok(t, err)
			wantRecords(t, got, c.from+1, payloads[c.from:]...)
			mustClose(t, j)
		})
	}
}

func TestWalkAndSalvageDescribe(t *testing.T) {
	t.Parallel()
	im, payloads, _ := sample(t, true)
	im[segmentName(1)][headerSize+HeadRoom+HeadRoom+3] ^= 1 // in record 2
	last := fmt.Sprintf("%08d.jnl", len(im))
	im[last] = append(im[last], "garbage"...)
	fs := im.write(t)
	var seen []uint64
	r, err := Walk(fs, dir, 0, func(e Entry) error {
		if e.Kind == Data {
			seen = append(seen, e.Seq)
		}
		return nil
	})
	ok(t, err)
	if len(seen) != 13 || seen[0] != 1 || seen[1] != 3 || r.Records != 13 || r.First != 1 || r.Last != 14 || r.Synced != 14 {
		t.Fatalf("seen %v, %+v", seen, r)
	}
	if len(r.Problems) != 2 || !r.Problems[0].Corrupt || r.Problems[0].Seq != 2 || r.Problems[0].Offset != headerSize+HeadRoom || r.Problems[1].Corrupt || r.Problems[1].File != last {
		t.Fatalf("%v", r.Problems)
	}
	stop := errors.New("stop")
	if _, err := Walk(fs, dir, 0, func(Entry) error { return stop }); err != stop {
		t.Fatalf("the error of visit became %v", err)
	}
	s, err := Salvage(fs, dir, 0)
	ok(t, err)
	if s.Kept != 1 || s.Lost != 12 || s.LostLast != 14 || !strings.Contains(s.Problem.String(), "record 2: ") || len(s.Aside) != len(im) {
		t.Fatalf("%+v", s)
	}
	after := imageOf(t, fs)
	for name, b := range im {
		if string(after[name+".damaged"]) != string(b) {
			t.Errorf("%s.damaged is not what %s was", name, name)
		}
	}
	j, got := mustOpen(t, Options{FS: fs}, 0)
	wantRecords(t, got, 1, payloads[0])
	mustAppend(t, j, "two again")
	mustClose(t, j)
	if s, err = Salvage(fs, dir, 0); err != nil || s.Problem.File != "" || s.Kept != 2 {
		t.Fatalf("salvage of a sound log: %+v %v", s, err)
	}
}

// A salvage that is interrupted can be done again.
func TestSalvageInterrupted(t *testing.T) {
	t.Parallel()
	im, payloads, _ := sample(t, true)
	im[segmentName(2)][headerSize+HeadRoom+1] ^= 1
	r, err := Walk(im.write(t), dir, 0, func(Entry) error { return nil })
	ok(t, err)
	kept := r.Problems[0].Seq - 1
	stop := errors.New("stop")
	for n := 1; ; n++ {
		fs := &hookFS{FS: im.write(t)}
		count := 0
		fs.set(func(o op) error {
			if o.changes() {
				if count++; count >= n {
					return stop
				}
			}
			return nil
		})
		_, err := Salvage(fs, dir, 0)
		if err != nil && !errors.Is(err, stop) {
			t.Fatal(err)
		}
		fs.set(nil)
		if _, again := Salvage(fs, dir, 0); again != nil {
			t.Fatal(again)
		}
		j, got := mustOpen(t, Options{FS: fs}, 0)
		wantRecords(t, got, 1, payloads[:kept]...)
		mustClose(t, j)
		if err == nil {
			if n < 5 {
				t.Fatalf("only %d steps", n)
			}
			return
		}
	}
}

// What was synced is told apart from a torn tail soon after: by a mark when
// nothing follows, and by Open for what it found.
func TestMarksClaimTheTail(t *testing.T) {
	t.Parallel()
	for _, p := range policies {
		mem, fs := newFS(t)
		tick := make(chan time.Time)
		j, _ := mustOpen(t, Options{FS: fs, Policy: p, Tick: tick}, 0)
		mustAppend(t, j, "one")
		ok(t, j.Sync(1))
		ticks(t, j, tick, 3) // the second sees no new record, the third waits for its end
		if w := j.Stats().Writes; w != 2 {
			t.Errorf("policy %d: %d writes, want a record and a mark", p, w)
		}
		if p != No { // where a mark is not worth an fsync
			flipTail(t, mem)
		}
		mustAppend(t, j, "two")
		ok(t, j.Sync(2))
		crashed := mem.CrashClone(vfs.CrashCloneCfg{}) // nothing claims two
		mustClose(t, j)
		flipTail(t, mem)
		j, got := mustOpen(t, Options{FS: pebbleFS{crashed}}, 0)
		wantRecords(t, got, 1, "one", "two")
		flipTail(t, crashed)
		mustClose(t, j)
	}
}

// flipTail crashes the file system without what is not synced, damages the last
// record and expects that Open refuses it.
func flipTail(t *testing.T, mem *vfs.MemFS) {
	t.Helper()
	fs := pebbleFS{mem.CrashClone(vfs.CrashCloneCfg{})}
	var at Entry
	_, err := Walk(fs, dir, 0, func(e Entry) error {
		if e.Kind == Data {
			at = e
		}
		return nil
	})
	ok(t, err)
	f, err := fs.OpenForWrite(filepath.Join(dir, at.File))
	ok(t, err)
	_, err = f.WriteAt([]byte{'X'}, at.Offset+HeadRoom)
	ok(t, err)
	ok(t, f.Close())
	if _, _, err := open(Options{FS: fs}, 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged record %d is not refused: %v", at.Seq, err)
	}
}

// Open writes again what it cannot know to be on disk, and only that.
func TestOpenWritesAgain(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		im, payloads, _ := sample(t, clean)
		fs := &hookFS{FS: im.write(t)}
		wrote := map[string]bool{}
		fs.set(func(o op) error {
			if o.kind == "write" {
				wrote[filepath.Base(o.name)] = true
			}
			return nil
		})
		j, got, err := open(Options{FS: fs, Policy: No, SegmentBytes: 1 << 30}, 0)
		fs.set(nil)
		ok(t, err)
		wantRecords(t, got, 1, payloads...)
		mustClose(t, j)
		last := 0
		for n := range im {
			if i, _ := parseName(n); int(i) > last {
				last = int(i)
			}
		}
		if old := wrote[segmentName(1)]; old {
			t.Errorf("clean: %v: the first segment was written, though later ones claim it", clean)
		}
		if tail := wrote[segmentName(uint64(last))]; tail == clean {
			t.Errorf("clean: %v, but the tail was written: %v", clean, tail)
		}
	}
}
