package channel

// MaxClock is the largest clock; the smallest is -MaxClock. They are integers that
// every JSON library keeps exact.
const MaxClock = 1<<53 - 1

// clocks is the number of clock values.
const clocks = 2*MaxClock + 1

// Clock is the clock of a position: the largest clock is followed by the smallest.
func Clock(position int64) int64 {
	n := (position + MaxClock) % clocks
	if n < 0 {
		n += clocks
	}
	return n - MaxClock
}

// PositionOf is the newest position with the clock, among those up to the channel's last.
func (c *Channel) PositionOf(clock int64) int64 {
	back := (Clock(c.last) - clock) % clocks
	if back < 0 {
		back += clocks
	}
	return c.last - back
}
