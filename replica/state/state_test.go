package state

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine/local"
	"redoubt/journal"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func first() State {
	return State{Cluster: ID{1, 2}, Node: ID{3, 4}, RaftID: 7, Boot: ID{5}}
}

func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestSetAndOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	if _, err := Open(journal.OS, path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("without a file: %v", err)
	}
	f, err := Create(journal.OS, path, first())
	ok(t, err)
	s := first()
	for i := range uint64(5) {
		s.Term, s.Vote, s.Clean = s.Term+1, i, i%2 == 0
		ok(t, f.Set(s))
		ok(t, f.Close())
		f, err = Open(journal.OS, path)
		ok(t, err)
		if f.State() != s || f.Repaired {
			t.Fatalf("%+v (repaired: %v), want %+v", f.State(), f.Repaired, s)
		}
	}
	ok(t, f.Close())
}

func TestNothingGoesBack(t *testing.T) {
	t.Parallel()
	f, err := Create(journal.OS, filepath.Join(t.TempDir(), "state"), first())
	ok(t, err)
	now := first()
	now.Term, now.Vote, now.Incarnation, now.RaftID = 5, 2, 1, 9
	ok(t, f.Set(now))
	for name, change := range map[string]func(*State){
		"cluster":               func(s *State) { s.Cluster[0]++ },
		"node":                  func(s *State) { s.Node[0]++ },
		"term":                  func(s *State) { s.Term-- },
		"vote":                  func(s *State) { s.Vote = 3 },
		"vote taken back":       func(s *State) { s.Vote = 0 },
		"incarnation":           func(s *State) { s.Incarnation-- },
		"Raft id alone":         func(s *State) { s.RaftID++ },
		"incarnation alone":     func(s *State) { s.Incarnation++ },
		"no Raft id":            func(s *State) { s.Incarnation, s.RaftID = s.Incarnation+1, 0 },
		"term with incarnation": func(s *State) { s.Incarnation, s.RaftID, s.Term = s.Incarnation+1, 10, 4 },
	} {
		s := now
		change(&s)
		if err := f.Set(s); !errors.Is(err, ErrBack) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.State() != now {
		t.Errorf("the state became %+v", f.State())
	}
	now.Incarnation, now.RaftID, now.Vote = 2, 12, 0 // as another one it may vote
	ok(t, f.Set(now))
	ok(t, f.Close())
}

func TestRemembers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was, is ID
		clean   bool
		want    bool
	}{
		{ID{1}, ID{1}, false, true}, {ID{1}, ID{2}, false, false}, {ID{1}, ID{2}, true, true},
		{ID{}, ID{}, false, false}, {ID{}, ID{}, true, true},
	} {
		if got := (State{Boot: c.was, Clean: c.clean}).Remembers(c.is); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if id := Boot(); id != Boot() || runtime.GOOS == "linux" && id == (ID{}) {
		t.Errorf("this boot is %x", id)
	}
}

// Every flipped bit and every length: one slot is enough, and what it says is
// what was set. Where both are harmed, the file is refused.
func TestDamage(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	fs := local.JournalFiles(vfs.NewMem())
	const path = "state"
	f, err := Create(fs, path, first())
	ok(t, err)
	s := first()
	s.Term, s.Vote = 3, 7
	ok(t, f.Set(s))
	ok(t, f.Close())
	file, err := fs.Open(path)
	ok(t, err)
	whole := make([]byte, fileSize)
	_, err = file.ReadAt(whole, 0)
	ok(t, err)
	if size, err := file.Size(); err != nil || size != fileSize {
		t.Fatalf("%d bytes, %v", size, err)
	}
	ok(t, file.Close())
	try := func(b []byte) (*File, error) {
		file, err := fs.Create(path)
		ok(t, err)
		_, err = file.WriteAt(b, 0)
		ok(t, errors.Join(err, file.Close()))
		f, err := Open(fs, path)
		if err == nil {
			ok(t, f.Close())
			if f.State() != s {
				t.Fatalf("the state became %+v", f.State())
			}
			healed, err := Open(fs, path)
			ok(t, err)
			if healed.Repaired {
				t.Fatal("a slot that was repaired is bad again")
			}
			ok(t, healed.Close())
		}
		return f, err
	}
	for i := range slotSize {
		for _, off := range []int{0, slotApart} {
			b := bytes.Clone(whole)
			b[off+i] ^= 1 << rng.IntN(8)
			if f, err := try(b); err != nil || !f.Repaired {
				t.Fatalf("byte %d: %v", off+i, err)
			}
			b[slotApart-off+rng.IntN(slotSize)] ^= 1 << rng.IntN(8)
			if _, err := try(b); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d and one of the other slot: %v", off+i, err)
			}
		}
	}
	for n := range whole {
		_, err := try(whole[:n])
		if n < slotSize && !errors.Is(err, ErrDamaged) || n >= slotSize && err != nil {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestNewerVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	b := make([]byte, fileSize)
	first().put(b, 1)
	b[11] = 2
	fixSlot(b)
	ok(t, os.WriteFile(path, b, 0o600))
	if _, err := Open(journal.OS, path); !errors.Is(err, ErrVersion) {
		t.Errorf("%v", err)
	}
}

var errStopped = errors.New("the machine has stopped")

// stopFS stops before its nth change, and has a copy of what a crash leaves then.
type stopFS struct {
	journal.FS
	left int // changes until it stops; negative: for ever
	stop func()
}

func (f *stopFS) change() error {
	if f.left == 0 {
		return errStopped
	}
	if f.left--; f.left == 0 {
		f.stop()
		return errStopped
	}
	return nil
}

func (f *stopFS) file(file journal.File, err error) (journal.File, error) {
	return &stopFile{file, f}, err
}

func (f *stopFS) Create(name string) (journal.File, error) {
	if err := f.change(); err != nil {
		return nil, err
	}
	return f.file(f.FS.Create(name))
}

func (f *stopFS) OpenForWrite(name string) (journal.File, error) {
	return f.file(f.FS.OpenForWrite(name))
}

func (f *stopFS) Rename(a, b string) error { return errors.Join(f.change(), f.FS.Rename(a, b)) }
func (f *stopFS) SyncDir(dir string) error {
	if err := f.change(); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

type stopFile struct {
	journal.File
	fs *stopFS
}

func (f *stopFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.change(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

func (f *stopFile) Sync() error {
	if err := f.fs.change(); err != nil {
		return err
	}
	return f.File.Sync()
}

// The machine stops before every change in turn. What is found then is what Set
// had returned for, or what it was given last; also if either slot is damaged besides
// and the crash did not come between the slots. A second crash right after Open changes nothing.
func TestCrashes(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	const path = "/data/raft/state"
	points := 0
	for n := 1; n < 60; n++ {
		for _, percent := range []int{0, 50, 100} {
			mem := vfs.NewCrashableMem()
			ok(t, mem.MkdirAll("/data/raft", 0o700))
			for _, dir := range []string{"/", "/data", "/data/raft"} {
				ok(t, local.JournalFiles(mem).SyncDir(dir))
			}
			var after *vfs.MemFS
			fs := &stopFS{FS: local.JournalFiles(mem), left: n}
			fs.stop = func() {
				if after = mem; percent < 100 { // else it is kill -9, which leaves what was not synced in the page cache
					after = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
				}
			}
			var promised, given State
			s := first()
			f, err := Create(fs, path, s)
			if err == nil {
				promised, given = s, s
			}
			for term := uint64(1); term < 10 && err == nil; term++ {
				s.Term, s.Vote = term, rng.Uint64N(4)
				given = s
				if err = f.Set(s); err == nil {
					promised = s
				} else if again := f.Set(s); !errors.Is(again, ErrFailed) {
					t.Fatalf("after a failure Set says %v", again)
				}
			}
			if after == nil {
				continue
			}
			points++
			if !errors.Is(err, errStopped) {
				t.Fatalf("stopped at %d: %v", n, err)
			}
			got := func(mem *vfs.MemFS) (State, error) {
				f, err := Open(local.JournalFiles(mem), path)
				if err != nil {
					return State{}, err
				}
				return f.State(), nil
			}
			found, err := got(after)
			if promised == (State{}) { // Create did not return
				if err != nil && !errors.Is(err, os.ErrNotExist) || err == nil && found != first() {
					t.Fatalf("stopped at %d in Create: %+v %v", n, found, err)
				}
				continue
			}
			ok(t, err)
			if found != promised && found != given {
				t.Fatalf("stopped at %d: %+v, promised was %+v, given %+v", n, found, promised, given)
			}
			again, err := got(after.CrashClone(vfs.CrashCloneCfg{}))
			if err != nil || again != found {
				t.Fatalf("stopped at %d: a crash after Open makes %+v of %+v (%v)", n, again, found, err)
			}
		}
	}
	if points < 3*40 {
		t.Errorf("only %d points", points)
	}
}

func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "v1", "state")
	s := State{Cluster: ID{1}, Node: ID{2}, Boot: ID{3}, RaftID: 4, Incarnation: 5, Term: 6, Vote: 7, Clean: true}
	for i := range s.Cluster {
		s.Cluster[i], s.Node[i], s.Boot[i] = byte(i), byte(16+i), byte(32+i)
	}
	made := filepath.Join(t.TempDir(), "state")
	f, err := Create(journal.OS, made, s)
	ok(t, err)
	ok(t, f.Close())
	got, err := os.ReadFile(made)
	ok(t, err)
	if *rewrite {
		ok(t, os.MkdirAll(filepath.Dir(path), 0o755))
		ok(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	ok(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("\n%s\nwant\n%s", hex.Dump(got), hex.Dump(want))
	}
}

func FuzzParse(f *testing.F) {
	b := make([]byte, slotSize)
	first().put(b, 9)
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		b := append(in, make([]byte, slotSize)...)[:slotSize]
		fixSlot(b)
		s, serial, valid, err := parse(b)
		if !valid || err != nil {
			return
		}
		again := make([]byte, slotSize)
		s.put(again, serial)
		s2, serial2, valid, err := parse(again)
		if !valid || err != nil || s2 != s || serial2 != serial {
			t.Fatalf("%+v %d became %+v %d (%v %v)", s, serial, s2, serial2, valid, err)
		}
	})
}

func fixSlot(b []byte) {
	binary.BigEndian.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))
}
