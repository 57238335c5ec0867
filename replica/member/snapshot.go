package member

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/journal"
	"redoubt/replica/state"
)

// A snapshot is a checkpoint of a node's store: its tables and the end of its log, mostly hard
// links. Another node asks for it piece by piece, each with a checksum, and may ask anew
// where it was when either has ended meanwhile. What is fetched goes to a directory beside the
// store, and takes the store's place when it is complete: two renames, each of which a restart
// finishes.

const (
	chunkBytes = 256 << 10
	// idleSnapshot is how long a snapshot is kept that nobody asks for.
	idleSnapshot = time.Minute
	// sharedSnapshot is how old a snapshot may be that is given to another node, too.
	sharedSnapshot = 10 * time.Second
	defaultRate    = 64 << 20
	sourceFile     = "SOURCE"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// manifest is what a snapshot has.
type manifest struct {
	ID    string `json:"id"`
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
	Term  uint64 `json:"term"` // no entry of its log is of a later one
	Files []file `json:"files"`
}

type file struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

func (s manifest) bytes() (n int64) {
	for _, f := range s.Files {
		n += f.Size
	}
	return n
}

// source gives snapshots to other nodes, one at a time.
type source struct {
	m   *Member
	dir string

	mu         sync.Mutex
	now        manifest
	made, used time.Time
	sent       atomic.Int64
}

// describe returns the snapshot with an id, or another one, which it begins to make if there is none.
func (o *source) describe(id string) manifest {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	known := o.now.ID != "" && o.now.ID == id
	switch {
	case known, o.now.ID != "" && !o.now.Ready && o.now.Error == "", o.now.Ready && now.Sub(o.made) < sharedSnapshot:
		o.used = now
		return o.now
	case o.now.Ready && now.Sub(o.used) < sharedSnapshot:
		return manifest{Error: "another node takes a snapshot now"}
	}
	store := o.m.built.Load()
	if store == nil {
		return manifest{Error: "its store is not open"}
	}
	o.now, o.made, o.used = manifest{ID: randomID()}, now, now
	id = o.now.ID
	o.m.work.Go(func() { o.make(store, id) })
	return o.now
}

func (o *source) make(store *Store, id string) {
	err := removeAll(o.m.o.FS, o.dir)
	if err == nil {
		err = store.Checkpoint(o.dir)
	}
	s := manifest{ID: id, Ready: true, Term: o.m.identity().Term}
	if err == nil {
		s.Files, err = filesIn(o.m.o.FS, o.dir, "")
	}
	if err != nil {
		s = manifest{ID: id, Error: err.Error()}
		o.m.o.Logger.Error("a snapshot for another node was not made", "err", err)
	} else {
		o.m.o.Logger.Info("a snapshot for another node is made", "files", len(s.Files), "bytes", s.bytes())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now, o.made, o.used = s, time.Now(), time.Now()
}

func filesIn(fs journal.FS, dir, under string) (list []file, err error) {
	names, err := fs.List(filepath.Join(dir, under))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, n := range names {
		path := filepath.Join(under, n)
		if _, err := fs.List(filepath.Join(dir, path)); err == nil {
			more, err := filesIn(fs, dir, path)
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
			continue
		}
		f, err := fs.Open(filepath.Join(dir, path))
		if err != nil {
			return nil, err
		}
		size, err := f.Size()
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		list = append(list, file{filepath.ToSlash(path), size})
	}
	return list, nil
}

// chunk returns a piece of a file: its checksum, and the bytes. It returns nothing if there is no such piece.
func (o *source) chunk(q question) []byte {
	o.mu.Lock()
	at := slices.IndexFunc(o.now.Files, func(f file) bool { return f.Name == q.File })
	if q.ID != o.now.ID || at < 0 || q.Offset < 0 || q.Offset >= o.now.Files[at].Size {
		o.mu.Unlock()
		return nil
	}
	o.used = time.Now()
	size := o.now.Files[at].Size
	o.mu.Unlock()
	f, err := o.m.o.FS.Open(filepath.Join(o.dir, filepath.FromSlash(q.File)))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 4+min(chunkBytes, size-q.Offset))
	if n, err := f.ReadAt(b[4:], q.Offset); n < len(b)-4 {
		o.m.o.Logger.Error("a snapshot cannot be read", "file", q.File, "err", err)
		return nil
	}
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	o.sent.Add(int64(len(b)))
	return b
}

// tidy removes a snapshot that nobody asks for any more.
func (o *source) tidy() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if (o.now.Ready || o.now.Error != "") && time.Since(o.used) > idleSnapshot {
		o.now = manifest{}
		if err := removeAll(o.m.o.FS, o.dir); err != nil {
			o.m.o.Logger.Warn("a snapshot that nobody needs was not removed", "err", err)
		}
	}
}

// The node that takes a snapshot.

func (m *Member) incoming() string { return m.o.StoreDir + ".incoming" }
func (m *Member) complete() string { return m.o.StoreDir + ".snapshot" }

// from is where what is in the incoming directory comes from. The files that are there were not
// synced yet, so they count in the same boot of the machine only.
type from struct {
	Addr string   `json:"addr"`
	ID   string   `json:"id"`
	Boot state.ID `json:"boot"`
}

// fetch takes a snapshot of another node, or what is missing of it.
func (m *Member) fetch(ctx context.Context, progress func(done, total int64)) error {
	fs := m.o.FS
	var had from
	if b, err := readFile(fs, filepath.Join(m.incoming(), sourceFile)); err == nil {
		if json.Unmarshal(b, &had) != nil || had.Boot != m.o.Boot || had.Boot == (state.ID{}) {
			had = from{}
		}
	}
	for try := 0; ; try++ {
		addr := had.Addr
		if addr == "" || try%2 == 1 {
			if addr = m.o.Peers[m.next(try)-1]; addr != had.Addr {
				had = from{}
			}
		}
		s, err := m.describe(ctx, addr, had.ID)
		switch {
		case err == nil && s.Error != "":
			err = errors.New(s.Error)
		case err == nil && !s.Ready:
			had = from{Addr: addr, ID: s.ID, Boot: m.o.Boot}
			try-- // the same again
		case err == nil:
			if err = m.begin(from{Addr: addr, ID: s.ID, Boot: m.o.Boot}); err == nil {
				had = from{Addr: addr, ID: s.ID, Boot: m.o.Boot}
				err = m.take(ctx, addr, s, progress)
			}
			if err == nil {
				return nil
			}
		}
		if ctx.Err() != nil || m.ctx.Err() != nil {
			return errors.Join(ctx.Err(), m.ctx.Err(), err)
		}
		if err != nil {
			m.o.Logger.Warn("a snapshot was not taken, it is tried again", "of", addr, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-m.ctx.Done():
		case <-time.After(m.o.Ask / 4):
		}
	}
}

// next is the place of the node to ask: the leader first, then one after the other.
func (m *Member) next(try int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if try == 0 {
		for _, a := range m.known {
			if a.Leader != 0 && int(a.Leader) != m.self && int(a.Leader) <= len(m.known) {
				return int(a.Leader)
			}
		}
	}
	place := 1 + try%len(m.o.Peers)
	if place == m.self {
		place = 1 + (try+1)%len(m.o.Peers)
	}
	return place
}

func (m *Member) describe(ctx context.Context, addr, id string) (s manifest, err error) {
	b, err := m.snapshotQuestion(ctx, addr, question{Op: opSnapshot, ID: id})
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	for _, f := range s.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || strings.Contains(f.Name, sourceFile) || f.Size < 0 {
			return s, fmt.Errorf("%s has a snapshot with a file %q", addr, f.Name)
		}
	}
	return s, err
}

func (m *Member) snapshotQuestion(ctx context.Context, addr string, q question) ([]byte, error) {
	q.Cluster, q.Place = m.cluster, m.self
	ctx, cancel := context.WithTimeout(ctx, 3*m.o.Ask)
	defer cancel()
	b, err := m.mesh.Ask(ctx, addr, toJSON(q))
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("%s does not have it", addr)
	}
	return b, err
}

// begin empties the incoming directory, unless what it has is of the same snapshot.
func (m *Member) begin(f from) error {
	fs, dir := m.o.FS, m.incoming()
	want := toJSON(f)
	if b, err := readFile(fs, filepath.Join(dir, sourceFile)); err == nil && string(b) == string(want) {
		return nil
	}
	if err := errors.Join(removeAll(fs, dir), fs.MkdirAll(dir)); err != nil {
		return err
	}
	return journal.ReplaceFile(fs, filepath.Join(dir, sourceFile), want)
}

// take takes the files of a snapshot, and makes them complete.
func (m *Member) take(ctx context.Context, addr string, s manifest, progress func(done, total int64)) error {
	fs, dir, total := m.o.FS, m.incoming(), s.bytes()
	rate := m.o.Rate
	if rate <= 0 {
		rate = defaultRate
	}
	start, done, taken := time.Now(), int64(0), int64(0)
	dirs := map[string]bool{dir: true}
	m.o.Logger.Info("taking a snapshot", "of", addr, "files", len(s.Files), "bytes", total)
	for _, f := range s.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := fs.MkdirAll(filepath.Dir(path)); err != nil {
			return err
		}
		dirs[filepath.Dir(path)] = true
		out, err := fs.OpenForWrite(path)
		if errors.Is(err, os.ErrNotExist) {
			out, err = fs.Create(path)
		}
		if err != nil {
			return err
		}
		have, err := out.Size()
		done += min(have, f.Size)
		for err == nil && have < f.Size {
			var b []byte
			if b, err = m.snapshotQuestion(ctx, addr, question{Op: opChunk, ID: s.ID, File: f.Name, Offset: have}); err != nil {
				break
			}
			if len(b) <= 4 || binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) || int64(len(b)-4) > f.Size-have {
				err = fmt.Errorf("%w: a piece of %s at %d", io.ErrUnexpectedEOF, f.Name, have)
				break
			}
			if _, err = out.WriteAt(b[4:], have); err != nil {
				break
			}
			n := int64(len(b) - 4)
			have, done, taken = have+n, done+n, taken+n
			m.fetched.Store(done)
			if progress != nil {
				progress(done, total)
			}
			pause := time.Duration(float64(taken)/float64(rate)*float64(time.Second)) - time.Since(start)
			if pause > 0 {
				select {
				case <-ctx.Done():
					err = ctx.Err()
				case <-m.ctx.Done():
					err = m.ctx.Err()
				case <-time.After(pause):
				}
			}
		}
		if err == nil && have > f.Size {
			err = fmt.Errorf("%s has %d bytes of %d", path, have, f.Size)
		}
		if err == nil {
			err = out.Sync()
		}
		if err = errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
	for d := range dirs {
		if err := fs.SyncDir(d); err != nil {
			return err
		}
	}
	// The log that comes with it may have entries of a term that this node has not heard of.
	if err := m.change(func(st *state.State) {
		if s.Term > st.Term {
			st.Term, st.Vote = s.Term, 0
		}
	}); err != nil {
		return err
	}
	if err := fs.Remove(filepath.Join(dir, sourceFile)); err != nil {
		return err
	}
	if err := errors.Join(fs.SyncDir(dir), removeAll(fs, m.complete()), fs.Rename(dir, m.complete()), fs.SyncDir(filepath.Dir(dir))); err != nil {
		return err
	}
	m.o.Logger.Info("the snapshot is complete", "bytes", total, "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// install puts a complete snapshot in the place of the store, or goes on with that.
func (m *Member) install() error {
	if m.o.StoreDir == "" {
		return nil
	}
	fs, store, old := m.o.FS, m.o.StoreDir, m.o.StoreDir+".old"
	if exists(fs, m.complete()) {
		if exists(fs, store) {
			if err := errors.Join(removeAll(fs, old), fs.Rename(store, old), fs.SyncDir(filepath.Dir(store))); err != nil {
				return err
			}
		}
		if err := errors.Join(fs.Rename(m.complete(), store), fs.SyncDir(filepath.Dir(store))); err != nil {
			return err
		}
		m.o.Logger.Info("the snapshot has taken the place of the store", "dir", store)
	}
	return removeAll(fs, old)
}
