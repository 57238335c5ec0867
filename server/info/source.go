package info

import (
	"log/slog"
	"time"

	"redoubt/budget"
	"redoubt/config"
	"redoubt/engine"
	"redoubt/script"
	"redoubt/server/checkpoint"
	"redoubt/server/observe"
)

// Source provides the figures for INFO, MEMORY and the metrics. Each method reads its
// figures anew; Clients and Net take the lock of every session for a moment.
type Source interface {
	Config() *config.Config
	// ClientLog is the rate-limited log for lines that clients can cause at will.
	ClientLog() *slog.Logger
	Observer() *observe.Observer
	Server() Server
	Clients() Clients
	// Net returns how many bytes came from clients and went to them.
	Net() (in, out int64)
	// Store returns zeros, but for OnDisk, while the store is being opened.
	Store() Store
	// Loading returns the progress of the opening of the store; ok is false when it is over.
	Loading() (l Loading, ok bool)
	// Databases visits the databases in order with the numbers of keys, and of keys with an
	// expiry. It ends when visit returns false, and visits none while the store is being opened.
	Databases(visit func(db int, keys, volatile int64) bool) error
	Features() Features
	Channels() Channels
	// Replication calls line with the lines of the section replication, in their order.
	Replication(line func(name string, value any))
	// Transfer returns the progress of a full synchronization with a master: bytes, of which
	// total is -1 if it is not known. ok is false if there is none.
	Transfer() (begun time.Time, done, total int64, ok bool)
	// Peers returns the figures of other front ends; ok is false on a store of its own.
	Peers() (p Peers, ok bool)
	// Raft returns the figures of this node of a replicated store; ok is false on any other.
	Raft() (r Raft, ok bool)
	Scripts() script.Figures
	// Working returns the figures of the pool from which commands take memory.
	Working() budget.Figures
	// Saves returns the figures of checkpoints.
	Saves() checkpoint.Figures
}

// Server describes the server.
type Server struct {
	Started      time.Time
	Cluster      bool
	Mode         string // standalone or cluster
	Multiplexing string
	Loops        int // event loops
	Port         int
	Listeners    []Listener
	Engine       string // its name
	Durability   string // when a write is durable: a value of appendfsync, none or replicated
	MaxMemory    int64
}

// Listener is the listening addresses of one kind.
type Listener struct {
	Number int // by kind, as in Redis
	Kind   string
	Binds  []string
	Port   int // 0 for none
}

// Clients are the figures of the connections.
type Clients struct {
	Connected, Max       int64
	Links                int   // connections with other front ends
	Input, Output        int64 // the largest recent buffers
	Memory               int64 // of their buffers
	Charged, ChargeLimit int64 // use and limit of budget.Clients
	Blocked              int
	Keys, KeysGone       int // keys at which clients wait, and those whose deletion they wait for
	Tracking, PubSub     int64
	Unauthenticated      int
}

// Store has the figures of the engine and the executor.
type Store struct {
	engine.Stats
	Evicted            int64 // keys
	Counted            int64 // what counts against maxmemory where that bounds the data, else 0
	Ready              bool
	OnDisk             bool // the engine is not in memory only; true while the store is being opened
	Err                error
	Committed, Durable engine.Ticket
	// Cycles of the removal of expired keys, and how long they took.
	Sweeps, SweepNanos              int64
	SweepsBehind, SweepConflicts    int64
	Cleared                         int64 // rows of databases that were flushed
	Clearing                        bool
	Hits, Misses, Expired           int64
	Changes, Dropped                int64
	Cold, WarmUps, Slowed, Together int64
}

// Pending returns how many commits are not durable yet.
func (s *Store) Pending() int64 { return int64(s.Committed - s.Durable) }

// Loading is the progress of the opening of the store.
type Loading struct {
	Start       time.Time
	Done, Total int64 // bytes
	Percent     float64
	Seconds     int64 // estimated time left
}

// Features are figures of parts of the server.
type Features struct {
	Channels, Patterns, ShardChannels                   int64 // with subscribers
	TrackedKeys, TrackedItems, TrackedPrefixes          int64
	MigrateConnections                                  int
	DeniedAuth, DeniedCommand, DeniedKey, DeniedChannel int64
	// FullSyncs and PartialSyncs count replicas that got a snapshot, or the stream alone;
	// RefusedSyncs those that asked for the latter and got the former.
	FullSyncs, PartialSyncs, RefusedSyncs int64
	// Stream is the memory of the replication stream, and Backlog the part of it that is kept
	// for replicas that come back.
	Stream, Backlog int64
}

// Raft are the figures of a node of a replicated store. Members are the others, as the leader
// knows them.
type Raft struct {
	Leads, LeaderKnown, Failed  bool
	Term, Commit, Applied, Last uint64
	Lease                       time.Duration // for how long the node may still answer reads alone
	Elections, Rewinds          int64
	Members                     []RaftMember
}

// RaftMember is another node.
type RaftMember struct {
	Replica uint64
	Lag     uint64 // entries that it is not known to have
	Active  bool   // it was heard of lately
}

// Peers are the figures of the exchange with other front ends of the store.
type Peers struct {
	Known, Connected, Followers int
	FramesIn, BytesIn           int64
	FramesOut, BytesOut, Queued int64
	Lost, Refused, Dropped      int64
	Wanted, WantedByOthers      string // kinds of effects
}
