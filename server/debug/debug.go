// Package debug implements DEBUG, which is for tests and for finding faults.
//
// To COMMAND it is one command, so its subcommands are a table of their own here. Those that
// make no sense on this server (crashing it, RDB files, hash tables) return an error.
// Subcommands that read or create data run as commands that are in no table.
package debug

import (
	"fmt"
	"log/slog"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"redoubt/command"
	"redoubt/config"
	"redoubt/glob"
	"redoubt/number"
	"redoubt/server/admin"
	"redoubt/server/observe"
)

// Server is the server as DEBUG sees it.
type Server interface {
	// Loading reports whether the store is still being opened.
	Loading() bool
	// MaxBulk returns the length of the longest string that a client may send.
	MaxBulk() int64
	// Databases returns the number of databases.
	Databases() int
	// CountKeys returns the number of keys of a database, and of keys with an expiry.
	CountKeys(db int) (keys, volatile int64, err error)
	// Reload waits until everything is durable, and removes expired keys.
	Reload() error
	// SetActiveExpire turns the background removal of expired keys on or off.
	SetActiveExpire(on bool)
	// ClientMemory returns how many bytes each client holds, and their limit, 0 for none.
	ClientMemory() (limit int64, held []int64)
	// SessionSize is the size of a session in bytes.
	SessionSize() uintptr
	// NewReplicationID generates another replication id.
	NewReplicationID()
	// ApplyLimits passes changed settings to the handlers, State included.
	ApplyLimits()
}

// Debugger runs DEBUG. Its zero value has everything off.
type Debugger struct {
	State
	Server Server
	Config *config.Config
	Log    *slog.Logger
}

// Commands returns DEBUG.
func (d *Debugger) Commands() []*admin.Command {
	return []*admin.Command{{
		Command: &command.Command{
			Name: "debug", Group: command.Server, Since: "1.0.0", Arity: -2,
			Flags:   command.Admin | command.NoScript | command.Loading | command.Stale,
			Summary: "Holds what is for tests and for finding faults.",
		},
		Run: d.run, Worker: true,
	}}
}

// State is the set of switches that DEBUG sets.
type State struct {
	PauseCron           atomic.Bool // PAUSE-CRON
	SkipChecksum        atomic.Bool // SET-SKIP-CHECKSUM-VALIDATION: RESTORE checks none
	UnrestrictedScripts atomic.Bool // SET-DISABLE-DENY-SCRIPTS
}

// subcommand is a subcommand of DEBUG. It takes min to max arguments after its name; max
// -1 is no limit.
type subcommand struct {
	name     string
	min, max int
	syntax   string
	help     string
	run      func(*admin.Call) error
}

func (d *Debugger) subcommands() []subcommand {
	return []subcommand{
		{"change-repl-id", 0, 0, "", "Makes up a new replication id.", func(c *admin.Call) error {
			d.Server.NewReplicationID()
			return c.OK()
		}},
		{"client-eviction", 0, 0, "", "Shows how much memory clients hold.", d.clientEviction},
		{"config-rewrite-force-all", 0, 0, "", "Is CONFIG REWRITE that writes what has its default value, too.", func(c *admin.Call) error {
			return admin.RewriteConfig(c, d.Config, d.Log, d.Config.RewriteAll)
		}},
		{"dict-resizing", 1, 1, "<0|1>", "Does nothing: there are no hash tables to resize.", (*admin.Call).OK},
		{"digest", 0, 0, "", "Shows a hash of all databases. Equal contents have equal hashes, on any engine.", digestAll},
		{"digest-value", 0, -1, "<key> [<key> ...]", "Shows a hash of the value of each key.", digestValue},
		{"error", 1, 1, "<string>", "Answers with an error of this text.", func(c *admin.Call) error {
			return command.Error(c.Args[2])
		}},
		{"htstats", 1, 2, "<dbid> [full]", "Shows how many keys a database has.", d.htStats},
		{"listpack", 1, 1, "<key>", "Says how large a packed value is.", listpack},
		{"loadaof", 0, 0, "", "Waits until everything is durable. There is nothing to load again.", d.reload},
		{"log", 1, 1, "<message>", "Writes a message to the log.", func(c *admin.Call) error {
			d.Log.Warn("DEBUG LOG", "message", string(c.Args[2]))
			return c.OK()
		}},
		{"object", 1, 1, "<key>", "Shows how a value is kept.", objectOf},
		{"pause-cron", 1, 1, "<0|1>", "Stops the periodic work that is not needed for answering.", func(c *admin.Call) error {
			d.PauseCron.Store(truth(c.Args[2]))
			return c.OK()
		}},
		{"populate", 1, 3, "<count> [<prefix>] [<size>]", "Makes string keys <prefix>:<number>, where there are none.", d.populate},
		{"protocol", 1, 1, "<type>", "Answers with a value of this type: string, integer, double, bignum, null, array, " +
			"set, map, attrib, push, verbatim, true or false.", protocol},
		{"quicklist-packed-threshold", 1, 1, "<size>", "Is checked and otherwise ignored.", packedThreshold},
		{"reload", 0, -1, "[<option> ...]", "Waits until everything is durable, and removes what has expired.", d.reload},
		{"replicate", 1, -1, "<string>", "Does nothing: there are no replicas.", (*admin.Call).OK},
		{"replybuffer", 2, 2, "<PEAK-RESET-TIME|RESIZING> <value>", "Is checked and otherwise ignored: reply buffers are shared.", replyBuffer},
		{"set-active-expire", 1, 1, "<0|1>", "Stops or starts the removal of expired keys that nobody touches.", func(c *admin.Call) error {
			if d.Server.Loading() {
				return command.ErrLoading
			}
			d.Server.SetActiveExpire(truth(c.Args[2]))
			return c.OK()
		}},
		{"set-disable-deny-scripts", 1, 1, "<0|1>", "Lets scripts call any command.", func(c *admin.Call) error {
			d.UnrestrictedScripts.Store(truth(c.Args[2]))
			return c.OK()
		}},
		{"set-skip-checksum-validation", 1, 1, "<0|1>", "Lets RESTORE take payloads with a wrong checksum.", func(c *admin.Call) error {
			d.SkipChecksum.Store(truth(c.Args[2]))
			d.Server.ApplyLimits()
			return c.OK()
		}},
		{"sleep", 1, 1, "<seconds>", "Keeps all data commands waiting for that long. Decimals are allowed.", sleep},
		{"stringmatch-len", 2, 2, "<pattern> <string>", "Says whether a glob pattern matches.", func(c *admin.Call) error {
			c.Reply.Int(admin.BoolInt(glob.Match(c.Args[2], c.Args[3])))
			return nil
		}},
		{"structsize", 0, 0, "", "Shows the sizes of some structures.", func(c *admin.Call) error {
			c.Reply.BulkString(fmt.Sprintf("bits:%d session:%d histogram:%d slowentry:%d ",
				8*unsafe.Sizeof(uintptr(0)), d.Server.SessionSize(), observe.HistogramSize, observe.SlowEntrySize))
			return nil
		}},
	}
}

// unsupported are subcommands of Redis that have no meaning here.
var unsupported = map[string]bool{
	"aof-flush-sleep": true, "assert": true, "clusterlink": true, "crash-and-recover": true,
	"drop-cluster-packet-filter": true, "htstats-key": true, "jmap": true, "leak": true, "mallctl": true, "mallctl-str": true,
	"oom": true, "panic": true, "quicklist": true, "restart": true, "sdslen": true, "segfault": true, "stringmatch-test": true,
}

// truth reports whether an argument is a number other than 0, as C's atoi would have it.
func truth(arg []byte) bool {
	n, ok := number.ParseInt(arg)
	return ok && n != 0
}

func (d *Debugger) run(c *admin.Call) error {
	if err := admin.Enabled(c, d.Config, "DEBUG", "enable-debug-command"); err != nil {
		return err
	}
	name := strings.ToLower(string(c.Args[1]))
	if name == "help" && len(c.Args) == 2 {
		return d.help(c)
	}
	n := len(c.Args) - 2
	for _, s := range d.subcommands() {
		if s.name == name && n >= s.min && (n <= s.max || s.max < 0) {
			return s.run(c)
		}
	}
	if unsupported[name] {
		return command.Error("ERR DEBUG " + strings.ToUpper(name) + " is not supported by Redoubt")
	}
	return admin.SubcommandSyntax(c.Args)
}

func (d *Debugger) help(c *admin.Call) error {
	lines := []string{"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for _, s := range d.subcommands() {
		lines = append(lines, strings.TrimSpace(strings.ToUpper(s.name)+" "+s.syntax), "    "+s.help)
	}
	lines = append(lines, "HELP", "    Print this help.")
	c.Reply.Array(len(lines))
	for _, l := range lines {
		c.Reply.Status(l)
	}
	return nil
}

// sleep sleeps with the keyspace latch held, since it is meant to make the server look busy.
func sleep(c *admin.Call) error {
	seconds, _ := number.ParseDouble(c.Args[2])
	wait := time.Duration(seconds * float64(time.Second))
	return c.Client.Execute(&command.Command{
		Name: "debug", Flags: command.Exclusive, Run: func(x *command.Ctx) error {
			time.Sleep(wait)
			x.Reply.OK()
			return nil
		},
	}, nil)
}

func (d *Debugger) htStats(c *admin.Call) error {
	db, ok := number.ParseInt(c.Args[2])
	if !ok {
		return command.ErrNotInteger
	}
	if d.Server.Loading() {
		return command.ErrLoading
	}
	if db < 0 || db >= int64(d.Server.Databases()) {
		return command.Error("ERR Out of range database")
	}
	keys, volatile, err := d.Server.CountKeys(int(db))
	if err != nil {
		return err
	}
	c.Reply.Verbatim("txt", fmt.Sprintf("Keys are rows of the store, not a hash table.\nkeys: %d\nkeys with an expiry: %d\n", keys, volatile))
	return nil
}

func (d *Debugger) reload(c *admin.Call) error {
	for _, a := range c.Args[2:] {
		switch {
		case admin.IsWord(a, "merge"), admin.IsWord(a, "noflush"):
		case admin.IsWord(a, "nosave"):
			return command.Error("ERR DEBUG RELOAD NOSAVE is not supported by Redoubt: there is no file to load")
		default:
			return command.Error("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
		}
	}
	if d.Server.Loading() {
		return command.ErrLoading
	}
	if err := d.Server.Reload(); err != nil {
		return err
	}
	return c.OK()
}

func packedThreshold(c *admin.Call) error {
	n, ok := parseMemory(string(c.Args[2]))
	if !ok || n > 4<<30-1<<20 {
		return command.Error("ERR argument must be a memory value bigger than 1 and smaller than 4gb")
	}
	return c.OK()
}

// clientEviction shows the clients by memory in the buckets of Redis, which exist only in
// this reply.
func (d *Debugger) clientEviction(c *admin.Call) error {
	const first, buckets = 15, 19 // powers of two
	limit, held := d.Server.ClientMemory()
	if limit == 0 {
		return command.Error("ERR maxmemory-clients is disabled.")
	}
	var sums, counts [buckets]int64
	for _, n := range held {
		i := min(max(0, bits.Len64(uint64(n))-first), buckets-1)
		sums[i] += n
		counts[i]++
	}
	var text strings.Builder
	for i := range sums {
		from, to := "0", fmt.Sprintf(" - %10d", 1<<(i+first)-1)
		if i > 0 {
			from = strconv.Itoa(1 << (i - 1 + first))
		}
		if i == buckets-1 {
			to = "+            "
		}
		fmt.Fprintf(&text, "bucket %10s%s: tot-mem: %10d, clients: %d\n", from, to, sums[i], counts[i])
	}
	c.Reply.Verbatim("txt", text.String())
	return nil
}

func replyBuffer(c *admin.Call) error {
	switch {
	case admin.IsWord(c.Args[2], "resizing"):
	case !admin.IsWord(c.Args[2], "peak-reset-time"):
		return admin.SubcommandSyntax(c.Args)
	case !admin.IsWord(c.Args[3], "never") && !admin.IsWord(c.Args[3], "reset"):
		if _, ok := number.ParseInt(c.Args[3]); !ok {
			return command.ErrNotInteger
		}
	}
	return c.OK()
}

// protocol answers with a reply of the given kind.
func protocol(c *admin.Call) error {
	w := c.Reply
	switch strings.ToLower(string(c.Args[2])) {
	case "string":
		w.BulkString("Hello World")
	case "integer":
		w.Int(12345)
	case "double":
		w.Double(3.141)
	case "bignum":
		n, _ := new(big.Int).SetString("1234567999999999999999999999999999999", 10)
		w.BigNumber(n)
	case "null":
		w.Null()
	case "array":
		w.Array(3)
		for i := range int64(3) {
			w.Int(i)
		}
	case "set":
		w.Set(3)
		for i := range int64(3) {
			w.Int(i)
		}
	case "map":
		w.Map(3)
		for i := range int64(3) {
			w.Int(i)
			w.Bool(i == 1)
		}
	case "attrib":
		if w.Proto == 3 {
			w.Buf = append(w.Buf, "|1\r\n"...)
			w.BulkString("key-popularity")
			w.Array(2)
			w.BulkString("key:123")
			w.Int(90)
		}
		w.BulkString("Some real reply following the attribute")
	case "push":
		if w.Proto != 3 {
			return command.Error("ERR RESP2 is not supported by this command")
		}
		w.Push(2)
		w.BulkString("server-cpu-usage")
		w.Int(42)
		w.BulkString("Some real reply following the push reply")
	case "true", "false":
		w.Bool(admin.IsWord(c.Args[2], "true"))
	case "verbatim":
		w.Verbatim("txt", "This is a verbatim\nstring")
	default:
		return command.Error("ERR Wrong protocol type name. Please use one of the following: " +
			"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false")
	}
	return nil
}
