package server

import (
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
)

// pause is CLIENT PAUSE: sessions that come with a command that is paused wait
// in a list until the pause ends.
type pause struct {
	active atomic.Bool
	mu     sync.Mutex
	until  time.Time
	all    bool
	timer  *time.Timer
	list   []*session
}

// holds says whether a command has to wait.
func (p *pause) holds(cmd *command.Command, _ *session) bool {
	if cmd == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active.Load() {
		return false
	}
	if cmd.Name == "client" || cmd.Parent != nil && cmd.Parent.Name == "client" {
		return p.all && cmd.Name != "unpause" && cmd.Name != "pause"
	}
	return p.all || cmd.Flags&(command.Write|command.MayReplicate) != 0
}

func (p *pause) add(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active.Load() { // it ended just now
		go s.car.post(s.resume)
		return
	}
	p.list = append(p.list, s)
}

// begin pauses until a time; a pause under way is extended, never shortened,
// and a pause of all commands stays one.
func (p *pause) begin(until time.Time, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active.Load() {
		all = all || p.all
		if until.Before(p.until) {
			until = p.until
		}
	}
	p.until, p.all = until, all
	p.active.Store(true)
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(time.Until(until), p.end)
}

// end resumes everybody.
func (p *pause) end() {
	p.mu.Lock()
	p.active.Store(false)
	list := p.list
	p.list = nil
	p.mu.Unlock()
	for _, s := range list {
		s.car.post(s.resume)
	}
}

// waiting is how many sessions wait.
func (p *pause) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list)
}
