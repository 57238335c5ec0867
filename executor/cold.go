package executor

// Rows that are not in memory.
//
// A loop's view never waits for a disk (engine.ErrCold). A command that needs
// such a row is rolled back and run again by a worker, whose view waits. For a
// pipeline that would be one trip to a worker for each command, so a session
// that parsed several commands ahead and finds more than one of their rows cold
// has a worker fetch all of them at once (Warm), and then runs the commands on
// its loop.
//
// Not more than maxReading workers read from disk at a time: more would only
// queue in front of the disk, and each holds memory and perhaps latches. A place
// is taken when a command has its latches and given back before its commit, so
// whoever holds one waits for nothing but the disk, and nothing can deadlock.
// Hence only commands that met a cold row need a place: a place for every worker
// would let 64 writers that wait for a congested store, or scripts that take
// long, keep all readers waiting. The goroutines themselves need no bound of
// their own: a session has one command under way, so there are not more of them
// than connections.

// maxReading is how many workers read from disk at a time: about as many reads
// as a fast disk takes at once.
const maxReading = 64

// Fetched returns a copy of the rows that the last Fetch was about.
func (b *Batch) Fetched() [][]byte {
	bytes, rows := append([]byte(nil), b.soonBytes...), make([][]byte, len(b.soon))
	at := 0
	for i, r := range b.soon {
		rows[i] = bytes[at : at+len(r) : at+len(r)]
		at += len(r)
	}
	return rows
}

// Warm has the engine load rows into memory and waits for that. It is a hint: a
// row may be gone again when somebody reads it, and whatever is wrong with the
// store is said to whoever reads.
func (x *Executor) Warm(rows [][]byte) {
	x.reading <- struct{}{}
	defer func() { <-x.reading }()
	view, err := x.eng.Begin(true)
	if err != nil {
		return
	}
	defer view.Close()
	view.Prefetch(rows)
	x.Stats.Warmed.Add(1)
}
