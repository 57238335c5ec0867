package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"redoubt/engine"
	"redoubt/importer"
	"redoubt/keyspace"
	"redoubt/upstream"
)

// The link with the master: Run dials, asks to go on at the place up to which the stream is
// applied (keyspace.Position), loads all data if the master cannot go on there, and applies the
// stream (apply.go). Whatever goes wrong ends the link, and the next attempt begins at the place
// that the store has: nothing else remembers it.

// The stages that a Link does not know, with the names of ROLE.
const (
	notReplica upstream.Stage = ""
	connect    upstream.Stage = "connect" // between two attempts
	transfer                  = upstream.Transfer
	connected                 = upstream.Connected
)

// linkState is what ROLE and INFO show of the link.
type linkState struct {
	stage           upstream.Stage
	id              string // of the stream that is applied
	applied         int64  // offset up to which it is applied
	read            int64  // and up to which it was read
	total, received int64  // of the transfer under way; total is -1 if it is not known
	lastIO          time.Time
	begun           time.Time // when the transfer began
	downSince       time.Time // zero: the link was never up
	failure         string    // why the last attempt failed

	link  *upstream.Link
	start int64 // Link.Received at the begin of the transfer
}

// begin is called when the server has become the replica of another master.
func (l *linkState) begin() {
	*l = linkState{stage: connect, id: l.id, applied: l.applied, read: l.read}
}

// figures returns the state of the link now.
func (r *Role) figures() linkState {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.link
	if f.link != nil {
		f.lastIO, f.received = f.link.LastIO(), f.link.Received()-f.start
	}
	return f
}

// Transfer returns the progress of a full synchronization; ok is false if there is none.
func (r *Role) Transfer() (begun time.Time, done, total int64, ok bool) {
	f := r.figures()
	return f.begun, f.received, f.total, f.stage == transfer
}

// Drop ends the link with the master, which is made again. It reports whether there was one.
func (r *Role) Drop() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link.link == nil {
		return false
	}
	r.link.link.Close()
	return true
}

const (
	retryEvery = time.Second
	retryMost  = time.Minute // the longest pause after data that is refused here
	ackEvery   = time.Second
)

// errOther: the server has become something else meanwhile.
var errOther = errors.New("the server is not the replica of this master any more")

// Run replicates until ctx ends, whenever the server is a replica, and is the one of its store
// that leads.
func (r *Role) Run(ctx context.Context) {
	a := &attempts{role: r, pause: r.retry}
	for ctx.Err() == nil {
		master := r.master()
		if master != "" && r.store.Load().Leads() {
			a.replicate(ctx, master)
		}
		select {
		case <-ctx.Done():
		case <-r.changed:
			a.pause = r.retry
		case <-time.After(a.pause):
		}
	}
}

// attempts is what one attempt to replicate leaves to the next one.
type attempts struct {
	role    *Role
	refused bool // the data may differ from the master's: all of it must be loaded anew
	pause   time.Duration
	logged  string // the last failure
}

// replicate replicates until the link breaks.
func (a *attempts) replicate(ctx context.Context, master string) {
	r := a.role
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	if r.master() != master { // the role was changed before cancel was there
		return
	}
	go r.watchLead(ctx, cancel)
	up, err := r.follow(ctx, master, a.refused)
	var refused *RefusedError
	switch {
	case ctx.Err() != nil:
		err = nil
	case errors.As(err, &refused), errors.Is(err, upstream.ErrProtocol) && up:
		a.refused, a.pause = true, min(2*a.pause, retryMost)
	case up:
		a.refused, a.logged, a.pause = false, "", r.retry
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = nil
	if r.link.link = nil; r.link.stage == notReplica {
		return
	}
	if up {
		r.link.downSince = time.Now()
	}
	r.link.stage = connect
	if err == nil {
		return
	}
	r.link.failure = err.Error()
	if a.logged != r.link.failure {
		a.logged = r.link.failure
		r.Log.Warn("the replication is interrupted, and is tried again", "master", master, "err", err)
	}
}

// watchLead cancels the link when another process of the store leads.
func (r *Role) watchLead(ctx context.Context, cancel func()) {
	tick := time.NewTicker(ackEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !r.store.Load().Leads() {
				cancel()
			}
		}
	}
}

// follow makes a link and applies what comes. up: the link was established.
func (r *Role) follow(ctx context.Context, master string, anew bool) (up bool, err error) {
	o, err := r.linkOptions(master)
	if err != nil {
		return false, err
	}
	space := r.store.Load().Executor.Space()
	link, err := upstream.Dial(ctx, o)
	if err != nil {
		return false, err
	}
	defer link.Close()
	r.mu.Lock()
	r.link.link = link
	r.mu.Unlock()
	at, found, err := space.Position()
	if err != nil {
		return false, err
	}
	if !found || anew {
		at = keyspace.Position{}
	}
	answer, err := link.Sync(at.ID, at.Offset)
	if err != nil {
		return false, err
	}
	if answer.Full {
		if at, err = r.load(ctx, link, master, answer); err != nil {
			return false, fmt.Errorf("full synchronization: %w", err)
		}
	} else if at, err = r.goOn(master, at, answer); err != nil {
		return false, err
	}
	r.mu.Lock()
	r.link.id, r.link.applied, r.link.read, r.link.failure = at.ID, at.Offset, at.Offset, ""
	r.mu.Unlock()
	return true, r.applyStream(ctx, link, at)
}

func (r *Role) linkOptions(master string) (upstream.Options, error) {
	c := r.Config
	o := upstream.Options{
		Addr: dialAddress(master), User: c.Str("masteruser"), Password: c.Str("masterauth"),
		Host: c.Str("replica-announce-ip"), Port: int(c.Int("replica-announce-port")),
		Timeout: time.Duration(c.Int("repl-timeout")) * time.Second,
		Progress: func(s upstream.Stage) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.link.stage != notReplica {
				r.link.stage = s
			}
		},
	}
	secure := c.Bool("tls-replication")
	if o.Port == 0 {
		o.Port = r.Port(secure)
	}
	if !secure {
		return o, nil
	}
	var err error
	o.TLS, err = r.TLS()
	return o, err
}

// goOn notes that the stream goes on at a place, maybe with another id.
func (r *Role) goOn(master string, at keyspace.Position, answer upstream.Answer) (keyspace.Position, error) {
	r.Log.Info("the master goes on where the stream ended", "master", master, "offset", at.Offset, "id", answer.ID)
	if answer.ID == at.ID {
		return at, nil
	}
	before := at.AppendTo(nil)
	at.ID = answer.ID
	_, err := r.store.Load().Executor.DoExclusively(func(tx *keyspace.Tx) {
		if v, _ := tx.GetRow(keyspace.PositionRow()); string(v) != string(before) {
			tx.Fail(keyspace.ErrPosition)
		}
		tx.SetPosition(&at)
	})
	return at, err
}

// load replaces the data by that of the master, when all of it has come.
func (r *Role) load(ctx context.Context, link *upstream.Link, master string, answer upstream.Answer) (at keyspace.Position, err error) {
	s := r.store.Load()
	r.Log.Info("full synchronization begins; the data of this server stays until it is complete", "master", master, "id", answer.ID, "offset", answer.Offset)
	begun := time.Now()
	r.mu.Lock()
	r.link.begun, r.link.start, r.link.total = begun, link.Received(), -1
	r.mu.Unlock()
	stop := keepAlive(ctx, link)
	defer stop()
	payload, err := link.Payload()
	if err != nil {
		return at, err
	}
	r.mu.Lock()
	r.link.start, r.link.total = link.Received(), payload.Size
	r.mu.Unlock()
	i, err := importer.Begin(ctx, s.Executor.Engine(), importer.Options{
		Databases: s.Executor.Space().Databases(), Now: begun.UnixMilli(), Libraries: r.Libraries,
		Live: &importer.Live{Space: s.Executor.Space(), Exclusively: func(f func(*keyspace.Tx)) error {
			_, err := s.Executor.DoExclusively(f)
			return err
		}},
	})
	if err != nil {
		return at, err
	}
	rest, size, err := i.RDB(&progress{Reader: payload, role: r, logged: begun}, false)
	if err == nil {
		err = payload.End(rest)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		at = keyspace.Position{ID: answer.ID, Offset: answer.Offset, DB: i.StreamDB}
		err = i.Finish(func(tx *keyspace.Tx) {
			if tx.Space.Role().Master != master {
				tx.Fail(errOther)
			}
			tx.SetPosition(&at)
		})
	}
	if err != nil {
		if failed := i.Abandon(); failed != nil && !errors.Is(failed, engine.ErrReadOnly) {
			err = errors.Join(err, failed)
		}
		return at, err
	}
	r.Master.Discard()
	r.Log.Info("full synchronization is complete, and has replaced the data", "keys", i.Keys, "bytes", size, "took", time.Since(begun))
	return at, nil
}

// keepAlive tells the master that this replica lives while it loads.
func keepAlive(ctx context.Context, link *upstream.Link) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(ackEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if link.KeepAlive() != nil {
					return // the reader sees it
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// progress logs how far a transfer is.
type progress struct {
	io.Reader
	role   *Role
	logged time.Time
}

// progressEvery is how often the progress is logged.
const progressEvery = 5 * time.Second

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if now := time.Now(); now.Sub(p.logged) >= progressEvery {
		p.logged = now
		f := p.role.figures()
		args := []any{"bytes", f.received}
		if f.total > 0 {
			args = append(args, "of", f.total, "percent", f.received*100/f.total)
		}
		p.role.Log.Info("full synchronization", args...)
	}
	return n, err
}
