// Package observe counts, times and logs what the server does: statistics by command, error
// replies by code, the slow log, latency events, MONITOR, and a log that clients cannot
// flood. The commands LATENCY and SLOWLOG are here too.
//
// Counting a command costs some uncontended atomic additions and no allocation: every event
// loop has counters of its own, which are added up by readers. Nothing here knows a
// session or the server; addresses and names of clients are passed in as text.
package observe

import "redoubt/command"

// Observer has all statistics and logs of one server. Init is called before use.
type Observer struct {
	Stats    Stats
	Errors   Errors
	Slow     Slowlog
	Latency  Latency
	Monitors Monitors
}

// Init sets the table of the commands to be counted.
func (o *Observer) Init(t *command.Table) { o.Stats.init(t) }

// Reset resets all counters, as CONFIG RESETSTAT does. The slow log, the latency events
// and the rates stay.
func (o *Observer) Reset() {
	o.Stats.reset()
	o.Errors.reset()
}
