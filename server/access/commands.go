package access

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/number"
	"redoubt/server/admin"
	"redoubt/wire"
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

// Commands returns the command ACL.
func (a *Control) Commands() []*admin.Command {
	const own = command.NoScript | command.Loading | command.Stale
	const adminFlags = own | command.Admin
	everywhere := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	sub := func(l admin.Command, c command.Command) *admin.Command {
		c.Group, l.Command = command.Server, &c
		if c.Since == "" {
			c.Since = "6.0.0"
		}
		return &l
	}
	return []*admin.Command{{
		Command: &command.Command{
			Name: "acl", Group: command.Server, Since: "6.0.0", Arity: -2, Complexity: "Depends on subcommand.",
			Summary: "Holds the commands about users and what they may do.",
		},
		Subs: []*admin.Command{
			sub(admin.Command{Run: a.cat}, command.Command{
				Name: "cat", Arity: -2, Flags: own, Syntax: "[category]",
				Complexity: "O(1) for the categories, O(N) in the number of commands for one of them",
				Summary:    "Lists the categories of commands, or the commands of one.",
			}),
			sub(admin.Command{Run: a.delUser, Worker: true}, command.Command{
				Name: "deluser", Arity: -3, Flags: adminFlags, Tips: everywhere, Syntax: "username...",
				Complexity: "O(1) for each user and each connection",
				Summary:    "Removes users, and closes their connections.",
			}),
			sub(admin.Command{Run: a.dryRun}, command.Command{
				Name: "dryrun", Since: "7.0.0", Arity: -4, Flags: adminFlags, Syntax: "username command [arg...]",
				Complexity: "That of checking the rules of the user",
				Summary:    "Tells whether a user may run a command with these arguments. It is not run.",
			}),
			sub(admin.Command{Run: a.genPass}, command.Command{
				Name: "genpass", Arity: -2, Flags: own, Syntax: "[bits:integer]", Complexity: "O(1)",
				Summary: "Makes up a password that nobody can guess, in hexadecimal digits: 256 bits of it, or as many as given.",
			}),
			sub(admin.Command{Run: a.getUser}, command.Command{
				Name: "getuser", Arity: 3, Flags: adminFlags, Syntax: "username", Complexity: "O(N) in the number of rules",
				Summary: "Tells everything about a user.",
			}),
			sub(admin.Command{Run: a.list}, command.Command{
				Name: "list", Arity: 2, Flags: adminFlags, Complexity: "O(N) in the number of users",
				Summary: "Lists the users, each as the line of a configuration file that makes it.",
			}),
			sub(admin.Command{Run: a.load, Worker: true}, command.Command{
				Name: "load", Arity: 2, Flags: adminFlags, Complexity: "O(N) in the number of users and connections",
				Summary: "Replaces all users by those of the ACL file, or none if the file has a mistake.",
			}),
			sub(admin.Command{Run: a.showLog}, command.Command{
				Name: "log", Arity: -2, Flags: adminFlags, Syntax: "[operation=<count:integer|RESET>]",
				Complexity: "O(N) in the number of entries shown",
				Summary:    "Shows what was denied to users of late, or forgets it.",
			}),
			sub(admin.Command{Run: a.save, Worker: true}, command.Command{
				Name: "save", Arity: 2, Flags: adminFlags, Tips: everywhere, Complexity: "O(N) in the number of users",
				Summary: "Writes all users into the ACL file.",
			}),
			sub(admin.Command{Run: a.setUser, Worker: true}, command.Command{
				Name: "setuser", Arity: -3, Flags: adminFlags, Tips: everywhere, Syntax: "username [rule...]",
				Complexity: "O(N) in the number of rules and connections",
				Summary:    "Makes a user, or changes one, by rules that are applied in order.",
			}),
			sub(admin.Command{Run: a.users}, command.Command{
				Name: "users", Arity: 2, Flags: adminFlags, Complexity: "O(N) in the number of users",
				Summary: "Lists the names of the users.",
			}),
			sub(admin.Command{Run: a.whoAmI}, command.Command{
				Name: "whoami", Arity: 2, Flags: own, Complexity: "O(1)",
				Summary: "Tells which user this connection is.",
			}),
			admin.Help(command.Server, "6.0.0", 0),
		},
	}}
}

func (a *Control) setUser(c *admin.Call) error {
	name := string(c.Args[2])
	if !acl.ValidName(name) {
		return errUserName
	}
	rules := make([]string, len(c.Args)-3)
	for i, a := range c.Args[3:] {
		rules[i] = string(a)
	}
	change, err := a.Users.Set(name, rules)
	if err != nil {
		return command.Error("ERR " + err.Error())
	}
	a.revoke(c, &change)
	c.Reply.OK()
	return nil
}

func (a *Control) delUser(c *admin.Call) error {
	var names []string
	for _, a := range c.Args[2:] {
		if string(a) == acl.DefaultName {
			return errDefaultUser
		}
		names = append(names, string(a))
	}
	gone := a.Users.Delete(names...)
	a.disconnect(c, gone)
	c.Reply.Int(int64(len(gone)))
	return nil
}

func (a *Control) getUser(c *admin.Call) error {
	h := a.Users.Find(c.Args[2])
	if h == nil {
		c.Reply.Null()
		return nil
	}
	u := h.Load()
	permissions := u.Permissions()
	c.Reply.Map(6)
	c.Reply.BulkString("flags")
	c.Reply.Set(len(u.Flags()))
	for _, f := range u.Flags() {
		c.Reply.BulkString(f)
	}
	c.Reply.BulkString("passwords")
	c.Strings(u.Passwords())
	writePermissions(c.Reply, permissions[0])
	c.Reply.BulkString("selectors")
	c.Reply.Array(len(permissions) - 1)
	for _, p := range permissions[1:] {
		c.Reply.Map(3)
		writePermissions(c.Reply, p)
	}
	return nil
}

func writePermissions(w *wire.Writer, p acl.Permissions) {
	for _, text := range []string{"commands", p.Commands, "keys", p.Keys, "channels", p.Channels} {
		w.BulkString(text)
	}
}

func (a *Control) list(c *admin.Call) error {
	users := a.Users.Users()
	c.Reply.Array(len(users))
	for _, u := range users {
		c.Reply.BulkString(u.Line())
	}
	return nil
}

func (a *Control) users(c *admin.Call) error {
	users := a.Users.Users()
	c.Reply.Array(len(users))
	for _, u := range users {
		c.Reply.BulkString(u.Name())
	}
	return nil
}

func (a *Control) whoAmI(c *admin.Call) error {
	c.Reply.BulkString(c.Client.User().Name())
	return nil
}

func (a *Control) load(c *admin.Call) error {
	if a.file == "" {
		return errNoACLFile
	}
	gone, err := a.loadFile()
	if err != nil {
		return command.Error("ERR " + err.Error())
	}
	a.disconnect(c, gone)
	c.Reply.OK()
	return nil
}

func (a *Control) save(c *admin.Call) error {
	if a.file == "" {
		return errNoACLFile
	}
	if err := a.Users.Save(a.file); err != nil {
		a.o.Log.Warn("ACL SAVE failed", "err", err)
		return errACLSave
	}
	c.Reply.OK()
	return nil
}

func (a *Control) cat(c *admin.Call) error {
	switch len(c.Args) {
	case 2:
		c.Strings(command.CategoryNames)
		return nil
	case 3:
	default:
		return admin.SubcommandSyntax(c.Args)
	}
	cat := command.CategoryByName(admin.CString(c.Args[2], len(c.Args[2])))
	if cat == 0 {
		return command.Error("ERR Unknown category '" + admin.CString(c.Args[2], 128) + "'")
	}
	var names []string
	for _, cmd := range c.Table.All() {
		if cmd.AllCategories()&cat != 0 {
			names = append(names, cmd.FullName)
		}
	}
	c.Strings(names)
	return nil
}

func (a *Control) genPass(c *admin.Call) error {
	bits := int64(256)
	switch len(c.Args) {
	case 2:
	case 3:
		n, ok := number.ParseInt(c.Args[2])
		if !ok {
			return command.ErrNotInteger
		}
		bits = n
	default:
		return admin.SubcommandSyntax(c.Args)
	}
	if bits <= 0 || bits > 4096 {
		return errGenPass
	}
	digits := (bits + 3) / 4
	random := make([]byte, (digits+1)/2)
	if _, err := rand.Read(random); err != nil {
		return fmt.Errorf("no random numbers: %w", err)
	}
	c.Reply.BulkString(hex.EncodeToString(random)[:digits])
	return nil
}

func (a *Control) showLog(c *admin.Call) error {
	count := int64(10)
	switch {
	case len(c.Args) > 3:
		return admin.SubcommandSyntax(c.Args)
	case len(c.Args) == 3 && c.Is(2, "reset"):
		a.Denied.Reset()
		c.Reply.OK()
		return nil
	case len(c.Args) == 3:
		n, ok := number.ParseInt(c.Args[2])
		if !ok {
			return command.ErrNotInteger
		}
		count = n
	}
	entries := a.Denied.Newest(count)
	now := a.o.Now().UnixMilli()
	c.Reply.Array(len(entries))
	for _, e := range entries {
		c.Reply.Map(10)
		number := func(name string, n int64) { c.Reply.BulkString(name); c.Reply.Int(n) }
		text := func(name, s string) { c.Reply.BulkString(name); c.Reply.BulkString(s) }
		number("count", e.Count)
		text("reason", e.Reason.String())
		text("context", e.Context.String())
		text("object", e.Object)
		text("username", e.User)
		c.Reply.BulkString("age-seconds")
		c.Reply.Double(float64(now-e.Updated) / 1000)
		text("client-info", e.Client)
		number("entry-id", e.ID)
		number("timestamp-created", e.Created)
		number("timestamp-last-updated", e.Updated)
	}
	return nil
}

func (a *Control) dryRun(c *admin.Call) error {
	h := a.Users.Find(c.Args[2])
	if h == nil {
		return command.Error("ERR User '" + admin.CString(c.Args[2], len(c.Args[2])) + "' not found")
	}
	call := c.Args[3:]
	cmd := c.Table.Find(call)
	switch {
	case cmd == nil || len(cmd.Subs) > 0 && len(call) > 1:
		return command.Error("ERR Command '" + admin.CString(call[0], len(call[0])) + "' not found")
	case !cmd.ArityOK(len(call)):
		return command.ArityError(cmd.FullName)
	}
	u := h.Load()
	if why, at := u.Check(cmd, call); why != acl.Allowed {
		c.Reply.BulkString(u.Message(why, cmd, call[at], true))
		return nil
	}
	c.Reply.OK()
	return nil
}
