package engine

import "errors"

// ErrNotLeader: another process takes the commits, or none does, or what the commit rests on
// may have been taken back since it was read. Nothing was written.
var ErrNotLeader = errors.New("this process does not lead the group of its store")

// Replicated is an optional interface of an engine whose commits several processes may have
// to agree upon. A commit that is visible here may then be taken back, as long as it is not
// durable; its ticket is given to another commit later. So whoever holds something back
// until a ticket is durable keeps the epoch with it, in which it was evaluated, and asks for
// the Outcome. In a store of one process the epoch is always the same, and nothing is taken
// back.
type Replicated interface {
	Engine
	// Epoch names the present time of leadership. It never decreases. It is read before the
	// view is begun on which an execution is evaluated.
	Epoch() uint64
	// Outcome tells what has become of a commit, by its ticket and the epoch in which it was
	// made or read. It changes when the function given to OnDurable is called.
	Outcome(epoch uint64, t Ticket) Outcome
}

// Outcome is what has become of a commit.
type Outcome uint8

// The outcomes of a commit. All but Pending are final.
const (
	Pending Outcome = iota // not durable yet; it may still be taken back
	Durable                // safe, and never taken back
	Void                   // taken back: nothing happened
	Unknown                // the engine has forgotten; it cannot be Pending
)
