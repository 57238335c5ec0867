package command

import (
	"errors"
	"fmt"
	"strings"

	"redoubt/types/stream"
)

// Errors of streams.
const (
	ErrStreamID       = Error("ERR Invalid stream ID specified as stream command argument")
	errXaddZero       = Error("ERR The ID specified in XADD must be greater than 0-0")
	errXaddSmall      = Error("ERR The ID specified in XADD is equal or smaller than the target stream top item")
	errXaddExhausted  = Error("ERR The stream has exhausted the last possible ID, unable to add more items")
	errXaddLarge      = Error("ERR Elements are too large to be stored")
	errTrimTwice      = Error("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
	errTrimMaxLen     = Error("ERR The MAXLEN argument must be >= 0.")
	errTrimLimit      = Error("ERR The LIMIT argument must be >= 0.")
	errTrimNoStrategy = Error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
	errTrimExact      = Error("ERR syntax error, LIMIT cannot be used without the special ~ option")
	errXtrimNothing   = Error("ERR syntax error, XTRIM must be called with a trimming strategy")
	errRangeStart     = Error("ERR invalid start ID for the interval")
	errRangeEnd       = Error("ERR invalid end ID for the interval")
	errXsetidAdded    = Error("ERR entries_added must be positive")
	errXsetidDeleted  = Error("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
	errXsetidCurrent  = Error("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
	errXsetidSmall    = Error("ERR The ID specified in XSETID is smaller than the target stream top item")
	errXsetidLength   = Error("ERR The entries_added specified in XSETID is smaller than the target stream length")
	errXreadGroup     = Error("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.")
	errXreadNoAck     = Error("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.")
	errXreadNew       = Error("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.")
	errXreadNoGroup   = Error("ERR Missing GROUP option for XREADGROUP")
	errBusyGroup      = Error("BUSYGROUP Consumer Group name already exists")
	errXgroupKey      = Error("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.")
	errEntriesRead    = Error("ERR value for ENTRIESREAD must be positive or -1")
	errXautoclaimN    = Error("ERR COUNT must be > 0")
	errNumIDs         = Error("ERR Number of IDs must be a positive integer")
	errNumIDsMatch    = Error("ERR The `numids` parameter must match the number of arguments")
)

// noGroupError returns the error for a group, or its key, that does not exist. where is the text
// that XREADGROUP adds.
func noGroupError(key, group []byte, where string) error {
	return Error(fmt.Sprintf("NOGROUP No such key '%s' or consumer group '%s'%s", cString(key), cString(group), where))
}

// noGroupOfError is noGroupError for subcommands, whose key exists.
func noGroupOfError(group, key []byte) error {
	return Error(fmt.Sprintf("NOGROUP No such consumer group '%s' for key name '%s'", cString(group), cString(key)))
}

// meaninglessError returns the error for an ID that XREADGROUP does not accept.
func meaninglessError(id string) error {
	return Error(fmt.Sprintf("ERR The %s ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer "+
		"by specifying a proper ID, or use the > ID to get new messages. The %s ID would just return an empty result set.", id, id))
}

// unbalancedError returns the error for streams without IDs.
func unbalancedError(name, symbol string) error {
	return Error(fmt.Sprintf("ERR Unbalanced '%s' list of streams: for each stream key an ID or '%s' must be specified.", name, symbol))
}

// claimError returns the error for an argument that is not a number.
func claimError(what, command string) error {
	return Error(fmt.Sprintf("ERR Invalid %s argument for %s", what, command))
}

// subcommandSyntaxError returns the error for wrong arguments of a subcommand.
func subcommandSyntaxError(args [][]byte) error {
	return Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.",
		cString(args[1]), strings.ToUpper(string(args[0]))))
}

// addError maps an error of adding an entry to its text.
func addError(err error) error {
	switch {
	case errors.Is(err, stream.ErrSmallID):
		return errXaddSmall
	case errors.Is(err, stream.ErrExhausted):
		return errXaddExhausted
	case errors.Is(err, stream.ErrLarge):
		return errXaddLarge
	}
	return err
}
