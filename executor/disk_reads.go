package executor

// Rows that are not in memory.
//
// A loop's view never waits for a disk (engine.ErrCold). A command that needs
// such a row is rolled back and run again by a worker, whose view waits. For a
// pipeline that would be one handover to a worker per command, so a session
// that parsed several commands ahead and finds more than one of their rows cold
// has a worker fetch all these rows at once (Warm), and then runs the commands on
// its loop.
//
// Not more than maxReading workers read from disk at a time: more would only
// queue in front of the disk, and each holds memory and perhaps latches. A place
// is taken when a command has its latches and released before its commit, so
// a worker that holds a place waits only for the disk, and nothing can deadlock.
// Only commands that met a cold row need a place: if every worker did, 64 writers
// that wait for a congested store, or long scripts, would keep all readers waiting.
// The goroutines themselves need no bound of their own: a session has one command
// under way, so there are not more of them than connections.

// maxReading is how many workers read from disk at a time: about as many reads
// as a fast disk takes at once.
const maxReading = 64
