package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/number"
)

// ACL: the commands about users.

const (
	errUserName    = command.Error("ERR Usernames can't contain spaces or null characters")
	errDefaultUser = command.Error("ERR The 'default' user cannot be removed")
	errNoACLFile   = command.Error("ERR This Redis instance is not configured to use an ACL file. You may want to specify " +
		"users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file " +
		"set) in order to store users in the Redis configuration.")
	errACLSave = command.Error("ERR There was an error trying to save the ACLs. Please check the server logs for more information")
	errGenPass = command.Error("ERR ACL GENPASS argument must be the number of bits for the output password, a positive " +
		"number up to 4096")
)

func aclCommands() []*local {
	const own = command.NoScript | command.Loading | command.Stale
	const admin = own | command.Admin
	everywhere := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	sub := func(l local, c command.Command) *local {
		c.Group, l.Command = command.Server, &c
		if c.Since == "" {
			c.Since = "6.0.0"
		}
		return &l
	}
	return []*local{{
		Command: &command.Command{
			Name: "acl", Group: command.Server, Since: "6.0.0", Arity: -2, Complexity: "Depends on subcommand.",
			Summary: "Holds the commands about users and what they may do.",
		},
		subs: []*local{
			sub(local{run: aclCat}, command.Command{
				Name: "cat", Arity: -2, Flags: own, Syntax: "[category]",
				Complexity: "O(1) for the categories, O(N) in the number of commands for one of them",
				Summary:    "Lists the categories of commands, or the commands of one.",
			}),
			sub(local{run: aclDelUser, worker: true}, command.Command{
				Name: "deluser", Arity: -3, Flags: admin, Tips: everywhere, Syntax: "username...",
				Complexity: "O(1) for each user and each connection",
				Summary:    "Removes users, and closes their connections.",
			}),
			sub(local{run: aclDryRun}, command.Command{
				Name: "dryrun", Since: "7.0.0", Arity: -4, Flags: admin, Syntax: "username command [arg...]",
				Complexity: "That of checking the rules of the user",
				Summary:    "Tells whether a user may run a command with these arguments. It is not run.",
			}),
			sub(local{run: aclGenPass}, command.Command{
				Name: "genpass", Arity: -2, Flags: own, Syntax: "[bits:integer]", Complexity: "O(1)",
				Summary: "Makes up a password that nobody can guess, in hexadecimal digits: 256 bits of it, or as many as given.",
			}),
			sub(local{run: aclGetUser}, command.Command{
				Name: "getuser", Arity: 3, Flags: admin, Syntax: "username", Complexity: "O(N) in the number of rules",
				Summary: "Tells everything about a user.",
			}),
			sub(local{run: aclList}, command.Command{
				Name: "list", Arity: 2, Flags: admin, Complexity: "O(N) in the number of users",
				Summary: "Lists the users, each as the line of a configuration file that makes it.",
			}),
			sub(local{run: aclLoad, worker: true}, command.Command{
				Name: "load", Arity: 2, Flags: admin, Complexity: "O(N) in the number of users and connections",
				Summary: "Replaces all users by those of the ACL file, or none if the file has a mistake.",
			}),
			sub(local{run: aclLog}, command.Command{
				Name: "log", Arity: -2, Flags: admin, Syntax: "[operation=<count:integer|RESET>]",
				Complexity: "O(N) in the number of entries shown",
				Summary:    "Shows what was denied to users of late, or forgets it.",
			}),
			sub(local{run: aclSave, worker: true}, command.Command{
				Name: "save", Arity: 2, Flags: admin, Tips: everywhere, Complexity: "O(N) in the number of users",
				Summary: "Writes all users into the ACL file.",
			}),
			sub(local{run: aclSetUser, worker: true}, command.Command{
				Name: "setuser", Arity: -3, Flags: admin, Tips: everywhere, Syntax: "username [rule...]",
				Complexity: "O(N) in the number of rules and connections",
				Summary:    "Makes a user, or changes one, by rules that are applied in order.",
			}),
			sub(local{run: aclUsers}, command.Command{
				Name: "users", Arity: 2, Flags: admin, Complexity: "O(N) in the number of users",
				Summary: "Lists the names of the users.",
			}),
			sub(local{run: aclWhoAmI}, command.Command{
				Name: "whoami", Arity: 2, Flags: own, Complexity: "O(1)",
				Summary: "Tells which user this connection is.",
			}),
			helpCommand(command.Server, "6.0.0", 0),
		},
	}}
}

func aclSetUser(c *localCall) error {
	name := string(c.args[2])
	if !acl.ValidName(name) {
		return errUserName
	}
	rules := make([]string, len(c.args)-3)
	for i, a := range c.args[3:] {
		rules[i] = string(a)
	}
	change, err := c.srv.acl.Set(name, rules)
	if err != nil {
		return command.Error("ERR " + err.Error())
	}
	c.revoke(&change)
	c.w.OK()
	return nil
}

func aclDelUser(c *localCall) error {
	var names []string
	for _, a := range c.args[2:] {
		if string(a) == acl.DefaultName {
			return errDefaultUser
		}
		names = append(names, string(a))
	}
	gone := c.srv.acl.Delete(names...)
	c.disconnect(gone)
	c.w.Int(int64(len(gone)))
	return nil
}

func aclGetUser(c *localCall) error {
	h := c.srv.acl.Find(c.args[2])
	if h == nil {
		c.w.Null()
		return nil
	}
	u := h.Load()
	permissions := u.Permissions()
	c.w.Map(6)
	c.w.BulkString("flags")
	c.w.Set(len(u.Flags()))
	for _, f := range u.Flags() {
		c.w.BulkString(f)
	}
	c.w.BulkString("passwords")
	c.bulks(u.Passwords())
	c.permissions(permissions[0])
	c.w.BulkString("selectors")
	c.w.Array(len(permissions) - 1)
	for _, p := range permissions[1:] {
		c.w.Map(3)
		c.permissions(p)
	}
	return nil
}

func (c *localCall) permissions(p acl.Permissions) {
	for _, text := range []string{"commands", p.Commands, "keys", p.Keys, "channels", p.Channels} {
		c.w.BulkString(text)
	}
}

func (c *localCall) bulks(list []string) {
	c.w.Array(len(list))
	for _, s := range list {
		c.w.BulkString(s)
	}
}

func aclList(c *localCall) error {
	users := c.srv.acl.Users()
	c.w.Array(len(users))
	for _, u := range users {
		c.w.BulkString(u.Line())
	}
	return nil
}

func aclUsers(c *localCall) error {
	users := c.srv.acl.Users()
	c.w.Array(len(users))
	for _, u := range users {
		c.w.BulkString(u.Name())
	}
	return nil
}

func aclWhoAmI(c *localCall) error {
	c.w.BulkString(c.s.user.Load().Name())
	return nil
}

func aclLoad(c *localCall) error {
	if c.srv.aclFile == "" {
		return errNoACLFile
	}
	gone, err := c.srv.loadACLFile()
	if err != nil {
		return command.Error("ERR " + err.Error())
	}
	c.disconnect(gone)
	c.w.OK()
	return nil
}

func aclSave(c *localCall) error {
	if c.srv.aclFile == "" {
		return errNoACLFile
	}
	if err := c.srv.acl.Save(c.srv.aclFile); err != nil {
		c.srv.log.Warn("ACL SAVE failed", "err", err)
		return errACLSave
	}
	c.w.OK()
	return nil
}

func aclCat(c *localCall) error {
	switch len(c.args) {
	case 2:
		c.bulks(command.CategoryNames)
		return nil
	case 3:
	default:
		return subcommandSyntax(c.args)
	}
	cat := command.CategoryByName(cString(c.args[2], len(c.args[2])))
	if cat == 0 {
		return command.Error("ERR Unknown category '" + cString(c.args[2], 128) + "'")
	}
	var names []string
	for _, cmd := range c.srv.table.All() {
		if cmd.AllCategories()&cat != 0 {
			names = append(names, cmd.FullName)
		}
	}
	c.bulks(names)
	return nil
}

func aclGenPass(c *localCall) error {
	bits := int64(256)
	switch len(c.args) {
	case 2:
	case 3:
		n, ok := number.ParseInt(c.args[2])
		if !ok {
			return command.ErrNotInteger
		}
		bits = n
	default:
		return subcommandSyntax(c.args)
	}
	if bits <= 0 || bits > 4096 {
		return errGenPass
	}
	digits := (bits + 3) / 4
	random := make([]byte, (digits+1)/2)
	if _, err := rand.Read(random); err != nil {
		return fmt.Errorf("no random numbers: %w", err)
	}
	c.w.BulkString(hex.EncodeToString(random)[:digits])
	return nil
}

func aclLog(c *localCall) error {
	count := int64(10)
	switch {
	case len(c.args) > 3:
		return subcommandSyntax(c.args)
	case len(c.args) == 3 && c.is(2, "reset"):
		c.srv.aclLog.Reset()
		c.w.OK()
		return nil
	case len(c.args) == 3:
		n, ok := number.ParseInt(c.args[2])
		if !ok {
			return command.ErrNotInteger
		}
		count = n
	}
	entries := c.srv.aclLog.Newest(count)
	now := c.srv.clock().UnixMilli()
	c.w.Array(len(entries))
	for _, e := range entries {
		c.w.Map(10)
		number := func(name string, n int64) { c.w.BulkString(name); c.w.Int(n) }
		text := func(name, s string) { c.w.BulkString(name); c.w.BulkString(s) }
		number("count", e.Count)
		text("reason", e.Reason.String())
		text("context", e.Context.String())
		text("object", e.Object)
		text("username", e.User)
		c.w.BulkString("age-seconds")
		c.w.Double(float64(now-e.Updated) / 1000)
		text("client-info", e.Client)
		number("entry-id", e.ID)
		number("timestamp-created", e.Created)
		number("timestamp-last-updated", e.Updated)
	}
	return nil
}

func aclDryRun(c *localCall) error {
	h := c.srv.acl.Find(c.args[2])
	if h == nil {
		return command.Error("ERR User '" + cString(c.args[2], len(c.args[2])) + "' not found")
	}
	call := c.args[3:]
	cmd := c.srv.table.Find(call)
	switch {
	case cmd == nil || len(cmd.Subs) > 0 && len(call) > 1:
		return command.Error("ERR Command '" + cString(call[0], len(call[0])) + "' not found")
	case !cmd.ArityOK(len(call)):
		return command.ArityError(cmd.FullName)
	}
	u := h.Load()
	if why, at := u.Check(cmd, call); why != acl.Allowed {
		c.w.BulkString(u.Message(why, cmd, call[at], true))
		return nil
	}
	c.w.OK()
	return nil
}
