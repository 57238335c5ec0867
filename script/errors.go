package script

import (
	"fmt"

	"redoubt/command"
)

// The errors that clients see.
const (
	errNoScript     = command.Error("NOSCRIPT No matching script. Please use EVAL.")
	errNotBusy      = command.Error("NOTBUSY No scripts in execution right now.")
	errBusyEval     = command.Error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
	errBusyFunction = command.Error("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.")
	errManyKeys     = command.Error("ERR Number of keys can't be greater than number of args")
	errNegativeKeys = command.Error("ERR Number of keys can't be negative")
	errBadKeys      = command.Error("ERR Bad number of keys provided")
	errNoFunction   = command.Error("ERR Function not found")
	errReadOnlyCall = command.Error("ERR Can not execute a script with write flag using *_ro command.")
	errOOMFlag      = command.Error("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'")
	errStackLimit   = "ERR reached lua stack limit"

	errNoLibrary  = command.Error("ERR Library not found")
	errNoCode     = command.Error("ERR Function code is missing")
	errPayload    = command.Error("ERR DUMP payload version or checksum are wrong")
	errPolicy     = command.Error("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
	errNameless   = command.Error("ERR library name argument was not given")
	errScriptSync = command.Error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	errFuncSync   = command.Error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
)

// The errors of redis.* functions, which a script may catch.
const (
	msgNoArguments  = "Please specify at least one argument for this redis lib call"
	msgBadArgument  = "Lua redis lib command arguments must be strings or integers"
	msgUnknown      = "Unknown Redis command called from script"
	msgArity        = "Wrong number of args calling Redis command from script"
	msgNotAllowed   = "This Redis command is not allowed from script"
	msgReadOnly     = "Write commands are not allowed from read-only scripts."
	msgACL          = "ACL failure in script: "
	msgOneArgument  = "wrong number of arguments"
	msgBadReply     = "wrong number or type of arguments"
	msgLoadTimeout  = "FUNCTION LOAD timeout"
	msgLibraryNames = "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
)

// killed is the error of a killed script, with Redis's text, which names SCRIPT KILL also
// for a function. Unlike in Redis, everything that the script wrote is undone.
type killed struct {
	name  string
	chunk string // the place where the script was killed
	line  int
}

func (k *killed) Error() string {
	return fmt.Sprintf("ERR Script killed by user with SCRIPT KILL... script: %s, on @%s:%d.", k.name, k.chunk, k.line)
}

// exclusiveTimeoutError is the error of a script that held the whole keyspace for too long.
func exclusiveTimeoutError(name string) error {
	return command.Error("BUSY Script used keys that it did not declare while others did, so it ran alone, and for longer than " +
		"busy-reply-threshold; what it wrote is undone. script: " + name)
}

// memoryError is the error of a script that exceeded lua-memory-limit.
func memoryError(name string, limit int64) error {
	return command.Error(fmt.Sprintf("ERR Script holds more than the %d bytes that lua-memory-limit allows, and what it wrote is undone. script: %s", limit, name))
}
