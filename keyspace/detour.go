package keyspace

// Detour is the reason why an execution cannot go on as it runs: it is rolled back, leaves no
// trace, and is run again in another way. A Detour is not a failure, but is returned as the
// error of the execution, and then kept in the call, whose next run it determines.
type Detour uint8

const (
	// NeedsLatch: the execution runs without latches and reads a second row.
	NeedsLatch Detour = iota + 1
	// NeedsWorker: the execution cannot be run on an event loop, or would have to wait there;
	// or it cannot be run in its mode.
	NeedsWorker
	// TakesLong: the execution touches many rows, and runs on an event loop or holds
	// latches that it only reads under.
	TakesLong
	// NeedsDisk: the execution runs on an event loop, and rows are not in memory.
	NeedsDisk
	// NeedsOneState: the execution reads keys that are not latched for its command.
	NeedsOneState
	// NeedsMemory: others hold the working memory that it needs.
	NeedsMemory
	// NeedsSnapshot: the engine has revoked the snapshot of the execution.
	NeedsSnapshot
	// GivesWay: another execution needs the whole keyspace.
	GivesWay
	// Stale: another process has changed what the execution read.
	Stale
)

var detours = [...]string{
	NeedsLatch: "needs its latches", NeedsWorker: "needs a worker", TakesLong: "takes long", NeedsDisk: "needs rows from disk",
	NeedsOneState: "needs one state of all keys", NeedsMemory: "waits for working memory", NeedsSnapshot: "needs another snapshot",
	GivesWay: "gives way", Stale: "read what does not hold any more",
}

func (d Detour) Error() string { return "execution " + detours[d] }
