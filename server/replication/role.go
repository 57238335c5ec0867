package replication

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/config"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/server/admin"
)

// Role is what the server is in replication, and what clients see of it. Init is called first,
// then Open when there is a store, and Run.
//
// Of which master the server is a replica is a row of the store (keyspace.Role). So a server
// that is restarted goes on, and of several front ends of one store all refuse writes, and the
// one that leads replicates. The directive replicaof decides when a server is started with
// another one than before: what was said last holds.
type Role struct {
	Options
	store atomic.Pointer[Store] // nil until Open
	group atomic.Pointer[Group] // nil but for a replicated store

	directive string // replicaof at the start
	readOnly  atomic.Bool
	needsLink atomic.Bool   // replica-serve-stale-data is no
	retry     time.Duration // the pause between two attempts
	changed   chan struct{} // has a token when Run must look at the role

	mu     sync.Mutex // guards what follows
	link   linkState
	cancel context.CancelFunc // ends the link under way
}

// Options make a Role.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	Master Master
	// Port is the port on which this server listens for clients, with or without TLS.
	Port func(tls bool) int
	// TLS returns the configuration for connections to a master.
	TLS func() (*tls.Config, error)
	// Libraries checks whether libraries of functions can be loaded.
	Libraries func(sources []string) error
	// Table returns all commands.
	Table func() *command.Table
	// Becomes is called when the server becomes a replica or a master. It must not wait.
	Becomes func(replica bool)
}

// Store is the open store.
type Store struct {
	Executor *executor.Executor
	// Leads reports whether this process does the work that one of all front ends does.
	Leads func() bool
	// Durable waits until a commit is durable.
	Durable func(engine.Ticket) error
	// Synced reports whether what is durable has been synced to disk.
	Synced func() bool
}

// Init sets the options.
func (r *Role) Init(o Options) {
	r.Options = o
	r.directive = o.Config.Get("replicaof")
	r.changed, r.retry = make(chan struct{}, 1), retryEvery
	r.link.stage = notReplica
	r.apply()
	o.Config.OnChangeOfAny(func() error { r.apply(); return nil }, "replica-read-only", "replica-serve-stale-data")
}

// Open sets the store, and decides the role by the directive replicaof and the store.
func (r *Role) Open(s Store) error {
	r.store.Store(&s)
	space := s.Executor.Space()
	space.OnRole = r.decided
	role := space.Role()
	shared := s.Executor.Engine().Capabilities().Shared
	if r.directive != "" && r.Config.Bool("cluster-enabled") && !shared {
		return errors.New("replicaof is not possible together with cluster-enabled: remove one of these directives")
	}
	switch {
	case r.directive != role.Directive && (r.directive != "" || !shared):
		if err := r.become(r.directive); err != nil {
			return fmt.Errorf("become what the directive replicaof says: %w", err)
		}
	case role.Replica() && r.directive != role.Master:
		r.Log.Warn("this server is still a replica, as a REPLICAOF has said; REPLICAOF NO ONE ends that", "master", role.Master)
	}
	r.decided(space.Role())
	return nil
}

// become changes the role, and returns when the change is durable.
func (r *Role) become(master string) error {
	s := r.store.Load()
	t, err := s.Executor.DoExclusively(func(tx *keyspace.Tx) { r.set(tx, master) })
	if err != nil {
		return err
	}
	return s.Durable(t)
}

// set changes the role in a transaction.
func (r *Role) set(tx *keyspace.Tx, master string) {
	tx.SetRole(keyspace.Role{Master: master, Directive: r.directive})
	if master == "" {
		tx.SetPosition(nil) // from now on the data has a history of its own
	}
}

// decided is called with the role in use, while no transaction is under way.
func (r *Role) decided(role keyspace.Role) {
	r.Config.Note("replicaof", role.Master)
	was := r.readOnly.Load()
	r.apply()
	r.mu.Lock()
	before := r.link.stage != notReplica
	switch {
	case role.Replica():
		r.Log.Info("this server is a replica", "master", role.Master)
	case before:
		r.Log.Info("this server is a replica no more, and takes writes")
	}
	if role.Replica() {
		r.link.begin()
	} else {
		r.link = linkState{stage: notReplica}
	}
	if r.cancel != nil {
		r.cancel()
	}
	r.mu.Unlock()
	if before != role.Replica() || was != r.readOnly.Load() {
		r.Becomes(role.Replica())
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// apply reads the role and the directives about it anew.
func (r *Role) apply() {
	r.readOnly.Store(r.Replica() && r.Config.Bool("replica-read-only"))
	r.needsLink.Store(!r.Config.Bool("replica-serve-stale-data"))
}

// Replica reports whether the server is a replica.
func (r *Role) Replica() bool { return r.master() != "" }

// master returns the master that the server is a replica of, or "".
func (r *Role) master() string {
	if s := r.store.Load(); s != nil {
		return s.Executor.Space().Role().Master
	}
	return ""
}

// Refuse returns the error of a command with these flags that a replica does not run, or nil.
func (r *Role) Refuse(flags command.Flags) error {
	if flags&command.Write != 0 && r.readOnly.Load() {
		return command.ErrReadOnlyReplica
	}
	return nil
}

// Stale reports whether commands that need fresh data are refused: the master cannot be
// reached, and replica-serve-stale-data is no.
func (r *Role) Stale() bool {
	if !r.needsLink.Load() || !r.Replica() || !r.store.Load().Leads() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link.stage != connected
}

// Commands returns ROLE, REPLICAOF and SLAVEOF.
func (r *Role) Commands() []*admin.Command {
	const (
		flags  = command.Admin | command.NoScript | command.Stale | command.NoAsyncLoading
		syntax = "args=<host-port=(host port:integer)|no-one=(NO ONE)>"
	)
	return []*admin.Command{
		{Command: &command.Command{
			Name: "role", Group: command.Server, Since: "2.8.12", Arity: 1,
			Flags:      command.NoScript | command.Loading | command.Stale | command.Fast,
			Categories: command.CatAdmin | command.CatDangerous,
			Summary:    "Tells the server's part in replication.",
		}, Run: r.role},
		{Command: &command.Command{
			Name: "replicaof", Group: command.Server, Since: "5.0.0", Arity: 3, Flags: flags,
			Syntax: syntax, Summary: "Makes the server a replica of a Redis, or a master again.",
		}, Run: r.replicaOf, Worker: true},
		{Command: &command.Command{
			Name: "slaveof", Group: command.Server, Since: "1.0.0", Arity: 3, Flags: flags,
			Syntax: syntax, Summary: "Is the old name of REPLICAOF.", Deprecated: "5.0.0", ReplacedBy: "`REPLICAOF`",
		}, Run: r.replicaOf, Worker: true},
	}
}

func (r *Role) replicaOf(c *admin.Call) error {
	if r.group.Load() != nil {
		return command.Error("ERR REPLICAOF is not possible: the nodes of a replicated cluster replicate each other")
	}
	if r.Config.Bool("cluster-enabled") && !r.store.Load().Executor.Engine().Capabilities().Shared {
		return command.Error("ERR REPLICAOF not allowed in cluster mode.")
	}
	master := ""
	if !c.Is(1, "no") || !c.Is(2, "one") {
		port, ok := number.ParseInt(c.Args[2])
		if !ok || port < 0 || port > 65535 {
			return command.Error("ERR Invalid master port")
		}
		if len(c.Args[1]) == 0 || strings.ContainsAny(string(c.Args[1]), " \t\r\n\x00") {
			return command.Error("ERR Invalid master host")
		}
		master = string(c.Args[1]) + " " + strconv.FormatInt(port, 10)
	}
	now := r.master()
	switch {
	case master == now && master != "":
		c.Reply.Status("OK Already connected to specified master")
		return nil
	case master == now:
		return c.OK()
	}
	// In a transaction the whole keyspace is latched already, so the change is a part of it.
	return c.Client.Execute(&command.Command{
		Name: "replicaof", FullName: "replicaof", Flags: command.MayReplicate | command.Exclusive,
		Run: func(x *command.Ctx) error {
			r.set(x.Tx, master)
			x.Reply.OK()
			return nil
		},
	}, c.Args)
}

// address splits the master of a role.
func address(master string) (host, port string) {
	host, port, _ = strings.Cut(master, " ")
	return host, port
}

func dialAddress(master string) string {
	host, port := address(master)
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func (r *Role) role(c *admin.Call) error {
	if g := r.group.Load(); g != nil {
		groupRole(c, (*g).State())
		return nil
	}
	if master := r.master(); master != "" {
		host, port := address(master)
		n, _ := strconv.ParseInt(port, 10, 64) // the row was made from a number
		f := r.figures()
		c.Reply.Array(5)
		c.Reply.BulkString("slave")
		c.Reply.BulkString(host)
		c.Reply.Int(n)
		c.Reply.BulkString(string(f.stage))
		c.Reply.Int(f.applied)
		return nil
	}
	_, _, offset, _ := r.Master.ID()
	replicas := r.Master.Replicas()
	c.Reply.Array(3)
	c.Reply.BulkString("master")
	c.Reply.Int(offset)
	c.Reply.Array(len(replicas))
	for _, s := range replicas {
		c.Strings([]string{s.Host, strconv.Itoa(s.Port), strconv.FormatInt(s.Offset, 10)})
	}
	return nil
}

// Figures calls line with the names and values of INFO's section replication, in their order.
func (r *Role) Figures(line func(name string, value any)) {
	if g := r.group.Load(); g != nil {
		groupFigures((*g).State(), line)
		return
	}
	master := r.master()
	replica := master != ""
	var f linkState
	if replica {
		f = r.figures()
		r.replicaFigures(&f, master, line)
	} else {
		line("role", "master")
	}
	replicas := r.Master.Replicas()
	line("connected_slaves", len(replicas))
	for i, s := range replicas {
		line("slave"+strconv.Itoa(i), "ip="+s.Host+",port="+strconv.Itoa(s.Port)+",state="+s.State+
			",offset="+strconv.FormatInt(s.Offset, 10)+",lag="+strconv.FormatInt(s.Lag, 10))
	}
	line("master_failover_state", "no-failover")
	id, id2, offset, second := r.Master.ID()
	if replica && f.id != "" { // the history is that of the master
		id, id2, offset, second = f.id, noID, f.applied, -1
	}
	line("master_replid", id)
	line("master_replid2", id2)
	line("master_repl_offset", offset)
	line("second_repl_offset", second)
	b := r.Master.Backlog()
	line("repl_backlog_active", admin.BoolInt(b.Active))
	line("repl_backlog_size", b.Size)
	line("repl_backlog_first_byte_offset", b.First)
	line("repl_backlog_histlen", b.Bytes)
}

func (r *Role) replicaFigures(f *linkState, master string, line func(name string, value any)) {
	seconds := func(since time.Time) int64 {
		if since.IsZero() {
			return -1
		}
		return int64(time.Since(since).Seconds())
	}
	host, port := address(master)
	line("role", "slave")
	line("master_host", host)
	line("master_port", port)
	status, last := "down", int64(-1)
	if f.stage == connected {
		status, last = "up", seconds(f.lastIO)
	}
	line("master_link_status", status)
	line("master_last_io_seconds_ago", last)
	line("master_sync_in_progress", admin.BoolInt(f.stage == transfer))
	line("slave_read_repl_offset", f.read)
	line("slave_repl_offset", f.applied)
	if f.stage == transfer {
		left, percent := int64(-1), 0.0
		if f.total > 0 {
			left, percent = f.total-f.received, float64(f.received)/float64(f.total)*100
		}
		line("master_sync_total_bytes", f.total)
		line("master_sync_read_bytes", f.received)
		line("master_sync_left_bytes", left)
		line("master_sync_perc", fmt.Sprintf("%.2f", percent))
		line("master_sync_last_io_seconds_ago", seconds(f.lastIO))
	}
	if f.stage != connected {
		line("master_link_down_since_seconds", seconds(f.downSince))
		if f.failure != "" {
			line("master_link_error", oneLine(f.failure))
		}
	}
	line("slave_priority", r.Config.Int("replica-priority"))
	line("slave_read_only", admin.BoolInt(r.Config.Bool("replica-read-only")))
	line("replica_announced", admin.BoolInt(r.Config.Bool("replica-announced")))
}

// oneLine makes a text fit for a line of INFO.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
