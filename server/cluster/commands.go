package cluster

import (
	"fmt"
	"strings"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/server/admin"
)

// CLUSTER, for clients with cluster support. Without cluster-enabled a server answers
// as Redis does outside of a cluster. Front ends of a shared store are shown as masters of
// a cluster without replicas, which share the slots: see cluster.go. A server with a store
// of its own has all slots: see solo.go.

const errNoCluster = command.Error("ERR This instance has cluster support disabled")

// sub makes a subcommand that needs a fleet. Its run gets the present division.
func (c *Cluster) sub(d command.Command, run func(*view) error) *admin.Command {
	d.Group = command.Cluster
	return &admin.Command{Command: &d, Run: func(call *admin.Call) error {
		v := c.view(call)
		if v == nil {
			return errNoCluster
		}
		return run(v)
	}}
}

// Commands returns the commands of this package: CLUSTER, ASKING, READONLY and READWRITE.
func (c *Cluster) Commands() []*admin.Command {
	return append(c.modeCommands(), &admin.Command{
		Command: &command.Command{
			Name: "cluster", Group: command.Cluster, Since: "3.0.0", Arity: -2,
			Summary: "Holds the commands about the front ends that share a store.",
		},
		Subs: append(append(c.questions(), c.ofNodes()...), c.changes()...),
	})
}

// modeCommands returns ASKING, READONLY and READWRITE. They have no effect: no slot ever
// migrates between nodes, and there are no replicas.
func (c *Cluster) modeCommands() (list []*admin.Command) {
	for _, d := range []command.Command{
		{Name: "asking", Flags: command.Fast, Summary: "Lets the next command use a slot that is being moved here; there are none."},
		{Name: "readonly", Flags: command.Loading | command.Stale | command.Fast, Summary: "Allows reads from a replica of a cluster; there are none."},
		{Name: "readwrite", Flags: command.Loading | command.Stale | command.Fast, Summary: "Takes READONLY back."},
	} {
		d.Since, d.Arity, d.Complexity, d.Categories = "3.0.0", 1, "O(1)", command.CatConnection
		list = append(list, c.sub(d, func(v *view) error { v.call.Reply.OK(); return nil }))
	}
	return list
}

var varying = []string{"nondeterministic_output"}

// questions returns the subcommands without the admin flag.
func (c *Cluster) questions() []*admin.Command {
	const always = command.Loading | command.Stale
	help := admin.Help(command.Cluster, "5.0.0", 0)
	lines := help.Run
	help.Run = func(call *admin.Call) error {
		if !c.Enabled() {
			return errNoCluster
		}
		return lines(call)
	}
	return []*admin.Command{
		c.sub(command.Command{
			Name: "slots", Since: "3.0.0", Arity: 2, Flags: always, Tips: varying,
			Deprecated: "7.0.0", ReplacedBy: "`CLUSTER SHARDS`", Complexity: "O(N) with N the number of front ends",
			Summary: "Tells which front end has which slots.",
		}, (*view).writeSlots),
		c.sub(command.Command{
			Name: "shards", Since: "7.0.0", Arity: 2, Flags: always, Tips: varying, Complexity: "O(N) with N the number of front ends",
			Summary: "Tells which front end has which slots, and where it listens.",
		}, (*view).writeShards),
		c.sub(command.Command{
			Name: "nodes", Since: "3.0.0", Arity: 2, Flags: command.Stale, Tips: varying, Complexity: "O(N) with N the number of front ends",
			Summary: "Tells of all living front ends in the format of a Redis cluster's configuration.",
		}, (*view).writeNodes),
		c.sub(command.Command{
			Name: "info", Since: "3.0.0", Arity: 2, Flags: command.Stale, Tips: varying, Complexity: "O(1)",
			Summary: "Tells whether this front end takes part, and how many others do.",
		}, (*view).writeInfo),
		c.sub(command.Command{
			Name: "links", Since: "7.0.0", Arity: 2, Flags: command.Stale, Tips: varying, Complexity: "O(N) with N the number of front ends",
			Summary: "Lists the connections between this front end and others.",
		}, (*view).writeLinks),
		c.sub(command.Command{
			Name: "myid", Since: "3.0.0", Arity: 2, Flags: command.Stale, Complexity: "O(1)",
			Summary: "Tells the id of this front end. Each start gives a new one.",
		}, func(v *view) error { v.call.Reply.BulkString(v.self().ID.String()); return nil }),
		c.sub(command.Command{
			Name: "myshardid", Since: "7.2.0", Arity: 2, Flags: command.Stale, Tips: varying, Complexity: "O(1)",
			Summary: "Tells the id of this front end's shard: as it is alone there, its own.",
		}, func(v *view) error { v.call.Reply.BulkString(v.self().ID.String()); return nil }),
		c.sub(command.Command{
			Name: "keyslot", Since: "3.0.0", Arity: 3, Flags: command.Stale, Syntax: "key:string",
			Complexity: "O(N) with N the length of the key", Summary: "Tells the slot of a key.",
		}, func(v *view) error { v.call.Reply.Int(int64(keyspace.SlotOf(v.call.Args[2]))); return nil }),
		{Command: &command.Command{
			Name: "countkeysinslot", Group: command.Cluster, Since: "3.0.0", Arity: 3, Flags: command.Stale | command.OneState,
			Syntax: "slot:integer", Complexity: "O(N) with N the number of keys in the slot",
			Summary: "Counts the keys of a slot, whichever front end has it.",
			Run:     c.countKeysInSlot,
		}},
		{Command: &command.Command{
			Name: "getkeysinslot", Group: command.Cluster, Since: "3.0.0", Arity: 4, Flags: command.Stale | command.OneState, Tips: varying,
			Syntax: "slot:integer count:integer", Complexity: "O(N) with N the number of keys asked for",
			Summary: "Lists keys of a slot, whichever front end has it.",
			Run:     c.getKeysInSlot,
		}},
		help,
	}
}

// ofNodes returns the admin subcommands that only read, about one node or the epoch.
func (c *Cluster) ofNodes() (list []*admin.Command) {
	none := func(v *view) error { v.call.Reply.Array(0); return nil }
	for _, s := range []struct {
		command.Command
		run func(*view) error
	}{
		{command.Command{Name: "replicas", Since: "5.0.0", Summary: "Lists the replicas of a front end; it has none."}, none},
		{command.Command{Name: "slaves", Since: "3.0.0", Summary: "Lists the replicas of a front end; it has none.",
			Deprecated: "5.0.0", ReplacedBy: "`CLUSTER REPLICAS`"}, none},
		{command.Command{Name: "count-failure-reports", Since: "3.0.0", Summary: "Counts who reports a front end as failed. Nobody has to: its row in the store tells.",
			Complexity: "O(1)"}, func(v *view) error { v.call.Reply.Int(0); return nil }},
	} {
		s.Arity, s.Flags, s.Tips, s.Syntax = 3, command.Admin|command.Stale, varying, "node-id:string"
		list = append(list, c.sub(s.Command, func(v *view) error {
			if v.find(string(v.call.Args[2])) < 0 {
				return command.Error("ERR Unknown node " + admin.CString(v.call.Args[2], 128))
			}
			return s.run(v)
		}))
	}
	return append(list, c.sub(command.Command{
		Name: "bumpepoch", Since: "3.0.0", Arity: 2, Flags: clusterAdmin, Tips: varying, Complexity: "O(1)",
		Summary: "Would raise the epoch, which only changes among the front ends do here.",
	}, func(v *view) error { v.call.Reply.Status(fmt.Sprint("STILL ", v.epoch())); return nil }))
}

const clusterAdmin = command.Admin | command.NoAsyncLoading | command.Stale

// changes returns the subcommands that configure a Redis Cluster. All of them are errors:
// front ends configure themselves.
func (c *Cluster) changes() (list []*admin.Command) {
	const ranges = "range=(start-slot:integer end-slot:integer)..."
	for _, d := range []command.Command{
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
		if d.Flags == 0 {
			d.Flags = clusterAdmin
		}
		d.Complexity, d.Summary = "O(1)", "Would arrange the nodes of a Redis cluster. Front ends arrange themselves, so it is an error."
		list = append(list, c.sub(d, func(v *view) error {
			return command.Error("ERR CLUSTER " + strings.ToUpper(admin.CString(v.call.Args[1], 64)) +
				" is not possible: the front ends of a store find each other and divide the slots by themselves")
		}))
	}
	return list
}

// slotArg parses the number of a slot. Every front end has the keys of all slots.
func (k *Cluster) slotArg(c *command.Ctx, complaint string) (uint16, error) {
	if !k.Enabled() {
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

func (k *Cluster) countKeysInSlot(c *command.Ctx) error {
	slot, err := k.slotArg(c, "ERR Invalid slot")
	if err != nil {
		return err
	}
	n := int64(0)
	c.Tx.WalkSlot(slot, func([]byte) bool { n++; return true })
	c.Reply.Int(n)
	return nil
}

func (k *Cluster) getKeysInSlot(c *command.Ctx) error {
	const complaint = "ERR Invalid slot or number of keys"
	slot, err := k.slotArg(c, complaint)
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
