package executor

import (
	"fmt"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/keyspace"
)

// told collects what the listener gets.
func (f *fixture) told() func() string {
	var heard []string
	f.x.Listen(func(e *keyspace.Effects, t engine.Ticket) {
		for _, touch := range e.Touched {
			heard = append(heard, fmt.Sprintf("%s by %d", touch.Key, touch.By))
		}
		for _, m := range e.Messages {
			heard = append(heard, fmt.Sprintf("%s: %s, behind %d events", m.Channel, m.Payload, m.Events))
		}
		if e.UntrackedTouch {
			heard = append(heard, "unseen")
		}
		if e.Flushed {
			heard = append(heard, "flushed")
		}
	})
	return func() string {
		text := strings.Join(heard, "; ")
		heard = nil
		return text
	}
}

// A batch that changed keys when nobody observed, and is committed when somebody
// does, says that it did: who began to track a key meanwhile has read its old value.
func TestChangesBeforeAnybodyObserved(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	c := f.client()
	c.run("SET a 1")
	f.x.Space().Observers.Add(1)
	c.run("SET b 1")
	c.commit()
	f.want("changes of a batch that began before", told(), "b by 0; unseen")
	c.run("SET a 2")
	c.commit()
	f.want("changes of the next", told(), "a by 0")
	f.x.Space().Observers.Add(-1)
	c.run("SET a 3")
	c.commit()
	f.want("changes without observers", told(), "")
}

// Those who observe are told who has changed a key, and that all keys are gone even
// if there were none.
func TestWhoChangedAKey(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	f.x.Space().Observers.Add(1)
	c := f.client()
	args := words("SET a 1")
	c.call = Call{Cmd: table().Find(args), Args: args, Reply: &c.w, By: 7}
	equal(t, "detour", c.b.Run(&c.call), 0)
	c.commit()
	f.want("of a client", told(), "a by 7")
	f.do("DEL a")
	f.want("of nobody", told(), "a by 0")
	f.worker(0, "FLUSHDB")
	f.want("of an empty database", told(), "flushed")
}

// CommitIfObserved commits only if a client observes the effects, CommitIfChanged only if they
// are about the keys.
func TestCommitIfObserved(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	c := f.client()
	c.run("SET a 1")
	c.b.CommitIfObserved(nil)
	f.want("what nobody wants to hear of", told(), "")
	c.commit()
	f.x.Space().Observers.Add(1)
	c.run("SET a 2")
	b, a := words("GET b"), words("GET a")
	c.b.CommitIfChanged(table().Find(b), b, nil)
	f.want("another key", told(), "")
	c.b.CommitIfChanged(table().Find(a), a, nil)
	f.want("that key", told(), "a by 0")
	c.commit()
	f.want("nothing is told twice", told(), "")
}

// A failed command leaves no effects but that it looked in vain.
func TestFailedCommandLookedForAKey(t *testing.T) {
	f := newFixture(t)
	f.x.Listening(keyspace.MissEv | keyspace.Generic | keyspace.StreamEv)
	var events []string
	f.x.Listen(func(e *keyspace.Effects, _ engine.Ticket) {
		for _, ev := range e.Events {
			events = append(events, ev.Name+" "+string(ev.Key))
		}
	})
	f.do("XPENDING nosuch group")
	f.want("events", strings.Join(events, ", "), "keymiss nosuch")
	equal(t, "misses", f.x.Stats.Misses.Load(), 1)
}
