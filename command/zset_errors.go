package command

import "fmt"

// Errors of sorted sets.
const (
	errZConditions = Error("ERR XX and NX options at the same time are not compatible")
	errZComparison = Error("ERR GT, LT, and/or NX options at the same time are not compatible")
	errZIncr       = Error("ERR INCR option supports a single increment-element pair")
	errZNaN        = Error("ERR resulting score is not a number (NaN)")
	errZBound      = Error("ERR min or max is not a float")
	errZLexBound   = Error("ERR min or max not valid string range item")
	errZLimit      = Error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	errZWithScores = Error("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
	errZWeight     = Error("ERR weight value is not a float")
	errZCardLimit  = Error("ERR LIMIT can't be negative")
	errZOutOfRange = Error("ERR value is out of range")
)

// noInputError returns the error for a command without keys.
func noInputError(name string) error {
	return Error(fmt.Sprintf("ERR at least 1 input key is needed for '%s' command", name))
}
