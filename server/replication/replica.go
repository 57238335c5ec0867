package replication

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/feed"
	"redoubt/number"
)

// Replica is a client that is a replica, or is about to become one: REPLCONF tells about it
// before SYNC or PSYNC makes it one. REPLCONF, Full and Continue are called on the carrier of the
// client's session.
type Replica struct {
	s    *Source
	link Link
	feed *feed.Replica // nil before Full or Continue

	host    string // what the replica announced, or empty
	port    int
	eof     bool // it can read a snapshot whose length is not known
	psync2  bool
	rdbOnly bool
	keys    bool // what of a snapshot it wants
	scripts bool

	acks     bool // it uses PSYNC, and so acknowledges
	sent     atomic.Bool
	ready    chan struct{} // closed by the first acknowledgment of a snapshot
	readyOne sync.Once
	waits    time.Time
}

var (
	errDiscarded = errors.New("the data set was replaced")
	errStopped   = errors.New("the server shuts down")
	errRefused   = errors.New("the transfer of the snapshot has failed")
)

// NewReplica returns a client that may become a replica.
func (s *Source) NewReplica(link Link) *Replica {
	return &Replica{s: s, link: link, keys: true, scripts: true, ready: make(chan struct{})}
}

// Attached reports whether the client is a replica.
func (r *Replica) Attached() bool { return r != nil && r.feed != nil }

// Configure runs the arguments of REPLCONF. answers is false if there is no reply.
func (r *Replica) Configure(args [][]byte) (answers bool, err error) {
	if len(args)%2 != 0 {
		return true, command.ErrSyntax
	}
	for ; len(args) > 0; args = args[2:] {
		name, value := strings.ToLower(string(args[0])), args[1]
		switch name {
		case "listening-port":
			n, ok := number.ParseInt(value)
			if !ok {
				return true, command.ErrNotInteger
			}
			r.port = int(n)
		case "ip-address":
			if len(value) >= 46 {
				return true, command.Error("ERR REPLCONF ip-address provided by replica instance is too long: " + strconv.Itoa(len(value)) + " bytes")
			}
			r.host = string(value)
		case "capa":
			switch strings.ToLower(string(value)) {
			case "eof":
				r.eof = true
			case "psync2":
				r.psync2 = true
			}
		case "ack":
			if !r.Attached() {
				return false, nil
			}
			r.acknowledge(args)
			return false, nil
		case "getack":
			return false, nil
		case "version": // of the replica; all that are known read what is sent
		case "rdb-only":
			n, ok := number.ParseInt(value)
			if !ok || n < 0 || n > 1 {
				return true, command.ErrNotInteger
			}
			r.rdbOnly = n == 1
		case "rdb-filter-only":
			if err := r.filter(string(value)); err != nil {
				return true, err
			}
		default:
			return true, command.Error("ERR Unrecognized REPLCONF option: " + string(args[0]))
		}
	}
	return true, nil
}

// filter reads what the replica wants of a snapshot: functions, or nothing at all.
func (r *Replica) filter(words string) error {
	r.keys, r.scripts = false, false
	for _, w := range strings.Fields(words) {
		if w != "functions" {
			return command.Error("ERR Unsupported rdb-filter-only option: " + w)
		}
		r.scripts = true
	}
	return nil
}

// acknowledge notes how far the replica is: ACK offset, and maybe FACK offset.
func (r *Replica) acknowledge(args [][]byte) {
	offset, ok := number.ParseInt(args[1])
	if !ok {
		return
	}
	fsynced := int64(0)
	if len(args) >= 4 && strings.EqualFold(string(args[2]), "fack") {
		fsynced, _ = number.ParseInt(args[3])
	}
	r.feed.Acknowledge(offset, fsynced)
	if r.sent.Load() {
		r.readyOne.Do(func() { close(r.ready) })
	}
}

// Continue makes the client a replica that goes on from an offset of a history. It returns false
// if the stream has not what the replica misses.
func (r *Replica) Continue(id string, next int64) bool {
	s := r.s
	f := s.Stream.Continue(id, next, func(err error) { r.ended(err) })
	if f == nil {
		s.mu.Lock()
		s.refused++
		s.mu.Unlock()
		return false
	}
	r.feed, r.acks = f, true
	r.sent.Store(true)
	if !s.add(r, false) {
		f.Close(errStopped)
		return true
	}
	reply := "+CONTINUE\r\n"
	if r.psync2 {
		reply = "+CONTINUE " + s.Stream.State().ID + "\r\n"
	}
	s.Log.Info("a replica goes on from where it was", "addr", r.link.Host(), "port", r.port, "offset", next)
	go func() {
		defer s.work.Done()
		if err := r.link.Write([]byte(reply), s.timeout()); err != nil {
			f.Close(err)
			return
		}
		r.follow()
	}()
	return true
}

// Full makes the client a replica that gets a snapshot first. psync: it has sent PSYNC.
func (r *Replica) Full(psync bool) {
	s := r.s
	r.acks, r.waits = psync, time.Now()
	r.feed = s.Stream.Join(psync, func(err error) { r.ended(err) })
	if !s.add(r, true) {
		r.feed.Close(errStopped)
		return
	}
	s.work.Done()
}

// add notes the replica, and that a goroutine serves it. It returns false if the server stops.
func (s *Source) add(r *Replica, full bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.work.Add(1)
	s.replicas = append(s.replicas, r)
	if full {
		s.fulls++
		s.waiting = append(s.waiting, r)
		s.sendNext()
	} else {
		s.partly++
	}
	return true
}

// Close ends the replica when its connection was closed.
func (r *Replica) Close() {
	if r.Attached() {
		r.feed.Close(feed.ErrClosed)
	}
}

// ended is called once, when the replica was ended, with locks held.
func (r *Replica) ended(err error) {
	r.link.Shut()
	go r.s.remove(r, err)
}

func (s *Source) remove(r *Replica, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	without := func(list []*Replica) []*Replica {
		var rest []*Replica
		for _, o := range list {
			if o != r {
				rest = append(rest, o)
			}
		}
		return rest
	}
	s.replicas, s.waiting = without(s.replicas), without(s.waiting)
	s.Log.Info("a replica was disconnected", "addr", r.link.Host(), "port", r.port, "reason", err)
}

// portion is how many bytes of the stream are sent at once.
const portion = 64 << 10

// follow sends the stream until the replica ends.
func (r *Replica) follow() {
	for {
		b, err := r.feed.Next(portion)
		if err != nil {
			return
		}
		if err := r.link.Write(b, 0); err != nil {
			r.feed.Close(err)
			return
		}
	}
}
