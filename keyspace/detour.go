package keyspace

// Detour is why an execution cannot go on as it runs: it is rolled back, has left no
// trace, and is run again in another way. It is not a failure, but travels as the error of
// the execution, and then with the call, so that whoever runs it again knows how.
type Detour uint8

const (
	// NeedsLatch: it came without latches to read a second row.
	NeedsLatch Detour = iota + 1
	// NeedsWorker: it runs on an event loop, where it would have to wait, or cannot be run.
	NeedsWorker
	// TakesLong: it runs on an event loop, or with latches that it only reads under, and
	// touches much.
	TakesLong
	// NeedsDisk: it runs on an event loop, and rows are not in memory.
	NeedsDisk
	// NeedsOneState: it reads keys that its command did not name.
	NeedsOneState
	// NeedsMemory: others hold the working memory that it needs.
	NeedsMemory
	// NeedsSnapshot: the engine has revoked the snapshot that it reads.
	NeedsSnapshot
	// GivesWay: another execution needs the whole keyspace.
	GivesWay
	// Stale: what it read does not hold any more, since another process has changed it.
	Stale
)

var detours = [...]string{
	NeedsLatch: "needs its latches", NeedsWorker: "needs a worker", TakesLong: "takes long", NeedsDisk: "needs rows from disk",
	NeedsOneState: "needs one state of all keys", NeedsMemory: "waits for working memory", NeedsSnapshot: "needs another snapshot",
	GivesWay: "gives way", Stale: "read what does not hold any more",
}

func (d Detour) Error() string { return "execution " + detours[d] }
