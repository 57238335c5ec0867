package replication

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"redoubt/engine"
	"redoubt/exporter"
	"redoubt/feed"
)

// Transfers of snapshots. Replicas that ask for one within repl-diskless-sync-delay share it. A
// snapshot goes straight to the replicas if all of them can read one of unknown length
// (capa eof) and repl-diskless-sync is on: the slowest then sets the pace. Else it is written to
// a file, from which each replica gets it at its own pace.
//
// The engine may revoke a snapshot while much is written. Replicas that have got a part of it
// are then closed, and come again; the next snapshot goes to a file, which takes less long and
// can be tried again without their notice.

// sending is one snapshot and the replicas that get it.
type sending struct {
	s       *Source
	members []*Replica
	direct  bool
	offsets map[*Replica]int64
}

// sendNext begins a transfer if replicas wait and none is under way. mu is held.
func (s *Source) sendNext() {
	if s.busy || len(s.waiting) == 0 || s.stopped {
		return
	}
	s.busy = true
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		s.sendToWaiting()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy = false
		s.sendNext()
	}()
}

// sendToWaiting waits for others to join, and then gives the replicas that wait a snapshot.
func (s *Source) sendToWaiting() {
	t := s.gather()
	if len(t.members) == 0 {
		return
	}
	var err error
	if t.direct {
		err = t.send()
	} else {
		err = t.sendFile()
	}
	if err == nil {
		s.setOnDisk(false)
		return
	}
	if errors.Is(err, engine.ErrSnapshotLost) {
		s.setOnDisk(true)
	}
	for _, r := range t.members {
		r.feed.Close(errRefused)
	}
	s.Log.Error("sending a snapshot to replicas failed; they will ask again", "err", err)
}

func (s *Source) setOnDisk(on bool) {
	s.mu.Lock()
	s.onDisk = on
	s.mu.Unlock()
}

// gather returns the sending for the replicas that wait and want the same, after the time in
// which they may join.
func (s *Source) gather() *sending {
	for {
		s.mu.Lock()
		t := &sending{s: s, offsets: make(map[*Replica]int64)}
		if len(s.waiting) == 0 || s.stopped {
			s.mu.Unlock()
			return t
		}
		first := s.waiting[0]
		t.direct = s.Config.Bool("repl-diskless-sync") && !s.onDisk
		for _, r := range s.waiting {
			if r.keys == first.keys && r.scripts == first.scripts {
				t.members = append(t.members, r)
				t.direct = t.direct && r.eof
			}
		}
		delay, most := time.Duration(0), s.Config.Int("repl-diskless-sync-max-replicas")
		if t.direct && (most == 0 || int64(len(t.members)) < most) {
			delay = time.Duration(s.Config.Int("repl-diskless-sync-delay"))*time.Second - time.Since(first.waits)
		}
		if delay <= 0 {
			s.waiting = slices.DeleteFunc(s.waiting, func(r *Replica) bool { return slices.Contains(t.members, r) })
			s.mu.Unlock()
			return t
		}
		s.mu.Unlock()
		t.newline()
		select {
		case <-time.After(min(delay, newlineEvery)):
		case <-s.done:
		}
	}
}

// newline tells waiting replicas that the server is there.
func (t *sending) newline() { t.each(func(r *Replica) error { return t.write(r, []byte("\n")) }) }

func (t *sending) write(r *Replica, b []byte) error { return r.link.Write(b, t.s.timeout()) }

// each calls f for each member, and drops those for which it fails.
func (t *sending) each(f func(*Replica) error) {
	t.members = slices.DeleteFunc(t.members, func(r *Replica) bool {
		err := f(r)
		if err != nil {
			r.feed.Close(err)
		}
		return err != nil
	})
}

// begin takes the snapshot, at a place of the stream.
func (t *sending) begin() (engine.Snapshot, error) {
	snap, ticket, err := t.s.Freeze(func() {
		t.s.Stream.Want()
		for _, r := range t.members {
			t.offsets[r] = r.feed.Snapshot(!r.rdbOnly)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	if err := t.s.Await(ticket); err != nil {
		return nil, errors.Join(err, snap.Close())
	}
	return snap, nil
}

// announce tells the members which place of which history they are going to have.
func (t *sending) announce() {
	id := t.s.Stream.State().ID
	t.each(func(r *Replica) error {
		if !r.acks {
			return nil
		}
		return t.write(r, fmt.Appendf(nil, "+FULLRESYNC %s %d\r\n", id, t.offsets[r]))
	})
}

// Write sends a part of the snapshot to all members.
func (t *sending) Write(b []byte) (int, error) {
	t.each(func(r *Replica) error { return t.write(r, b) })
	if len(t.members) == 0 {
		return 0, feed.ErrClosed
	}
	return len(b), nil
}

// export writes the snapshot.
func (t *sending) export(snap engine.Snapshot, to io.Writer) (err error) {
	defer func() { err = errors.Join(err, snap.Close()) }()
	s, began := t.s, time.Now()
	e, err := exporter.Open(snap, s.Engine, exporter.Options{
		Oldest:   true, // a replica does not tell which versions it can read
		Channels: exporter.Leave, Now: s.Now().UnixMilli(), RedisVersion: s.RedisVersion,
		LeaveKeys: !t.members[0].keys, LeaveLibraries: !t.members[0].scripts,
	})
	if err != nil {
		return err
	}
	if e.Left > 0 {
		s.tellChannels(e.Left)
	}
	if err := e.Write(to); err != nil {
		return err
	}
	s.Log.Info("a snapshot was written for replicas", "replicas", len(t.members), "keys", e.Keys, "bytes", e.Bytes, "rdb_version", e.Version,
		"direct", t.direct, "took", time.Since(began))
	return nil
}

// tellChannels logs once that replicas do not get channels.
func (s *Source) tellChannels(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told {
		s.told = true
		s.Log.Warn("replicas get no channels, which no Redis has: they are left out of snapshots and of the stream", "channels", n)
	}
}

// send sends the snapshot straight to the members.
func (t *sending) send() error {
	snap, err := t.begin()
	if err != nil {
		return err
	}
	var b [20]byte
	rand.Read(b[:])
	mark := hex.EncodeToString(b[:])
	t.announce()
	t.each(func(r *Replica) error { return t.write(r, []byte("$EOF:"+mark+"\r\n")) })
	if len(t.members) == 0 {
		return snap.Close()
	}
	out := t.members
	if err := t.export(snap, t); err != nil {
		if len(t.members) == 0 { // all have gone
			t.s.Log.Info("no replica is left that waits for the snapshot", "replicas", len(out))
			return nil
		}
		return err
	}
	t.each(func(r *Replica) error {
		r.sent.Store(true)
		return t.write(r, []byte(mark))
	})
	for _, r := range t.members {
		r.s.serve(func() {
			// The replica tells by its first acknowledgment that it knows where the snapshot ends.
			if !r.rdbOnly && r.awaitReady() {
				r.feed.Online()
				r.follow()
			}
		})
	}
	return nil
}

// awaitReady waits for the first acknowledgment, or for the end of the replica.
func (r *Replica) awaitReady() bool {
	for {
		select {
		case <-r.ready:
			return true
		case <-r.s.done:
			return false
		case <-time.After(newlineEvery):
			if r.feed.Ended() {
				return false
			}
		}
	}
}

// serve runs f on a goroutine that Stop waits for.
func (s *Source) serve(f func()) {
	s.work.Add(1) // the caller is one of them
	go func() {
		defer s.work.Done()
		f()
	}()
}

// fileTries is how often a snapshot is written to a file before replicas are refused.
const fileTries = 4

// sendFile writes the snapshot to a file without a name, and sends that.
func (t *sending) sendFile() (err error) {
	f, err := os.CreateTemp(t.s.Config.Str("dir"), "replica-*.rdb")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		return fmt.Errorf("make a file for a snapshot in the directory of the directive dir: %w", err)
	}
	for try := 1; ; try++ {
		if err = t.fill(f); !errors.Is(err, engine.ErrSnapshotLost) || try == fileTries {
			break
		}
		t.s.Log.Warn("the snapshot for replicas was revoked and is taken again: too much is written meanwhile for maxmemory", "try", try)
	}
	size := int64(0)
	if err == nil {
		size, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	t.announce()
	left := make(chan struct{}, len(t.members))
	for _, r := range t.members {
		t.s.serve(func() {
			err := r.sendPart(io.NewSectionReader(f, 0, size), size)
			left <- struct{}{}
			if err != nil {
				r.feed.Close(err)
				return
			}
			if r.sent.Store(true); !r.rdbOnly {
				r.feed.Online()
				r.follow()
			}
		})
	}
	for range t.members {
		<-left
	}
	return f.Close()
}

// fill writes the snapshot to the file, from its beginning. The members hear newlines meanwhile.
func (t *sending) fill(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	snap, err := t.begin()
	if err != nil {
		return err
	}
	written := make(chan struct{})
	hushed := make(chan struct{})
	go func() {
		defer close(hushed)
		for {
			select {
			case <-written:
				return
			case <-time.After(newlineEvery):
				for _, r := range t.members {
					_ = r.link.Write([]byte("\n"), t.s.timeout()) // the transfer itself will fail, too
				}
			}
		}
	}()
	err = t.export(snap, f)
	close(written)
	<-hushed
	return err
}

// sendPart sends a snapshot of a known length.
func (r *Replica) sendPart(from io.Reader, size int64) error {
	patience := r.s.timeout()
	if err := r.link.Write([]byte("$"+strconv.FormatInt(size, 10)+"\r\n"), patience); err != nil {
		return err
	}
	buf := make([]byte, portion)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if err := r.link.Write(buf[:n], patience); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
