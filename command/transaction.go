package command

import "time"

// Queued is a command of a transaction.
type Queued struct {
	Cmd  *Command
	Args [][]byte

	// Set by EXEC: whether it was run, for how long, and what it failed with.
	Ran  bool
	Took time.Duration
	Err  error
}

// TransactionCommands run as transactions of their own; MULTI, DISCARD and UNWATCH
// only change the connection's state.
var TransactionCommands = []*Command{Watch, Exec}

// Watch is WATCH: the executor notes the keys.
var Watch = &Command{
	Name: "watch", Group: Transactions, Since: "2.2.0", Arity: -2,
	Flags:      NoScript | Loading | Stale | Fast | AllowBusy | NoQueue,
	Keys:       KeyRange(1, -1, 1, RO),
	Syntax:     "key...",
	Summary:    "Has the next EXEC do nothing if one of the keys is changed before it.",
	Complexity: "O(1) for each key",
	Run: func(c *Ctx) error {
		c.Reply.OK()
		return nil
	},
}

const errRulesChanged = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. " +
	"This command is no longer allowed for the following reason: "

// Exec is EXEC.
var Exec = &Command{
	Name: "exec", Group: Transactions, Since: "1.2.0", Arity: 1,
	Flags:      NoScript | Loading | Stale | SkipSlowlog | NoQueue,
	Summary:    "Runs the commands that were queued since MULTI, as one.",
	Complexity: "That of the commands it runs",
	Run:        runExec,
}

// denialReason is why Caller.Permit refused a command, in the words of EXEC; nothing
// when the error speaks for itself.
func denialReason(err error) string {
	if r, ok := err.(interface{ Reason() string }); ok {
		return r.Reason()
	}
	return ""
}

func runExec(c *Ctx) error {
	if c.Changed() {
		c.Reply.NullArray()
		return nil
	}
	c.Reply.Array(len(c.Queue))
	for i := range c.Queue {
		q := &c.Queue[i]
		*q = Queued{Cmd: q.Cmd, Args: q.Args}
		if c.Caller != nil {
			if err := c.Caller.Permit(q.Cmd, q.Args); err != nil {
				if q.Err = err; denialReason(err) != "" {
					q.Err = Error(errRulesChanged + denialReason(err))
				}
			}
		}
		if q.Err == nil {
			q.Err = c.Do(q.Cmd, q.Args, c.Reply)
		}
		if err := c.Tx.Err(); err != nil {
			return err
		}
		if q.Err != nil {
			c.Reply.Error(Text(q.Err))
		}
	}
	return nil
}
