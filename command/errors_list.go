package command

// Errors of lists, and of commands that wait.
const (
	ErrIndex         = Error("ERR index out of range")
	ErrRankZero      = Error("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
	ErrCountSign     = Error("ERR COUNT can't be negative")
	ErrMaxlenSign    = Error("ERR MAXLEN can't be negative")
	ErrNumKeys       = Error("ERR numkeys should be greater than 0")
	ErrCountPositive = Error("ERR count should be greater than 0")
	ErrTimeoutFloat  = Error("ERR timeout is not a float or out of range")
)
