package server

import "redoubt/engine"

// fewPushes is the largest number of another loop's sessions to which a loop sends
// messages itself. More are left to that loop: they would delay the replies.
const fewPushes = 16

// pushElsewhere sends messages pushed to idle sessions of other loops. Those loops would
// have to wake up first, and mostly send a message after the reply of the command that
// has caused it.
func (l *loop) pushElsewhere(durable engine.Ticket) {
	for _, other := range l.srv.car.loops {
		if other == l || !other.hasPushed.Load() {
			continue
		}
		var some [fewPushes]*conn
		other.mu.Lock()
		n := len(other.pushed)
		if n <= fewPushes {
			copy(some[:], other.pushed)
		}
		other.mu.Unlock()
		for _, c := range some[:min(n, fewPushes)] {
			if c != nil {
				c.pushNow(durable)
			}
		}
	}
}

// pushNow sends the session's pushed messages, from another goroutine than its loop's. It
// leaves them to the loop, which is notified already, if the session has other output, the
// socket is full or broken, or a message is not durable.
func (c *conn) pushNow(durable engine.Ticket) {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.closed || !c.out.TakeDurable(&c.pushQueue, durable) {
		return
	}
	n, _, errno := c.writeSome()
	if errno != 0 {
		return
	}
	if c.advance(n); c.out.Pending() == 0 {
		c.out.Emptied()
	}
}
