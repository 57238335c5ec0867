// Package replication is the server's part in the replication of Redis: a replica of a master
// (role.go, upstream.go), or a master of replicas (Source). Package upstream speaks the protocol
// with a master; this package decides when, and applies what comes.
//
// The package promises: what a master has sent is applied once and in its order, also after
// kill -9 of either side; while a data set is transferred the old data stays, and is replaced in
// one moment; a server that is told to be no replica any more applies nothing from then on.
package replication

// Master is the part of the server that sends to replicas, as ROLE and INFO show it.
type Master interface {
	// Replicas lists the replicas that are connected.
	Replicas() []ReplicaState
	// ID returns the replication id and the offset of the stream; id2 is the id that the stream
	// had before, up to secondOffset, which is -1 if there was none.
	ID() (id, id2 string, offset, secondOffset int64)
	// ChangeID begins another history, as after a failover.
	ChangeID()
	// Discard ends all replicas and their history: the data was replaced by other data.
	Discard()
	Backlog() BacklogState
}

// ReplicaState is a connected replica.
type ReplicaState struct {
	Host   string
	Port   int
	State  string // as in INFO: wait_bgsave, send_bulk, online
	Offset int64  // acknowledged
	Lag    int64  // seconds since the last acknowledgement
}

// BacklogState is the part of the stream that is kept for replicas that come back.
type BacklogState struct {
	Active       bool
	Size         int64
	First, Bytes int64 // the offset of the first byte that is kept, and how many are
}
