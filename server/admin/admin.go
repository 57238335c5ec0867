// Package admin is the contract between the server and its administrative commands
// (CONFIG, INFO, ACL, DEBUG and the like), and holds those of them that need no package of
// their own.
//
// A handler sees its arguments, the reply, and the calling client as an interface. It never
// sees the server, a session or a socket. Its package declares whatever else it needs as an
// interface, or as a struct of functions and figures, which the server provides.
package admin

import (
	"redoubt/acl"
	"redoubt/command"
	"redoubt/wire"
)

// Command is an administrative command: a descriptor like that of every command, and a
// handler.
type Command struct {
	*command.Command
	// Run answers the call. It is nil for a container of subcommands, and for a command
	// whose descriptor has a handler for the executor.
	Run func(c *Call) error
	// Worker means that Run is called on a worker, after the commit of the client's earlier
	// commands, and may take long. Without Worker, Run must not wait: it is called on the
	// client's event loop, which serves others too.
	Worker bool
	Subs   []*Command
}

// Call is one call of an administrative command.
type Call struct {
	Args   [][]byte
	Reply  *wire.Writer
	Client Client
	Table  *command.Table // all commands of the server
}

// Client is the client that makes a call.
type Client interface {
	// ID is the number of the connection.
	ID() int64
	// Database is the number of the selected database.
	Database() int
	// User returns the user that the client has authenticated as.
	User() *acl.User
	// OnThisMachine reports whether the client is connected by a unix socket or the loopback
	// interface.
	OnThisMachine() bool
	// Reached returns the server's address that the client is connected to, empty for a unix
	// socket, and whether it uses TLS.
	Reached() (host string, tls bool)
	// Execute runs a command that is in no table, as the client, writes its reply, and
	// returns when the commits that the reply depends on are durable. In a transaction or a
	// script the command is a part of it.
	Execute(cmd *command.Command, args [][]byte) error
	// CloseAfterReply closes the connection once the reply of this call is sent. Only a
	// handler on a worker may call it.
	CloseAfterReply()
}

// Is reports whether the i-th argument is the word, in upper or lower case.
func (c *Call) Is(i int, word string) bool { return IsWord(c.Args[i], word) }

// OK answers OK.
func (c *Call) OK() error {
	c.Reply.OK()
	return nil
}

// Strings answers an array of strings.
func (c *Call) Strings(list []string) {
	c.Reply.Array(len(list))
	for _, s := range list {
		c.Reply.BulkString(s)
	}
}

// Help returns the subcommand HELP of a container.
func Help(group command.Group, since string, categories command.Category) *Command {
	return &Command{Command: &command.Command{
		Name: "help", Group: group, Since: since, Arity: 2, Categories: categories,
		Flags: command.Loading | command.Stale, Summary: "Lists the subcommands.",
	}, Run: func(c *Call) error {
		lines := command.Help(c.Table.Lookup(c.Args[0]), c.Args[0])
		c.Reply.Array(len(lines))
		for _, l := range lines {
			c.Reply.Status(l)
		}
		return nil
	}}
}
