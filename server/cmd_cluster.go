package server

import (
	"fmt"
	"strings"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/number"
)

// CLUSTER: what clients ask that know clusters. Without cluster-enabled a server answers
// as Redis does outside of a cluster. Front ends of a shared store are told as masters of
// a cluster without replicas, which share the slots: see cluster.go. One with a store of
// its own has all of them: see solo.go.

const errNoCluster = command.Error("ERR This instance has cluster support disabled")

// clusterSub describes a subcommand that needs a fleet. Its run is called with the
// division as it is at that moment.
func clusterSub(c command.Command, run func(*localCall, *clusterView) error) *local {
	c.Group = command.Cluster
	return &local{Command: &c, run: func(l *localCall) error {
		v := l.srv.cluster()
		if v == nil {
			return errNoCluster
		}
		v.reached(l.s)
		return run(l, v)
	}}
}

// clusterCommands are the commands of this file, for a server.
func (srv *Server) clusterCommands() []*local {
	return append(clusterModeCommands(), &local{
		Command: &command.Command{
			Name: "cluster", Group: command.Cluster, Since: "3.0.0", Arity: -2,
			Summary: "Holds the commands about the front ends that share a store.",
		},
		subs: append(append(srv.clusterQuestions(), clusterOfNodes()...), clusterChanges()...),
	})
}

// clusterModeCommands are what clients send to the nodes of a cluster: no slot is
// ever on its way from one to another, and there are no replicas, so there is nothing
// to be done.
func clusterModeCommands() (list []*local) {
	for _, c := range []command.Command{
		{Name: "asking", Flags: command.Fast, Summary: "Lets the next command use a slot that is being moved here; there are none."},
		{Name: "readonly", Flags: command.Loading | command.Stale | command.Fast, Summary: "Allows reads from a replica of a cluster; there are none."},
		{Name: "readwrite", Flags: command.Loading | command.Stale | command.Fast, Summary: "Takes READONLY back."},
	} {
		c.Since, c.Arity, c.Complexity, c.Categories = "3.0.0", 1, "O(1)", command.CatConnection
		list = append(list, clusterSub(c, func(c *localCall, _ *clusterView) error { c.w.OK(); return nil }))
	}
	return list
}

var varying = []string{"nondeterministic_output"}

// clusterQuestions are the subcommands that any client may ask.
func (srv *Server) clusterQuestions() []*local {
	const always = command.Loading | command.Stale
	help := helpCommand(command.Cluster, "5.0.0", 0)
	lines := help.run
	help.run = func(c *localCall) error {
		if c.srv.cluster() == nil {
			return errNoCluster
		}
		return lines(c)
	}
	return []*local{
		clusterSub(command.Command{
			Name: "slots", Since: "3.0.0", Arity: 2, Flags: always, Tips: varying,
			Deprecated: "7.0.0", ReplacedBy: "`CLUSTER SHARDS`", Complexity: "O(N) with N the number of front ends",
			Summary: "Tells which front end has which slots.",
		}, clusterSlots),
		clusterSub(command.Command{
			Name: "shards", Since: "7.0.0", Arity: 2, Flags: always, Tips: varying, Complexity: "O(N) with N the number of front ends",
			Summary: "Tells which front end has which slots, and where it listens.",
		}, clusterShards),
		clusterSub(command.Command{
			Name: "nodes", Since: "3.0.0", Arity: 2, Flags: command.Stale, Tips: varying, Complexity: "O(N) with N the number of front ends",
			Summary: "Tells of all living front ends in the format of a Redis cluster's configuration.",
		}, clusterNodes),
		clusterSub(command.Command{
			Name: "info", Since: "3.0.0", Arity: 2, Flags: command.Stale, Tips: varying, Complexity: "O(1)",
			Summary: "Tells whether this front end takes part, and how many others do.",
		}, clusterInfo),
		clusterSub(command.Command{
			Name: "links", Since: "7.0.0", Arity: 2, Flags: command.Stale, Tips: varying, Complexity: "O(N) with N the number of front ends",
			Summary: "Lists the connections between this front end and others.",
		}, clusterLinks),
		clusterSub(command.Command{
			Name: "myid", Since: "3.0.0", Arity: 2, Flags: command.Stale, Complexity: "O(1)",
			Summary: "Tells the id of this front end. Each start gives a new one.",
		}, func(c *localCall, v *clusterView) error { c.w.BulkString(v.self().ID.String()); return nil }),
		clusterSub(command.Command{
			Name: "myshardid", Since: "7.2.0", Arity: 2, Flags: command.Stale, Tips: varying, Complexity: "O(1)",
			Summary: "Tells the id of this front end's shard: as it is alone there, its own.",
		}, func(c *localCall, v *clusterView) error { c.w.BulkString(v.self().ID.String()); return nil }),
		clusterSub(command.Command{
			Name: "keyslot", Since: "3.0.0", Arity: 3, Flags: command.Stale, Syntax: "key:string",
			Complexity: "O(N) with N the length of the key", Summary: "Tells the slot of a key.",
		}, func(c *localCall, _ *clusterView) error { c.w.Int(int64(keyspace.SlotOf(c.args[2]))); return nil }),
		{Command: &command.Command{
			Name: "countkeysinslot", Group: command.Cluster, Since: "3.0.0", Arity: 3, Flags: command.Stale | command.OneState,
			Syntax: "slot:integer", Complexity: "O(N) with N the number of keys in the slot",
			Summary: "Counts the keys of a slot, whichever front end has it.",
			Run:     srv.countKeysInSlot,
		}},
		{Command: &command.Command{
			Name: "getkeysinslot", Group: command.Cluster, Since: "3.0.0", Arity: 4, Flags: command.Stale | command.OneState, Tips: varying,
			Syntax: "slot:integer count:integer", Complexity: "O(N) with N the number of keys asked for",
			Summary: "Lists keys of a slot, whichever front end has it.",
			Run:     srv.getKeysInSlot,
		}},
		help,
	}
}

// clusterOfNodes are subcommands about one node or the cluster's own workings.
func clusterOfNodes() (list []*local) {
	none := func(c *localCall, _ *clusterView) error { c.w.Array(0); return nil }
	for _, s := range []struct {
		command.Command
		run func(*localCall, *clusterView) error
	}{
		{command.Command{Name: "replicas", Since: "5.0.0", Summary: "Lists the replicas of a front end; it has none."}, none},
		{command.Command{Name: "slaves", Since: "3.0.0", Summary: "Lists the replicas of a front end; it has none.",
			Deprecated: "5.0.0", ReplacedBy: "`CLUSTER REPLICAS`"}, none},
		{command.Command{Name: "count-failure-reports", Since: "3.0.0", Summary: "Counts who reports a front end as failed. Nobody has to: its row in the store tells.",
			Complexity: "O(1)"}, func(c *localCall, _ *clusterView) error { c.w.Int(0); return nil }},
	} {
		s.Arity, s.Flags, s.Tips, s.Syntax = 3, command.Admin|command.Stale, varying, "node-id:string"
		list = append(list, clusterSub(s.Command, func(c *localCall, v *clusterView) error {
			if v.find(string(c.args[2])) < 0 {
				return command.Error("ERR Unknown node " + cString(c.args[2], 128))
			}
			return s.run(c, v)
		}))
	}
	return append(list, clusterSub(command.Command{
		Name: "bumpepoch", Since: "3.0.0", Arity: 2, Flags: clusterAdmin, Tips: varying, Complexity: "O(1)",
		Summary: "Would raise the epoch, which only changes among the front ends do here.",
	}, func(c *localCall, v *clusterView) error { c.w.Status(fmt.Sprint("STILL ", v.epoch())); return nil }))
}

const clusterAdmin = command.Admin | command.NoAsyncLoading | command.Stale

// clusterChanges are the subcommands by which people arrange a Redis cluster. There
// is nothing to arrange here, and who tries is told.
func clusterChanges() (list []*local) {
	const ranges = "range=(start-slot:integer end-slot:integer)..."
	for _, c := range []command.Command{
		{Name: "addslots", Since: "3.0.0", Arity: -3, Syntax: "slot:integer..."},
		{Name: "addslotsrange", Since: "7.0.0", Arity: -4, Syntax: ranges},
		{Name: "delslots", Since: "3.0.0", Arity: -3, Syntax: "slot:integer..."},
		{Name: "delslotsrange", Since: "7.0.0", Arity: -4, Syntax: ranges},
		{Name: "failover", Since: "3.0.0", Arity: -2, Syntax: "[options=<FORCE|TAKEOVER>]"},
		{Name: "flushslots", Since: "3.0.0", Arity: 2},
		{Name: "forget", Since: "3.0.0", Arity: 3, Syntax: "node-id:string"},
		{Name: "meet", Since: "3.0.0", Arity: -4, Syntax: "ip:string port:integer [cluster-bus-port:integer]@4.0.0"},
		{Name: "replicate", Since: "3.0.0", Arity: 3, Syntax: "node-id:string"},
		{Name: "reset", Since: "3.0.0", Arity: -2, Flags: command.Admin | command.NoScript | command.Stale, Syntax: "[reset-type=<HARD|SOFT>]"},
		{Name: "saveconfig", Since: "3.0.0", Arity: 2},
		{Name: "set-config-epoch", Since: "3.0.0", Arity: 3, Syntax: "config-epoch:integer"},
		{Name: "setslot", Since: "3.0.0", Arity: -4, Syntax: "slot:integer subcommand=<IMPORTING importing'node-id'|MIGRATING migrating'node-id'|NODE node'node-id'|STABLE>"},
	} {
		if c.Flags == 0 {
			c.Flags = clusterAdmin
		}
		c.Complexity, c.Summary = "O(1)", "Would arrange the nodes of a Redis cluster. Front ends arrange themselves, so it is an error."
		list = append(list, clusterSub(c, func(c *localCall, _ *clusterView) error {
			return command.Error("ERR CLUSTER " + strings.ToUpper(cString(c.args[1], 64)) +
				" is not possible: the front ends of a store find each other and divide the slots by themselves")
		}))
	}
	return list
}

// slotArg reads the number of a slot. Any front end has the keys of all slots.
func (srv *Server) slotArg(c *command.Ctx, complaint string) (uint16, error) {
	if srv.fleet.Load() == nil {
		return 0, errNoCluster
	}
	slot, ok := number.ParseInt(c.Args[2])
	switch {
	case !ok:
		return 0, command.ErrNotInteger
	case slot < 0 || slot >= keyspace.Slots:
		return 0, command.Error(complaint)
	}
	return uint16(slot), nil
}

func (srv *Server) countKeysInSlot(c *command.Ctx) error {
	slot, err := srv.slotArg(c, "ERR Invalid slot")
	if err != nil {
		return err
	}
	n := int64(0)
	c.Tx.WalkSlot(slot, func([]byte) bool { n++; return true })
	c.Reply.Int(n)
	return nil
}

func (srv *Server) getKeysInSlot(c *command.Ctx) error {
	const complaint = "ERR Invalid slot or number of keys"
	slot, err := srv.slotArg(c, complaint)
	count, ok := number.ParseInt(c.Args[3])
	switch {
	case err == errNoCluster || err == command.ErrNotInteger:
		return err
	case !ok:
		return command.ErrNotInteger
	case err != nil || count < 0:
		return command.Error(complaint)
	}
	keys, n := *c.Reply, 0
	keys.Buf = nil
	if count > 0 {
		c.Tx.WalkSlot(slot, func(key []byte) bool {
			keys.Bulk(key)
			n++
			return int64(n) < count
		})
	}
	c.Reply.Array(n)
	c.Reply.Buf = append(c.Reply.Buf, keys.Buf...)
	return nil
}
