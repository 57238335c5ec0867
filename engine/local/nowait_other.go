//go:build !linux

package local

import "errors"

func threadID() int32 { return 0 }

func readCached(uintptr, []byte, int64) (int, error) { return 0, errors.ErrUnsupported }

func isAgain(error) bool { return false }

const canReadNoWait = false
