package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
)

// pause implements CLIENT PAUSE: sessions whose next command is paused wait in a list
// until the pause ends.
type pause struct {
	active  atomic.Bool
	mu      sync.Mutex
	until   time.Time
	all     bool
	timer   *time.Timer
	list    []*session
	changed func(active bool) // keys must not expire while writes are paused
}

// holds says whether a command has to wait. As in Redis, a pause of all
// commands holds CLIENT UNPAUSE, too.
func (p *pause) holds(cmd *command.Command, args [][]byte, m *multi) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.active.Load() && (p.all || m.flagsOf(cmd, args)&(command.Write|command.MayReplicate) != 0)
}

func (p *pause) add(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active.Load() { // the pause has just ended
		go s.postResume(nil)
		return
	}
	p.list = append(p.list, s)
}

// begin pauses until a time; a pause under way is extended, never shortened.
// all of the newest call applies.
func (p *pause) begin(until time.Time, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active.Load() && until.Before(p.until) {
		until = p.until
	}
	p.until, p.all = until, all
	p.active.Store(true)
	p.changed(true)
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(time.Until(until), p.expire)
}

// expire ends the pause if its time is over: the timer may have fired just before
// the pause was extended.
func (p *pause) expire() { p.stop(false) }

// end ends the pause at once.
func (p *pause) end() { p.stop(true) }

func (p *pause) stop(early bool) {
	p.mu.Lock()
	if !early && time.Now().Before(p.until) {
		p.mu.Unlock()
		return
	}
	p.active.Store(false)
	p.changed(false)
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	list := p.list
	p.list = nil
	p.mu.Unlock()
	for _, s := range list {
		s.postResume(nil)
	}
}

// tell calls changed with the present state, for a listener that was not ready before.
func (p *pause) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed(p.active.Load())
}

// drop forgets a session that was closed while it waited.
func (p *pause) drop(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.list, s); i >= 0 {
		p.list = slices.Delete(p.list, i, i+1)
	}
}

// waiting returns the number of waiting sessions.
func (p *pause) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list)
}
