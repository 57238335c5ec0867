package keyspace

import (
	"encoding/json"
	"fmt"
)

// The system rows of processes that share a store: a description of each process, and the
// secret by which they authenticate each other. Package fleet writes and reads them.

// MemberIDSize is the length of the id of a process.
const MemberIDSize = 20

// SecretSize is the length of the secret.
const SecretSize = 32

// MemberRow returns the key of the row of one process.
func MemberRow(id [MemberIDSize]byte) []byte { return append(sysKey(sysMember), id[:]...) }

// MemberRows returns the range of the rows of all processes.
func MemberRows() (lo, hi []byte) { return sysKey(sysMember), sysKey(sysMember + 1) }

// MemberID returns the id in the key of a process's row.
func MemberID(row []byte) (id [MemberIDSize]byte, ok bool) {
	if !isMember(row) {
		return id, false
	}
	copy(id[:], row[2:])
	return id, true
}

// SecretRow returns the key of the row of the secret.
func SecretRow() []byte { return sysKey(sysSecret) }

func isMember(row []byte) bool {
	return len(row) == 2+MemberIDSize && row[0] == system && row[1] == sysMember
}

func isSecret(row []byte) bool { return len(row) == 2 && row[0] == system && row[1] == sysSecret }

// isFleet reports whether a row is that of a process or of the secret.
func isFleet(row []byte) bool { return isMember(row) || isSecret(row) }

// fleetKey and fleetValue describe such a row in words. The secret is not shown.
func fleetKey(row []byte) string {
	if isSecret(row) {
		return "secret of the processes"
	}
	return fmt.Sprintf("process %x", row[2:])
}

func fleetValue(row, value []byte) string {
	if isSecret(row) {
		return fmt.Sprintf("%d bytes", len(value))
	}
	return quote(value)
}

// fleet returns what is wrong with such a row, or "".
func (c *checker) fleet(row, value []byte) string {
	switch {
	case isSecret(row) && len(value) != SecretSize:
		return fmt.Sprintf("it has %d bytes, not %d", len(value), SecretSize)
	case isMember(row) && (len(value) == 0 || value[0] != '{' || !json.Valid(value)):
		return "it does not say what process that is: " + quote(value)
	}
	return ""
}
