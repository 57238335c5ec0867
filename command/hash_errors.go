package command

import "fmt"

// Errors of hashes.
const (
	ErrHashNotInteger  = Error("ERR hash value is not an integer")
	ErrHashNotFloat    = Error("ERR hash value is not a float")
	ErrIncrementNaN    = Error("ERR value is NaN or Infinity")
	ErrHashCount       = Error("ERR value is out of range")
	ErrFieldTime       = Error("ERR invalid expire time, must be >= 0")
	ErrNoFields        = Error("ERR Mandatory argument FIELDS is missing or not at the right position")
	ErrNumFields       = Error("ERR Number of fields must be a positive integer")
	ErrNumFieldsExpire = Error("ERR Parameter `numFields` should be greater than 0")
	ErrNumFieldsSet    = Error("ERR invalid number of fields")
	ErrNumFieldsMatch  = Error("ERR The `numfields` parameter must match the number of arguments")
	ErrNoExpireTime    = Error("ERR missing expire time")
	ErrHsetexCondition = Error("ERR Only one of FXX or FNX arguments can be specified")
	ErrHsetexExpiry    = Error("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified")
)

// unknownArgument is the answer to an option of HSETEX that does not exist.
func unknownArgument(arg []byte) error { return Error(fmt.Sprintf("ERR unknown argument: %s", arg)) }
