package command

import (
	"errors"
	"fmt"

	"redoubt/engine"
	"redoubt/types"
)

// Every error text that a client can see from a handler is in this file.

// Error is an error whose text is sent to the client as it is, code included.
type Error string

func (e Error) Error() string { return string(e) }

const (
	ErrSyntax       = Error("ERR syntax error")
	ErrNotInteger   = Error("ERR value is not an integer or out of range")
	ErrNotFloat     = Error("ERR value is not a valid float")
	ErrNoSuchKey    = Error("ERR no such key")
	ErrWrongType    = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
	ErrOverflow     = Error("ERR increment or decrement would overflow")
	ErrNaN          = Error("ERR increment would produce NaN or Infinity")
	ErrTooLong      = Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
	ErrOffset       = Error("ERR offset is out of range")
	ErrDBRange      = Error("ERR DB index is out of range")
	ErrSameObject   = Error("ERR source and destination objects are the same")
	ErrCursor       = Error("ERR invalid cursor")
	ErrNotPositive  = Error("ERR value is out of range, must be positive")
	ErrNoLFU        = Error("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	ErrLFU          = Error("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	ErrTimeout      = Error("ERR timeout is not an integer or out of range")
	ErrTimeoutSign  = Error("ERR timeout is negative")
	ErrTimeoutRange = Error("ERR timeout is out of range")
	ErrFirstDB      = Error("ERR invalid first DB index")
	ErrSecondDB     = Error("ERR invalid second DB index")
	ErrExpireNX     = Error("ERR NX and XX, GT or LT options at the same time are not compatible")
	ErrExpireGTLT   = Error("ERR GT and LT options at the same time are not compatible")
	ErrOutOfMemory  = Error("OOM command not allowed when used memory > 'maxmemory'.")
	ErrNoReplicas   = Error("NOREPLICAS Not enough good replicas to write.")
	// ErrReadOnlyReplica: the server is a replica and replica-read-only is yes.
	ErrReadOnlyReplica = Error("READONLY You can't write against a read only replica.")
	ErrCrossSlot       = Error("CROSSSLOT Keys in request don't hash to the same slot")
	ErrScriptCrossSlot = Error("ERR Script attempted to access keys that do not hash to the same slot")
	ErrMasterDown      = Error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
	ErrNotAuth         = Error("NOAUTH Authentication required.")
	ErrLoading         = Error("LOADING Redis is loading the dataset in memory")
)

// Errors of strings and bitmaps.
const (
	ErrDecrOverflow = Error("ERR decrement would overflow")
	ErrLCSType      = Error("ERR The specified keys must contain string values")
	ErrLCSBoth      = Error("ERR If you want both the length and indexes, please just use IDX.")
	ErrLCSTooLong   = Error("ERR String too long for LCS")
	ErrLCSMemory    = Error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
	ErrBitOffset    = Error("ERR bit offset is not an integer or out of range")
	ErrBitValue     = Error("ERR bit is not an integer or out of range")
	ErrBitArgument  = Error("ERR The bit argument must be 1 or 0.")
	ErrBitopNot     = Error("ERR BITOP NOT must be called with a single source key.")
	ErrFieldType    = Error("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
	ErrFieldRO      = Error("ERR BITFIELD_RO only supports the GET subcommand")
	ErrOverflowType = Error("ERR Invalid OVERFLOW type specified")
)

// BitopSourcesError is the answer to an operation that needs two sources.
func BitopSourcesError(op string) error {
	return Error(fmt.Sprintf("ERR BITOP %s must be called with at least two source keys.", op))
}

// ArityError is the answer to a wrong number of arguments.
func ArityError(name string) error {
	return Error(fmt.Sprintf("ERR wrong number of arguments for '%s' command", name))
}

// ExpireError is the answer to an expiry that cannot be.
func ExpireError(name string) error {
	return Error(fmt.Sprintf("ERR invalid expire time in '%s' command", name))
}

// rangeError is the answer to an integer outside of what is allowed.
func rangeError(low, high int64) error {
	return Error(fmt.Sprintf("ERR value is out of range, value must between %d and %d", low, high))
}

// optionError is the answer to an option of EXPIRE that does not exist.
func optionError(option []byte) error {
	return Error(fmt.Sprintf("ERR Unsupported option %s", option))
}

// Text is the text that a client gets for an error.
func Text(err error) string {
	var e Error
	switch {
	case errors.As(err, &e):
		return string(e)
	case errors.Is(err, types.ErrWrongType):
		return string(ErrWrongType)
	case errors.Is(err, types.ErrNotInteger):
		return string(ErrNotInteger)
	case errors.Is(err, types.ErrNotFloat):
		return string(ErrNotFloat)
	case errors.Is(err, types.ErrOverflow):
		return string(ErrOverflow)
	case errors.Is(err, types.ErrNaN):
		return string(ErrNaN)
	case errors.Is(err, types.ErrTooLong):
		return string(ErrTooLong)
	case errors.Is(err, engine.ErrReadOnly):
		return "MISCONF " + err.Error()
	case errors.Is(err, engine.ErrFull):
		return string(ErrOutOfMemory)
	case engine.Transient(err), errors.Is(err, engine.ErrConflict), errors.Is(err, engine.ErrSnapshotLost):
		return "TRYAGAIN " + err.Error()
	case errors.Is(err, engine.ErrUnknownOutcome):
		return "UNKNOWN the write may have been applied; read before you retry: " + err.Error()
	}
	if text := channelText(err); text != "" {
		return text
	}
	return "ERR " + err.Error()
}
