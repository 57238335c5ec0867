// Package command is the table of Redis commands: one descriptor per command,
// with its metadata and its handler side by side. COMMAND, ACL categories, key
// extraction and the documentation all come from these values.
//
// A handler is a deterministic function of its Ctx. It reads and writes keys
// through Ctx.Tx, builds its reply in Ctx.Reply and returns nil, or returns an
// error, in which case everything it did is undone. It may be run more than
// once. It sees no socket, no clock, no global random source, no server.
//
// Commands about the server or the connection have descriptors of the same
// kind, without Run, in package server.
package command

import (
	"math/rand/v2"
	"strings"

	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/channel"
	"redoubt/wire"
)

// Command describes one command or subcommand.
type Command struct {
	Name    string // in lower case, without its container's name
	Summary string
	Since   string
	Group   Group
	Arity   int // number of arguments with the name; -n means at least n
	Flags   Flags
	// Categories are ACL categories beyond those that follow from Flags and
	// Group.
	Categories Category
	Tips       []string
	Keys       []KeySpec
	Channels   ChannelSpec
	// ReadsOnly, if set, reports whether a call of a command that may write only reads, as SORT
	// without STORE.
	ReadsOnly func(args [][]byte) bool
	// UnnamedKeys, if set, returns the error for a user who may not read all keys
	// when a call reads keys that its arguments do not name, as SORT with BY.
	UnnamedKeys func(args [][]byte) error
	// Syntax lists the arguments in the notation of syntax.go.
	Syntax string
	// Further fields of COMMAND DOCS.
	Complexity, Deprecated, ReplacedBy string

	Run  func(*Ctx) error
	Subs []*Command // a container has subcommands and usually no Run

	// Set by NewTable in its own copy of the descriptor.
	Declared *Command // the descriptor that was given to NewTable
	ID       int      // dense, for statistics
	Parent   *Command // the container of a subcommand
	FullName string   // "client|list"
}

// Group is a group of commands, as in COMMAND DOCS.
type Group string

const (
	Bitmap       Group = "bitmap"
	Channel      Group = "channel"
	Cluster      Group = "cluster"
	Connection   Group = "connection"
	Generic      Group = "generic"
	Geo          Group = "geo"
	Hash         Group = "hash"
	HyperLogLog  Group = "hyperloglog"
	List         Group = "list"
	PubSub       Group = "pubsub"
	Scripting    Group = "scripting"
	Server       Group = "server"
	Set          Group = "set"
	SortedSet    Group = "sorted-set"
	Stream       Group = "stream"
	String       Group = "string"
	Transactions Group = "transactions"
)

// Flags are the command flags that Redis reports, and ours above them.
type Flags uint64

const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	PubSubFlag
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	MayReplicate
	NoAsyncLoading
	NoMulti
	MovableKeys
	AllowBusy
	NoMandatoryKeys
	// SysCmd: the command is one that servers send, not people.
	SysCmd
	// Exclusive: the command runs with the whole keyspace latched.
	Exclusive
	// OnWorker: the command never runs on an event loop.
	OnWorker
	// NoTouch: the command does not count as a use of its keys.
	NoTouch
	// OneState: the command walks many rows and must see one state of them.
	OneState
	// Repeatable: a command without Run that a transaction may run on an event
	// loop, and again when it has to be rolled back.
	Repeatable
	// NoQueue: the command runs at once on a connection in MULTI; others are queued.
	NoQueue
	// WhileSubscribed: a RESP2 client that has subscriptions may send the command.
	WhileSubscribed
	// Tracking: a call whose argument is ON asks for invalidation messages.
	Tracking
	// AwaitsAcks: the command may wait for replicas (Block.Acks).
	AwaitsAcks
	// FromMaster: the command does not write, but is run when a master sends it.
	FromMaster
	// AlwaysPropagates: replicas run the command even if it has changed nothing here.
	AlwaysPropagates
)

// FlagNames are the names of the flags that clients see, in Redis's order. Not
// all flags are shown, in Redis either.
var FlagNames = []struct {
	Flag Flags
	Name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"}, {PubSubFlag, "pubsub"},
	{NoScript, "noscript"}, {Blocking, "blocking"}, {Loading, "loading"}, {Stale, "stale"},
	{SkipMonitor, "skip_monitor"}, {SkipSlowlog, "skip_slowlog"}, {Asking, "asking"}, {Fast, "fast"},
	{NoAuth, "no_auth"}, {NoMandatoryKeys, "no_mandatory_keys"}, {NoAsyncLoading, "no_async_loading"},
	{NoMulti, "no_multi"}, {MovableKeys, "movablekeys"}, {AllowBusy, "allow_busy"},
}

// Category is a set of ACL categories.
type Category uint32

const (
	CatKeyspace Category = 1 << iota
	CatRead
	CatWrite
	CatSet
	CatSortedSet
	CatList
	CatHash
	CatString
	CatBitmap
	CatHyperLogLog
	CatGeo
	CatStream
	CatPubSub
	CatAdmin
	CatFast
	CatSlow
	CatBlocking
	CatDangerous
	CatConnection
	CatTransaction
	CatScripting
	CatChannel
)

// CategoryNames are the names of the categories, in Redis's order; the last one is ours.
var CategoryNames = []string{
	"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
	"stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting",
	"channel",
}

var groupCategory = map[Group]Category{
	Bitmap: CatBitmap, Channel: CatChannel, Connection: CatConnection, Geo: CatGeo, Hash: CatHash, HyperLogLog: CatHyperLogLog,
	List: CatList, Scripting: CatScripting, Set: CatSet, SortedSet: CatSortedSet, Stream: CatStream,
	String: CatString, Transactions: CatTransaction, Generic: CatKeyspace,
}

// AllCategories are the command's categories: by its group, by its flags, and
// its own.
func (c *Command) AllCategories() Category {
	cat := c.Categories
	// A generic command is about keys, unless it says of which types it is.
	generic := c.Flags&(Write|ReadOnly) != 0 && cat&(CatList|CatSet|CatSortedSet) == 0
	if len(c.Subs) == 0 && (c.Group != Generic || generic) {
		cat |= groupCategory[c.Group]
	}
	is := func(f Flags) bool { return c.Flags&f != 0 }
	if is(Write) {
		cat |= CatWrite
	}
	if is(ReadOnly) && !is(NoScript) && c.Group != Scripting {
		cat |= CatRead
	}
	if is(Admin) {
		cat |= CatAdmin | CatDangerous
	}
	if is(PubSubFlag) {
		cat |= CatPubSub
	}
	if is(Fast) {
		cat |= CatFast
	}
	if is(Blocking) {
		cat |= CatBlocking
	}
	if cat&CatFast == 0 {
		cat |= CatSlow
	}
	return cat
}

// Ctx is what a handler sees of one execution.
type Ctx struct {
	Cmd   *Command
	Args  [][]byte // Args[0] is the command's name
	Tx    *keyspace.Tx
	Reply *wire.Writer
	// Seed makes this execution's random numbers; see Rand.
	Seed   uint64
	Limits *Limits
	Usage  Usage
	// NoBlock: the command must not wait, as in a transaction.
	NoBlock bool
	// Script: the command is one of a script.
	Script bool
	// Receivers returns how many clients of this process a message to a channel would reach now,
	// and whether any client may get it, of another process too.
	Receivers func(channel []byte, shard bool) (n int, heard bool)
	// Replicas are those of this server, nil if there cannot be any.
	Replicas Replicas
	// Caller is the client of the call, for a command that runs others: a script.
	Caller Caller
	// Queue are the commands of the transaction that EXEC runs. Changed reports whether a key that
	// its client watches was changed.
	Queue   []Queued
	Changed func() bool
	// Do runs another command inside this execution, for EXEC or a script, and appends the reply
	// to w. If Do returns an error, the command was rolled back and w has no reply. If Tx.Err is
	// not nil afterwards, the whole execution must end, and may be run again in another mode.
	Do func(cmd *Command, args [][]byte, w *wire.Writer) error
	// Sink, if set, takes what has been written to Reply so far and empties it.
	// See Spill.
	Sink func(*wire.Writer) error

	rand   *rand.Rand
	holdAt int // the size of Reply at which it is accounted for again
}

// Block is returned, unless NoBlock is set, by a handler that has found no element and waits for
// one. It is no failure: the handler's changes are undone, and the command is run again whenever
// one of the keys gets a value of the type, in the order in which clients began to wait, until
// it returns something else or its timeout is over.
type Block struct {
	Timeout int64 // milliseconds; 0 is for ever
	Type    keyspace.Type
	Keys    [][]byte
	// Args, if not nil, are the arguments with which the command goes on.
	Args [][]byte
	// Gone: the command is also run again when a key was removed or has a value of another type.
	Gone bool
	// Keep: the changes of the first run stay when the command begins to wait, as that a consumer
	// was seen. Changes of a later run that goes on waiting are undone.
	Keep bool
	// Shares: the command, although it writes, consumes nothing that another waiter waits for. It
	// is served like one that only reads: it may be run after the write's commit.
	Shares bool
	// Acks, if not nil, is what the command waits for instead of keys.
	Acks *Acks
}

// Replicas are the replicas of a server as WAIT sees them. Its methods may be called from any
// goroutine.
type Replicas interface {
	// End is the offset behind everything that was committed so far.
	End() int64
	// Acked counts the replicas that have everything up to an offset, in memory or, if fsynced,
	// in an append-only file.
	Acked(offset int64, fsynced bool) int
}

// Acks are acknowledgments of replicas that a command waits for.
type Acks struct {
	Offset   int64
	Replicas int64 // how many there are to be
	Fsynced  bool
	// Reply writes the reply: the command ends when there are enough, or when the time is over.
	Reply func(w *wire.Writer)
}

func (b *Block) Error() string { return "the command waits" }

// Limits are the settings that handlers depend on.
type Limits struct {
	types.Limits
	MaxBulk int64 // proto-max-bulk-len
	LFU     bool  // maxmemory-policy is an LFU one
	// LFULogFactor and LFUDecay are lfu-log-factor and lfu-decay-time.
	LFULogFactor, LFUDecay int64
	// ReadOnlyReplica is the directive replica-read-only: a replica refuses writes.
	ReadOnlyReplica bool
	// SkipChecksum: RESTORE takes payloads with a wrong checksum, for tests.
	SkipChecksum bool
	// Channels are the rules of channels by their names, or nil.
	Channels channel.Rules
}

// Caller is a client as the commands of its script see it. It may be used on any
// goroutine.
type Caller interface {
	// Permit returns an error if the client may not run a command with these arguments.
	Permit(cmd *Command, args [][]byte) error
	// OutOfMemory reports whether commands that need memory are refused.
	OutOfMemory() bool
	// Writable returns an error if a command with these flags is refused since it writes.
	Writable(flags Flags) error
	// Local runs a command that has no Run, and returns the database that is selected then. The
	// command reads and writes keys by within, as a part of the execution under way, which may
	// hold the latches.
	Local(cmd *Command, args [][]byte, db int, w *wire.Writer, within Within) (int, error)
}

// Within runs a command inside an execution; see Ctx.Do.
type Within func(cmd *Command, args [][]byte, w *wire.Writer) error

// Usage tells how a key was used lately.
type Usage interface {
	// Idle is the number of seconds since the key's last use.
	Idle(key []byte) int64
	// Freq is the logarithmic access counter of the key.
	Freq(key []byte) int64
	// Touch marks the key as used now.
	Touch(key []byte)
}

// Rand returns the random source of this execution, which gives the same numbers in each run.
func (c *Ctx) Rand() *rand.Rand {
	if c.rand == nil {
		c.rand = rand.New(rand.NewPCG(c.Seed, 0x9e3779b97f4a7c15))
	}
	return c.rand
}

// Reset makes the Ctx ready for another run.
func (c *Ctx) Reset() { c.rand, c.holdAt = nil, 0 }

// Spill is called between the elements of a reply that may be large, after their number was
// written: it sends the beginning to the client, so that the reply need not be in memory as a
// whole. It returns false if the client has gone.
func (c *Ctx) Spill() bool {
	if c.Sink == nil {
		return len(c.Reply.Buf) <= c.holdAt || c.holdReply()
	}
	if len(c.Reply.Buf) < spillBytes {
		return true
	}
	if err := c.Sink(c.Reply); err != nil {
		c.Tx.Fail(err)
	}
	return c.Tx.Err() == nil
}

// holdReply accounts for a reply that must be in memory as a whole.
func (c *Ctx) holdReply() bool {
	n := len(c.Reply.Buf)
	if c.holdAt > 0 && !c.Tx.Take(int64(n-c.holdAt+holdStep)) {
		return false
	}
	c.holdAt = n + holdStep
	return true
}

// holdStep is how much a reply grows until it is accounted for.
const holdStep = 16 << 10

// spillBytes is the size from which on Spill sends what there is of a reply.
const spillBytes = 64 << 10

// Table finds commands by name.
type Table struct {
	byName map[string]*Command
	list   []*Command // top-level commands, in the order given
	all    []*Command // with subcommands, by ID
	// longest is the length of the longest name that a command was given by Rename.
	longest int
}

// NewTable makes a table of commands. It copies the descriptors, so they are not changed and may
// be in several tables. It panics if a name comes twice.
func NewTable(groups ...[]*Command) *Table {
	t := &Table{byName: make(map[string]*Command)}
	for _, g := range groups {
		for _, c := range g {
			if t.byName[c.Name] != nil {
				panic("command " + c.Name + " is declared twice")
			}
			c = t.add(c, nil)
			t.byName[c.Name] = c
			t.list = append(t.list, c)
		}
	}
	return t
}

// add copies a descriptor and its subcommands into the table.
func (t *Table) add(declared, parent *Command) *Command {
	c := new(Command)
	*c = *declared
	c.Declared, c.Parent, c.ID, c.FullName = declared, parent, len(t.all), c.Name
	if parent != nil {
		c.FullName = parent.Name + "|" + c.Name
	}
	t.all = append(t.all, c)
	c.Subs = make([]*Command, 0, len(declared.Subs))
	for _, s := range declared.Subs {
		c.Subs = append(c.Subs, t.add(s, c))
	}
	return c
}

// Commands are the top-level commands; All has subcommands too, by ID.
func (t *Table) Commands() []*Command { return t.list }
func (t *Table) All() []*Command      { return t.all }

// Lookup finds a top-level command by a name in any case.
func (t *Table) Lookup(name []byte) *Command {
	var buf [32]byte
	if len(name) > len(buf) {
		if len(name) > t.longest {
			return nil
		}
		return t.byName[string(lower(make([]byte, len(name)), name))]
	}
	return t.byName[string(lower(buf[:len(name)], name))]
}

// Find finds the command of a whole call: the subcommand when the command is
// a container and the call names one. It returns the container alone when the
// subcommand is unknown or missing.
func (t *Table) Find(args [][]byte) (cmd *Command) {
	c := t.Lookup(args[0])
	if c == nil || len(c.Subs) == 0 || len(args) < 2 {
		return c
	}
	if s := c.Sub(args[1]); s != nil {
		return s
	}
	return c
}

// Sub finds a subcommand by a name in any case.
func (c *Command) Sub(name []byte) *Command {
	for _, s := range c.Subs {
		if len(s.Name) == len(name) && strings.EqualFold(s.Name, string(name)) {
			return s
		}
	}
	return nil
}

func lower(dst, src []byte) []byte {
	for i, c := range src {
		if c-'A' < 26 {
			c |= 32
		}
		dst[i] = c
	}
	return dst
}

// ArityOK reports whether a call with n arguments, the name included, is allowed.
func (c *Command) ArityOK(n int) bool {
	return n == c.Arity || (c.Arity < 0 && n >= -c.Arity)
}
