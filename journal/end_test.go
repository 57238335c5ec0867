package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/internal/race"
)

// endName is the name of the end file, as seen from the log's directory.
const endName = "../journal" + EndSuffix

// whole is an image with the end file.
func whole(t testing.TB, fs FS) image {
	t.Helper()
	im := imageOf(t, fs)
	f, err := fs.Open(endPath(dir))
	ok(t, err)
	b := make([]byte, 2*endSlot)
	_, err = f.ReadAt(b, 0)
	ok(t, err)
	ok(t, f.Close())
	im[endName] = b
	return im
}

// acknowledged is a log of several segments, all of whose records are durable
// and acknowledged: as kill -9 leaves it, or closed.
func acknowledged(t testing.TB, p Policy, closed bool) (image, []string) {
	t.Helper()
	mem, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs, SegmentBytes: 400, Policy: p, LogID: 0xabcd1234}, 0)
	var payloads []string
	for i := range 12 {
		payloads = append(payloads, payloadOf(3, uint64(i), []int{0, 17, 60, 110}[i%4]))
		seq := mustAppend(t, j, payloads[i])
		if p == Always {
			eventually(t, "durability", func() bool { return j.Durable() >= seq })
		} else {
			ok(t, j.Sync(seq))
		}
	}
	killed := pebbleFS{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})}
	mustClose(t, j)
	if closed {
		return whole(t, fs), payloads
	}
	return whole(t, killed), payloads
}

// judged opens what is left of a log of which all records were acknowledged. It
// must be refused, with its place and a remedy, or have all of them; Walk must
// say the same, and Salvage leave a log that opens with a beginning of them. It
// reports whether the log was refused.
func judged(t *testing.T, what string, im image, payloads []string) bool {
	t.Helper()
	fs := im.write(t)
	r, err := Walk(fs, dir, 0, func(Entry) error { return nil })
	ok(t, err)
	corrupt := slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Corrupt })
	j, got, err := open(Options{FS: fs}, 0)
	if err == nil {
		mustClose(t, j)
		if corrupt {
			t.Fatalf("%s: Open takes what Walk calls corrupt: %v", what, r.Problems)
		}
		wantRecords(t, got, 1, payloads...)
		return false
	}
	// What is missing at the front Walk cannot know to be needed.
	corrupt = corrupt || strings.Contains(err.Error(), "older segments are missing")
	if !errors.Is(err, ErrCorrupt) || !corrupt || !strings.Contains(err.Error(), ", offset ") || !strings.Contains(err.Error(), "--salvage") {
		t.Fatalf("%s: %v; Walk: %v", what, err, r.Problems)
	}
	s, err := Salvage(fs, dir, 0)
	ok(t, err)
	if s.Problem.File == "" || s.LostLast < s.Kept && s.Kept < uint64(len(payloads)) {
		t.Fatalf("%s: %+v", what, s)
	}
	j, got, err = open(Options{FS: fs}, 0)
	if err != nil || uint64(len(got)) != s.Kept {
		t.Fatalf("%s: %d records after a salvage that kept %d: %v", what, len(got), s.Kept, err)
	}
	wantRecords(t, got, 1, payloads[:len(got)]...)
	mustAppend(t, j, "more")
	mustClose(t, j)
	j, again := mustOpen(t, Options{FS: fs}, 0)
	wantRecords(t, again, 1, append(slices.Clone(payloads[:len(got)]), "more")...)
	mustClose(t, j)
	return true
}

// kinds of logs that are harmed.
func harm(t *testing.T, run func(t *testing.T, im image, payloads []string)) {
	for _, p := range policies {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprintf("policy %d, closed %v", p, closed), func(t *testing.T) {
				t.Parallel()
				im, payloads := acknowledged(t, p, closed)
				if judged(t, "unharmed", im, payloads) {
					t.Fatal("an unharmed log is refused")
				}
				run(t, im, payloads)
			})
		}
	}
}

// holds reports whether a segment has a record.
func holds(b []byte) bool { return len(b) > headerSize && !zeros(b[headerSize:]) }

// A log without one of its segments, or without all, is refused.
func TestRemovedSegments(t *testing.T) {
	t.Parallel()
	harm(t, func(t *testing.T, im image, payloads []string) {
		refused := 0
		none := image{endName: im[endName]}
		for name, b := range im {
			less := maps.Clone(im)
			if delete(less, name); judged(t, "without "+name, less, payloads) {
				refused++
			} else if name != endName && holds(b) {
				t.Errorf("without %s the log is opened", name)
			}
		}
		if refused < 3 {
			t.Errorf("%d segments", refused)
		}
		if !judged(t, "without segments", none, payloads) {
			t.Error("a log without segments is opened")
		}
	})
}

// A log whose newest segment is cut, to any length, or has zeros from there on,
// is refused, or has all records.
func TestTruncatedSegment(t *testing.T) {
	t.Parallel()
	harm(t, func(t *testing.T, im image, payloads []string) {
		newest := ""
		for name, b := range im {
			if name != endName && holds(b) && name > newest {
				newest = name
			}
		}
		b := im[newest]
		refused := 0
		step := 1
		if race.Enabled {
			step = 5 // of every remainder, as records begin at multiples of 8
		}
		for n := 0; n < len(b); n += step {
			less := maps.Clone(im)
			less[newest] = b[:n]
			cut := judged(t, fmt.Sprintf("%s cut to %d bytes", newest, n), less, payloads)
			if cut {
				refused++
			}
			less[newest] = append(slices.Clone(b[:n]), make([]byte, len(b)-n)...)
			if zeroed := judged(t, fmt.Sprintf("%s with zeros from %d on", newest, n), less, payloads); cut != zeroed && !zeros(b[n:]) && n%align == 0 {
				t.Errorf("%s: cut at %d it is refused: %v, with zeros from there on: %v", newest, n, cut, zeroed)
			}
		}
		if refused < 100/step {
			t.Errorf("%d lengths were refused", refused)
		}
	})
}

// A damaged newest record that was acknowledged is not taken for a torn tail.
func TestDamagedNewestRecord(t *testing.T) {
	t.Parallel()
	harm(t, func(t *testing.T, im image, payloads []string) {
		var last Entry
		_, err := Walk(im.write(t), dir, 0, func(e Entry) error {
			if e.Kind == Data {
				last = e
			}
			return nil
		})
		ok(t, err)
		for i := range HeadRoom + len(payloads[len(payloads)-1]) {
			bad := maps.Clone(im)
			bad[last.File] = slices.Clone(im[last.File])
			bad[last.File][int(last.Offset)+i] ^= 0x10
			if !judged(t, fmt.Sprintf("a flipped bit in byte %d of the last record", i), bad, payloads) {
				t.Errorf("a flipped bit in byte %d of the last record is not noticed", i)
			}
		}
	})
}

// Older copies of a log's files, and those of another log, are refused.
func TestReplacedFiles(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	o := Options{FS: fs, SegmentBytes: 400, Policy: Always}
	j, _ := mustOpen(t, o, 0)
	var payloads []string
	var copies []image
	for i := range 12 {
		payloads = append(payloads, payloadOf(3, uint64(i), 60))
		ok(t, j.Sync(mustAppend(t, j, payloads[i])))
		copies = append(copies, whole(t, fs))
	}
	now := whole(t, fs)
	mustClose(t, j)
	for i, old := range copies[:11] {
		old = maps.Clone(old)
		if judged(t, fmt.Sprint("the copy after ", i), old, payloads[:i+1]) {
			t.Errorf("the copy after record %d is refused", i+1)
		}
		old[endName] = now[endName]
		if !judged(t, fmt.Sprint("older segments, after ", i), old, payloads) {
			t.Errorf("segments as they were after record %d are taken", i+1)
		}
		mixed := maps.Clone(now)
		for name, b := range old {
			if holds(b) {
				mixed[name] = b
			}
		}
		judged(t, fmt.Sprint("some older segments, after ", i), mixed, payloads)
		mixed[endName] = old[endName]
		if judged(t, "an older end file", image{endName: old[endName]}, payloads) == false {
			t.Error("an older end file alone is taken")
		}
		mixed = maps.Clone(now)
		mixed[endName] = old[endName]
		if judged(t, "an older end file", mixed, payloads) {
			t.Error("an older end file is refused, though nothing is missing")
		}
	}
	other, _ := acknowledged(t, Always, true)
	other[endName] = now[endName]
	fs2 := other.write(t)
	if _, _, err := open(Options{FS: fs2}, 0); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "another store") {
		t.Errorf("the segments of another log: %v", err)
	}
}

// The end file is read whatever one write to it has become, and refused if both
// of its claims are damaged. Without one the log is judged by itself.
func TestDamagedEndFile(t *testing.T) {
	t.Parallel()
	im, payloads := acknowledged(t, Always, false)
	for i := range im[endName] {
		bad := maps.Clone(im)
		bad[endName] = slices.Clone(im[endName])
		bad[endName][i] ^= 4
		if judged(t, fmt.Sprint("byte ", i), bad, payloads) {
			t.Fatalf("refused for byte %d of the end file", i)
		}
	}
	for what, b := range map[string][]byte{"empty": {}, "zeros": make([]byte, 2*endSlot), "short": im[endName][:20]} {
		bad := maps.Clone(im)
		bad[endName] = b
		if !judged(t, what, bad, payloads) {
			t.Errorf("%s is taken for an end file", what)
		}
	}
	newer := maps.Clone(im)
	newer[endName] = slices.Clone(im[endName])
	for slot := range 2 {
		b := newer[endName][slot*endSlot:]
		b[11] = 2
		fixEnd(b)
	}
	if _, _, err := open(Options{FS: newer.write(t)}, 0); !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
		t.Errorf("a newer version: %v", err)
	}
	delete(newer, endName)
	fs := newer.write(t)
	j, got := mustOpen(t, Options{FS: fs}, 0)
	wantRecords(t, got, 1, payloads...)
	mustClose(t, j)
	if e, _, exists, err := readEnd(fs, dir); err != nil || !exists || e.synced != uint64(len(payloads)) || e.log != 0xabcd1234 {
		t.Errorf("the end file that was made: %+v %v %v", e, exists, err)
	}
}

// A log that has lost all of its segments, none of which are needed, goes on
// under its own number.
func TestNoSegmentsNeeded(t *testing.T) {
	t.Parallel()
	im, payloads := acknowledged(t, Always, true)
	fs := image{endName: im[endName]}.write(t)
	from := uint64(len(payloads))
	j, got := mustOpen(t, Options{FS: fs}, from)
	wantRecords(t, got, 0)
	if j.log != 0xabcd1234 {
		t.Errorf("the log's number is %x", j.log)
	}
	mustAppend(t, j, "more")
	mustClose(t, j)
	j, got = mustOpen(t, Options{FS: fs}, from)
	wantRecords(t, got, from+1, "more")
	mustClose(t, j)
}

// An end file that cannot be written costs nobody a record; it is logged once.
func TestEndFileCannotBeWritten(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	logged := &lines{}
	j, _ := mustOpen(t, Options{FS: fs, Policy: Always, Logger: logged.logger()}, 0)
	fs.set(func(o op) error {
		if o.kind == "write" && strings.HasSuffix(o.name, EndSuffix) {
			return errors.New("no")
		}
		return nil
	})
	for range 3 {
		ok(t, j.Sync(mustAppend(t, j, "x")))
	}
	fs.set(nil)
	ok(t, j.Sync(mustAppend(t, j, "x")))
	if e, _, _, err := readEnd(fs, dir); err != nil || e.synced != 4 {
		t.Errorf("the end file says %d: %v", e.synced, err)
	}
	mustClose(t, j)
	if n := strings.Count(logged.String(), "cannot be recorded"); n != 1 {
		t.Errorf("logged %d times: %s", n, logged)
	}
}

// The end file of a copy is the copy's own.
func TestEndFileOfACopy(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs, Policy: No}, 0)
	mustAppend(t, j, "one")
	mustAppend(t, j, "two")
	to := filepath.Join("/data", "copy")
	_, err := j.LinkTo(to, 0)
	ok(t, err)
	mustAppend(t, j, "three")
	mustClose(t, j)
	e, _, exists, err := readEnd(fs, to)
	if err != nil || !exists || e.synced != 2 || e.index != 1 || e.off < headerSize {
		t.Errorf("%+v %v %v", e, exists, err)
	}
	ok(t, fs.Remove(filepath.Join(to, segmentName(1))))
	if _, _, err := open(Options{FS: fs, Dir: to}, 0); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "00000001.jnl, which is missing") {
		t.Error(err)
	}
}

func fixEnd(b []byte) {
	binary.BigEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

// lines is what was logged.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
