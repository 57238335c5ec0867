package feed

import (
	"slices"
	"time"
)

// Phase is how far a replica is.
type Phase byte

// The phases, as INFO names them.
const (
	WaitSnapshot Phase = iota // its snapshot has not begun
	SendSnapshot              // it gets a snapshot
	Online                    // it gets the stream
)

// String returns the name of the phase in INFO.
func (p Phase) String() string { return [...]string{"wait_bgsave", "send_bulk", "online"}[p] }

// Replica is a reader of the stream. Its methods may be called from any goroutine, but Next
// and Online from one at a time.
type Replica struct {
	s *Stream
	// closed is called once, when the replica was ended, with mu held: it must not wait.
	closed func(error)

	state   Phase
	cursor  int64 // up to which offset Next has handed out
	ack     int64
	fsynced int64 // up to which offset the replica has the stream in its append-only file
	ackTime time.Time
	acks    bool // it acknowledges, and is to be closed when it stops
	over    error
	soft    time.Time // since when it is behind by more than the soft limit
}

// join adds a replica that reads from an offset on. mu is held.
func (s *Stream) join(r *Replica, from int64) *Replica {
	r.s, r.cursor, r.ackTime = s, from, time.Now()
	s.replicas = append(s.replicas, r)
	s.alone = time.Time{}
	return r
}

// Join adds a replica without any data. It keeps nothing of the stream until Snapshot.
func (s *Stream) Join(acks bool, closed func(error)) *Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.join(&Replica{closed: closed, acks: acks}, noOffset)
}

// noOffset is the cursor of a replica that waits for its snapshot.
const noOffset = 1<<63 - 1

// Snapshot says that the replica gets a snapshot of the present moment. No commit may be under
// way. It returns the offset that belongs to the snapshot. Unless follows is false the stream is
// kept from there on.
func (r *Replica) Snapshot(follows bool) (offset int64) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.state = SendSnapshot; follows {
		r.cursor = s.end
	}
	s.db = -1
	return s.end
}

// Online says that the replica has loaded its snapshot and reads the stream.
func (r *Replica) Online() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.state, r.ackTime = Online, time.Now()
}

// Continue adds a replica that has the history id up to the byte before next. It returns nil
// if the stream does not have what the replica misses, or is another history.
func (s *Stream) Continue(id string, next int64, closed func(error)) *Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := id == s.id || s.id2 != "" && id == s.id2 && next <= s.second
	if !s.wanted.Load() || !same || next <= s.start || next > s.end+1 {
		return nil
	}
	return s.join(&Replica{closed: closed, acks: true, state: Online, ack: next - 1}, next-1)
}

// Next waits until there are bytes for the replica, and returns up to so many of them. They
// must not be changed. Once the replica has ended Next returns the reason.
func (r *Replica) Next(most int) ([]byte, error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for r.over == nil && r.cursor >= s.released {
		s.more.Wait()
	}
	if r.over != nil {
		return nil, r.over
	}
	b := s.next(r.cursor, most)
	if r.cursor += int64(len(b)); r.cursor >= s.start+segmentSize {
		s.trim()
	}
	return b, nil
}

// Acknowledge notes that the replica has everything up to an offset, and up to fsynced in its
// append-only file.
func (r *Replica) Acknowledge(offset, fsynced int64) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r.ack, r.fsynced, r.ackTime = max(r.ack, offset), max(r.fsynced, fsynced), time.Now()
	if s.acks != nil {
		close(s.acks)
		s.acks = nil
	}
}

// Close ends the replica; err is the reason. It may be called several times.
func (r *Replica) Close(err error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.end(err)
}

// end is Close with mu held.
func (r *Replica) end(err error) {
	if r.over != nil {
		return
	}
	s := r.s
	r.over = err
	s.replicas = slices.DeleteFunc(s.replicas, func(o *Replica) bool { return o == r })
	if len(s.replicas) == 0 {
		s.alone = time.Now()
	}
	s.trim()
	s.more.Broadcast()
	r.closed(err)
}

// check ends a replica that is too far behind. mu is held.
func (r *Replica) check(now time.Time) {
	s := r.s
	behind, l := s.end-r.cursor, &s.limits
	hard := l.Hard
	if s.Memory != nil {
		if most := s.Memory.Limit() / 2; most > 0 && (hard == 0 || most < hard) {
			hard = most
		}
	}
	switch {
	case hard > 0 && behind > hard:
		r.end(ErrLag)
	case l.Soft == 0 || behind <= l.Soft:
		r.soft = time.Time{}
	case r.soft.IsZero():
		r.soft = now
	case now.Sub(r.soft) > l.SoftFor:
		r.end(ErrLag)
	}
}

// ReplicaState is what a replica is at a moment.
type ReplicaState struct {
	Phase   Phase
	Ack     int64
	AckTime time.Time
	Behind  int64 // bytes that it has yet to be handed
}

// State returns the present state.
func (r *Replica) State() ReplicaState {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return ReplicaState{r.state, r.ack, r.ackTime, max(0, r.s.end-r.cursor)}
}

// Acked counts the replicas that have acknowledged everything up to an offset: that they have
// it or, if fsynced, that it is in their append-only file.
func (s *Stream) Acked(offset int64, fsynced bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.replicas {
		at := r.ack
		if fsynced {
			at = r.fsynced
		}
		if r.state == Online && at >= offset {
			n++
		}
	}
	return n
}

// NextAck returns a channel that is closed by the next acknowledgment of any replica.
func (s *Stream) NextAck() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acks == nil {
		s.acks = make(chan struct{})
	}
	return s.acks
}

// Good counts the replicas that get the stream and have acknowledged something within lag.
func (s *Stream) Good(now time.Time, lag time.Duration) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.replicas {
		if r.state == Online && now.Sub(r.ackTime) <= lag {
			n++
		}
	}
	return n
}

// Ended reports whether the replica has ended.
func (r *Replica) Ended() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.over != nil
}
