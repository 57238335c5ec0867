package server

import (
	"context"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"redoubt/command"
	"redoubt/glob"
	"redoubt/number"
)

// DEBUG is for tests and for finding faults. To COMMAND it is one command, so
// its subcommands are a table of their own here. What makes no sense on this
// server (crashing it, RDB files, hash tables) is an error that says so.

func debugCommands() []*local {
	return []*local{{
		Command: &command.Command{
			Name: "debug", Group: command.Server, Since: "1.0.0", Arity: -2,
			Flags:   command.Admin | command.NoScript | command.Loading | command.Stale,
			Summary: "Holds what is for tests and for finding faults.",
		},
		run: debugCommand, worker: true,
	}}
}

// debugState is what DEBUG has set.
type debugState struct {
	pauseCron    atomic.Bool
	skipChecksum atomic.Bool // for RESTORE
	denyScripts  atomic.Bool // SET-DISABLE-DENY-SCRIPTS
}

// debugSub is a subcommand of DEBUG. It takes from min to max arguments behind
// its name; max -1 is no limit.
type debugSub struct {
	name     string
	min, max int
	syntax   string
	help     string
	run      func(*localCall) error
}

func debugSubs() []debugSub {
	return []debugSub{
		{"change-repl-id", 0, 0, "", "Makes up a new replication id.", func(c *localCall) error {
			c.srv.stats.newReplID()
			return c.ok()
		}},
		{"client-eviction", 0, 0, "", "Shows how much memory clients hold.", debugClientEviction},
		{"config-rewrite-force-all", 0, 0, "", "Is CONFIG REWRITE that writes what has its default value, too.", func(c *localCall) error {
			return rewriteConfig(c, c.srv.cfg.RewriteAll)
		}},
		{"dict-resizing", 1, 1, "<0|1>", "Does nothing: there are no hash tables to resize.", (*localCall).ok},
		{"digest", 0, 0, "", "Shows a hash of all databases. Equal contents have equal hashes, on any engine.", debugDigest},
		{"digest-value", 0, -1, "<key> [<key> ...]", "Shows a hash of the value of each key.", debugDigestValue},
		{"error", 1, 1, "<string>", "Answers with an error of this text.", func(c *localCall) error {
			return command.Error(c.args[2])
		}},
		{"htstats", 1, 2, "<dbid> [full]", "Shows how many keys a database has.", debugHTStats},
		{"listpack", 1, 1, "<key>", "Says how large a packed value is.", debugListpack},
		{"loadaof", 0, 0, "", "Waits until everything is durable. There is nothing to load again.", debugReload},
		{"log", 1, 1, "<message>", "Writes a message to the log.", func(c *localCall) error {
			c.srv.log.Warn("DEBUG LOG", "message", string(c.args[2]))
			return c.ok()
		}},
		{"object", 1, 1, "<key>", "Shows how a value is kept.", debugObjectOf},
		{"pause-cron", 1, 1, "<0|1>", "Stops the periodic work that is not needed for answering.", func(c *localCall) error {
			c.srv.debug.pauseCron.Store(truth(c.args[2]))
			return c.ok()
		}},
		{"populate", 1, 3, "<count> [<prefix>] [<size>]", "Makes string keys <prefix>:<number>, where there are none.", debugPopulate},
		{"protocol", 1, 1, "<type>", "Answers with a value of this type: string, integer, double, bignum, null, array, " +
			"set, map, attrib, push, verbatim, true or false.", debugProtocol},
		{"quicklist-packed-threshold", 1, 1, "<size>", "Is checked and otherwise ignored.", debugThreshold},
		{"reload", 0, -1, "[<option> ...]", "Waits until everything is durable, and removes what has expired.", debugReload},
		{"replicate", 1, -1, "<string>", "Does nothing: there are no replicas.", (*localCall).ok},
		{"replybuffer", 2, 2, "<PEAK-RESET-TIME|RESIZING> <value>", "Is checked and otherwise ignored: reply buffers are shared.", debugReplyBuffer},
		{"set-active-expire", 1, 1, "<0|1>", "Stops or starts the removal of expired keys that nobody touches.", func(c *localCall) error {
			if !c.srv.ready.Load() {
				return command.ErrLoading
			}
			c.srv.exec.SetActiveExpire(truth(c.args[2]))
			return c.ok()
		}},
		{"set-disable-deny-scripts", 1, 1, "<0|1>", "Lets scripts call any command.", func(c *localCall) error {
			c.srv.debug.denyScripts.Store(truth(c.args[2]))
			return c.ok()
		}},
		{"set-skip-checksum-validation", 1, 1, "<0|1>", "Lets RESTORE take payloads with a wrong checksum.", func(c *localCall) error {
			c.srv.debug.skipChecksum.Store(truth(c.args[2]))
			c.srv.limitCommands()
			return c.ok()
		}},
		{"sleep", 1, 1, "<seconds>", "Keeps all data commands waiting for that long. Decimals are allowed.", debugSleep},
		{"stringmatch-len", 2, 2, "<pattern> <string>", "Says whether a glob pattern matches.", func(c *localCall) error {
			c.w.Int(int64(boolInt(glob.Match(c.args[2], c.args[3]))))
			return nil
		}},
		{"structsize", 0, 0, "", "Shows the sizes of some structures.", func(c *localCall) error {
			c.w.BulkString(fmt.Sprintf("bits:%d session:%d histogram:%d slowentry:%d ",
				8*unsafe.Sizeof(uintptr(0)), unsafe.Sizeof(session{}), unsafe.Sizeof(histogram{}), unsafe.Sizeof(slowEntry{})))
			return nil
		}},
	}
}

// debugUnsupported are subcommands of Redis that would do nothing sensible.
var debugUnsupported = map[string]bool{
	"aof-flush-sleep": true, "assert": true, "clusterlink": true, "crash-and-recover": true,
	"drop-cluster-packet-filter": true, "htstats-key": true, "jmap": true, "leak": true, "mallctl": true, "mallctl-str": true,
	"oom": true, "panic": true, "quicklist": true, "restart": true, "sdslen": true, "segfault": true, "stringmatch-test": true,
}

func (c *localCall) ok() error {
	c.w.OK()
	return nil
}

// truth reads a number as C's atoi would: what is none is 0.
func truth(arg []byte) bool {
	n, ok := number.ParseInt(arg)
	return ok && n != 0
}

func debugCommand(c *localCall) error {
	if err := c.enabled("DEBUG", "enable-debug-command"); err != nil {
		return err
	}
	name := strings.ToLower(string(c.args[1]))
	if name == "help" && len(c.args) == 2 {
		return debugHelp(c)
	}
	n := len(c.args) - 2
	for _, s := range debugSubs() {
		if s.name == name && n >= s.min && (n <= s.max || s.max < 0) {
			return s.run(c)
		}
	}
	if debugUnsupported[name] {
		return command.Error("ERR DEBUG " + strings.ToUpper(name) + " is not supported by Redoubt")
	}
	return subcommandError(c.args)
}

func debugHelp(c *localCall) error {
	lines := []string{"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	for _, s := range debugSubs() {
		lines = append(lines, strings.TrimSpace(strings.ToUpper(s.name)+" "+s.syntax), "    "+s.help)
	}
	lines = append(lines, "HELP", "    Print this help.")
	c.w.Array(len(lines))
	for _, l := range lines {
		c.w.Status(l)
	}
	return nil
}

// debugSleep holds the whole keyspace while it sleeps, since it is meant to
// make the server look busy.
func debugSleep(c *localCall) error {
	seconds, _ := number.ParseDouble(c.args[2])
	d := time.Duration(seconds * float64(time.Second))
	return c.internal(&command.Command{
		Name: "debug", Flags: command.Alone, Run: func(x *command.Ctx) error {
			time.Sleep(d)
			x.Reply.OK()
			return nil
		},
	}, nil)
}

func debugHTStats(c *localCall) error {
	db, ok := number.ParseInt(c.args[2])
	if !ok {
		return command.ErrNotInteger
	}
	if !c.srv.ready.Load() {
		return command.ErrLoading
	}
	space := c.srv.exec.Space()
	if db < 0 || db >= int64(space.Databases()) {
		return command.Error("ERR Out of range database")
	}
	keys, volatile, err := space.Count(int(db))
	if err != nil {
		return err
	}
	c.w.Verbatim("txt", fmt.Sprintf("Keys are rows of the store, not a hash table.\nkeys: %d\nkeys with an expiry: %d\n", keys, volatile))
	return nil
}

func debugReload(c *localCall) error {
	for _, a := range c.args[2:] {
		switch {
		case isWord(a, "merge"), isWord(a, "noflush"):
		case isWord(a, "nosave"):
			return command.Error("ERR DEBUG RELOAD NOSAVE is not supported by Redoubt: there is no file to load")
		default:
			return command.Error("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
		}
	}
	if !c.srv.ready.Load() {
		return command.ErrLoading
	}
	if err := c.srv.waitDurable(c.srv.eng.Committed()); err != nil {
		return err
	}
	c.srv.exec.Sweep(context.Background())
	return c.ok()
}

func debugThreshold(c *localCall) error {
	n, ok := parseMemory(string(c.args[2]))
	if !ok || n > 4<<30-1<<20 {
		return command.Error("ERR argument must be a memory value bigger than 1 and smaller than 4gb")
	}
	return c.ok()
}

// debugClientEviction shows the clients by what they hold, as Redis does. There are no
// such buckets here.
func debugClientEviction(c *localCall) error {
	const first, buckets = 15, 19 // powers of two
	if c.srv.budget.Clients.Limit() == 0 {
		return command.Error("ERR maxmemory-clients is disabled.")
	}
	var sums, counts [buckets]int64
	for _, s := range c.srv.clients.list() {
		i := min(max(0, bits.Len64(uint64(s.memory()))-first), buckets-1)
		sums[i] += s.memory()
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
	c.w.Verbatim("txt", text.String())
	return nil
}

func debugReplyBuffer(c *localCall) error {
	switch {
	case isWord(c.args[2], "resizing"):
	case !isWord(c.args[2], "peak-reset-time"):
		return subcommandError(c.args)
	case !isWord(c.args[3], "never") && !isWord(c.args[3], "reset"):
		if _, ok := number.ParseInt(c.args[3]); !ok {
			return command.ErrNotInteger
		}
	}
	return c.ok()
}

// debugProtocol answers with each kind of reply that there is.
func debugProtocol(c *localCall) error {
	w := c.w
	switch strings.ToLower(string(c.args[2])) {
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
		w.Bool(isWord(c.args[2], "true"))
	case "verbatim":
		w.Verbatim("txt", "This is a verbatim\nstring")
	default:
		return command.Error("ERR Wrong protocol type name. Please use one of the following: " +
			"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false")
	}
	return nil
}
