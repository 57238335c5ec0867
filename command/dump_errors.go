package command

import (
	"errors"

	"redoubt/rdb"
)

// Errors of DUMP and RESTORE.
const (
	ErrBusyKey      = Error("BUSYKEY Target key name already exists.")
	ErrRestoreTTL   = Error("ERR Invalid TTL value, must be >= 0")
	ErrRestoreIdle  = Error("ERR Invalid IDLETIME value, must be >= 0")
	ErrRestoreFreq  = Error("ERR Invalid FREQ value, must be >= 0 and <= 255")
	ErrDumpChecksum = Error("ERR DUMP payload version or checksum are wrong")
	ErrDumpFormat   = Error("ERR Bad data format")
)

// payloadError returns the error for a payload that cannot be restored.
func payloadError(err error) error {
	switch {
	case errors.Is(err, rdb.ErrPayload):
		return ErrDumpChecksum
	case errors.Is(err, rdb.ErrFormat):
		return ErrDumpFormat
	}
	return err
}
