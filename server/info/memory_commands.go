package info

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/server/admin"
)

func (r *Reporter) memoryCommands() []*admin.Command {
	shards := func(policy string) []string {
		return []string{"nondeterministic_output", "request_policy:all_shards", policy}
	}
	return []*admin.Command{{
		Command: &command.Command{
			Name: "memory", Group: command.Server, Since: "4.0.0", Arity: -2,
			Summary: "Holds the commands about memory.",
		},
		Subs: []*admin.Command{
			{Command: &command.Command{
				Name: "doctor", Group: command.Server, Since: "4.0.0", Arity: 2, Tips: shards("response_policy:special"),
				Summary: "Explains what is notable about the server's memory.",
			}, Run: r.memoryDoctor, Worker: true},
			{Command: &command.Command{
				Name: "malloc-stats", Group: command.Server, Since: "4.0.0", Arity: 2, Tips: shards("response_policy:special"),
				Summary: "Shows the figures of Go's allocator and collector.",
			}, Run: r.memoryMallocStats, Worker: true},
			{Command: &command.Command{
				Name: "purge", Group: command.Server, Since: "4.0.0", Arity: 2,
				Tips:    shards("response_policy:all_succeeded")[1:],
				Summary: "Collects garbage and gives free memory back to the operating system.",
			}, Run: func(c *admin.Call) error { debug.FreeOSMemory(); return c.OK() }, Worker: true},
			{Command: &command.Command{
				Name: "stats", Group: command.Server, Since: "4.0.0", Arity: 2, Tips: shards("response_policy:special"),
				Summary: "Shows where the server's memory is.",
			}, Run: r.memoryStats, Worker: true},
			{Command: &command.Command{
				Name: "usage", Group: command.Server, Since: "4.0.0", Arity: -3, Flags: command.ReadOnly,
				Keys: command.OneKey(2, command.RO), Syntax: "key [SAMPLES count:integer]",
				Summary: "Estimates how many bytes a key and its value take, from so many of its elements: 5 unless told " +
					"otherwise, all for 0.",
				Run: memoryUsage,
			}},
			admin.Help(command.Server, "4.0.0", 0),
		},
	}}
}

// rowOverhead is about an engine's overhead for a row.
const rowOverhead = 32

// memoryUsage adds up the bytes of a key's rows. Rows of a long string are all
// counted, since a sparse string may lack most of them; those of a collection
// are sampled. Packed values have only the meta row.
func memoryUsage(c *command.Ctx) error {
	samples := int64(5)
	for i := 3; i < len(c.Args); i += 2 {
		if !admin.IsWord(c.Args[i], "samples") || i+1 == len(c.Args) {
			return command.ErrSyntax
		}
		n, ok := number.ParseInt(c.Args[i+1])
		if !ok {
			return command.ErrNotInteger
		}
		if n < 0 {
			return command.ErrSyntax
		}
		samples = n
	}
	key := c.Args[2]
	m := c.Tx.Find(key)
	if !m.Exists() {
		c.Reply.Null()
		return nil
	}
	const metaKey, metaValue, expireKey = 7, 9, 17
	bytes := int64(metaKey + len(key) + metaValue + len(m.Body) + rowOverhead)
	if m.Expire != 0 || m.Timed() {
		bytes += int64(expireKey + len(key) + rowOverhead)
	}
	if m.External() {
		bytes += rowBytes(c.Tx, m, samples)
	}
	c.Reply.Int(bytes)
	return nil
}

// rowBytes estimates the bytes of a value's own rows. Each kind of row is sampled by
// itself: a sorted set has two rows for each member. Rank rows, which are few, are left
// out unless all rows are read.
func rowBytes(tx *keyspace.Tx, m keyspace.Meta, samples int64) (bytes int64) {
	r := m.Ref()
	if m.Type == keyspace.String || samples == 0 {
		samples = math.MaxInt64
		work := r.Size
		if m.Type != keyspace.String {
			work *= 2 * rowOverhead
		}
		if tx.Heavy(work) {
			return 0
		}
	}
	for _, kind := range []keyspace.Kind{keyspace.SubRow, keyspace.ScoreRow, keyspace.RankRow} {
		if kind == keyspace.RankRow && samples < math.MaxInt64 {
			break
		}
		rows, sum := int64(0), int64(0)
		it := tx.IterKind(r, kind, nil, nil, false)
		for rows < samples && it.Next() {
			rows++
			sum += int64(len(it.Key()) + len(it.Value()) + rowOverhead)
		}
		more := rows == samples && it.Next()
		tx.CloseRows(it)
		if more {
			sum = int64(float64(sum) / float64(rows) * float64(r.Size))
		}
		bytes += sum
	}
	return bytes
}

func (r *Reporter) memoryDoctor(c *admin.Call) error {
	e := r.Store()
	m := r.memory(&e)
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if limit := r.Server().MaxMemory; limit > 0 && m.Used > limit {
		note("More memory is used (%s) than maxmemory says (%s).", human(m.Used), human(limit))
	}
	if total := systemMemory(); total > 0 && m.RSS > total*9/10 {
		note("The process holds %s of the machine's %s: it may be killed when others need memory. Lower maxmemory.",
			human(m.RSS), human(total))
	}
	if m.Used > 64<<20 && m.RSS > 2*m.Used {
		note("The process holds %s, twice what it uses (%s). It needed that much before; MEMORY PURGE gives it back.",
			human(m.RSS), human(m.Used))
	}
	if peak := r.peakMemory.Load(); m.Used > 64<<20 && peak > m.Used*3/2 {
		note("At its peak the server used %s, now %s.", human(peak), human(m.Used))
	}
	if clients := r.Clients().Memory; clients > 64<<20 && clients > m.Used/4 {
		note("Buffers of clients take %s. CLIENT LIST shows whose they are (qbuf and omem).", human(clients))
	}
	if total := e.CacheHits + e.CacheMisses; total > 100_000 && e.CacheMisses > total/5 {
		note("%d of 100 reads of the store's cache go to disk. A larger maxmemory would help.", 100*e.CacheMisses/total)
	}
	if len(notes) == 0 {
		notes = []string{"Nothing about the server's memory is out of the ordinary."}
	}
	c.Reply.Verbatim("txt", strings.Join(notes, "\n")+"\n")
	return nil
}

func (r *Reporter) memoryMallocStats(c *admin.Call) error {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	var b strings.Builder
	for _, f := range []struct {
		name  string
		value any
	}{
		{"allocator", "Go runtime " + runtime.Version()},
		{"heap_objects", s.HeapObjects}, {"heap_alloc_bytes", s.HeapAlloc}, {"heap_in_use_bytes", s.HeapInuse},
		{"heap_idle_bytes", s.HeapIdle}, {"heap_released_bytes", s.HeapReleased}, {"stack_in_use_bytes", s.StackInuse},
		{"runtime_bytes", s.MSpanSys + s.MCacheSys + s.BuckHashSys + s.GCSys + s.OtherSys}, {"mapped_bytes", s.Sys},
		{"allocated_bytes_ever", s.TotalAlloc}, {"allocations_ever", s.Mallocs}, {"collections", s.NumGC},
		{"collector_cpu_fraction", strconv.FormatFloat(s.GCCPUFraction, 'f', 5, 64)},
		{"pause_total_usec", s.PauseTotalNs / 1000}, {"engine_bytes", r.Store().MemoryBytes},
	} {
		fmt.Fprintf(&b, "%s: %v\n", f.name, f.value)
	}
	c.Reply.Verbatim("txt", b.String())
	return nil
}

func (r *Reporter) memoryStats(c *admin.Call) error {
	e := r.Store()
	m := r.memory(&e)
	data := min(e.MemoryBytes, m.Used)
	peak := r.peakMemory.Load()
	type database struct{ n, keys, volatile int64 }
	var dbs []database
	total := int64(0)
	err := r.Databases(func(db int, keys, volatile int64) bool {
		if keys > 0 {
			dbs = append(dbs, database{int64(db), keys, volatile})
			total += keys
		}
		return true
	})
	if err != nil {
		return err
	}
	perKey := int64(0)
	if total > 0 {
		perKey = max(0, m.Used-r.startMemory) / total
	}
	w := c.Reply
	num := func(name string, n int64) { w.BulkString(name); w.Int(n) }
	frac := func(name string, a, b int64, scale float64) {
		w.BulkString(name)
		w.Double(scale * float64(a) / float64(max(1, b)))
	}
	w.Map(27 + len(dbs))
	num("peak.allocated", peak)
	num("total.allocated", m.Used)
	num("startup.allocated", r.startMemory)
	f := r.Features()
	num("replication.backlog", f.Backlog)
	num("clients.slaves", f.Stream-f.Backlog)
	num("clients.normal", r.Clients().Memory)
	num("cluster.links", 0)
	num("aof.buffer", 0)
	num("lua.caches", 0)
	num("functions.caches", 0)
	for _, db := range dbs {
		w.BulkString("db." + strconv.FormatInt(db.n, 10))
		w.Map(3)
		num("overhead.hashtable.main", db.keys*rowOverhead)
		num("overhead.hashtable.expires", db.volatile*rowOverhead)
		num("overhead.hashtable.slot-to-keys", 0)
	}
	num("overhead.total", m.Used-data)
	num("keys.count", total)
	num("keys.bytes-per-key", perKey)
	num("dataset.bytes", data)
	frac("dataset.percentage", data, m.Used, 100)
	frac("peak.percentage", m.Used, peak, 100)
	num("allocator.allocated", m.Used)
	num("allocator.active", m.Used+m.resting)
	num("allocator.resident", m.RSS)
	frac("allocator-fragmentation.ratio", m.Used+m.resting, m.Used, 1)
	num("allocator-fragmentation.bytes", m.resting)
	frac("allocator-rss.ratio", m.RSS, m.Used+m.resting, 1)
	num("allocator-rss.bytes", m.RSS-m.Used-m.resting)
	frac("rss-overhead.ratio", 1, 1, 1)
	num("rss-overhead.bytes", 0)
	frac("fragmentation", m.RSS, m.Used, 1)
	num("fragmentation.bytes", m.RSS-m.Used)
	return nil
}
