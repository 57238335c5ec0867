package access

import (
	"redoubt/acl"
	"redoubt/command"
)

// Denial is the error of a call that a user may not make.
type Denial struct {
	why     acl.Denial
	user    *acl.User
	cmd     *command.Command
	object  string      // the denied command, key or channel, as ACL LOG shows it
	Context acl.Context // where the call was made
}

// Error implements error: the text for the client.
func (d *Denial) Error() string { return "NOPERM " + d.Message() }

// Unwrap returns the same text as a command.Error, for command.Text.
func (d *Denial) Unwrap() error { return command.Error(d.Error()) }

// Message returns the text without the error code, for scripts.
func (d *Denial) Message() string { return d.user.Message(d.why, d.cmd, nil, false) }

// Reason returns the reason in the words of EXEC.
func (d *Denial) Reason() string {
	switch d.why {
	case acl.ByKey:
		return "no permission to touch the specified keys"
	case acl.ByChannel:
		return "no permission to access one of the channels used as arguments"
	}
	return "no permission to execute the command or subcommand"
}

// Check returns the denial of a call that the user may not make, else nil.
func Check(u *acl.User, cmd *command.Command, args [][]byte) *Denial {
	why, at := u.Check(cmd, args)
	if why == acl.Allowed {
		return nil
	}
	d := &Denial{why: why, user: u, cmd: cmd, object: cmd.FullName}
	if why != acl.ByCommand {
		d.object = string(args[at])
	}
	return d
}

// Entry returns the denial's entry of ACL LOG, without the client.
func (d *Denial) Entry() acl.Entry {
	return acl.Entry{Reason: d.why, Context: d.Context, Object: d.object, User: d.user.Name()}
}

// CheckUnnamed refuses a call that reads keys which its arguments do not name,
// unless the user may read all keys.
func CheckUnnamed(u *acl.User, cmd *command.Command, args [][]byte) error {
	if cmd.UnnamedKeys == nil || u.MayUseAllKeys(cmd, args, acl.Read) {
		return nil
	}
	return cmd.UnnamedKeys(args)
}
