package state

import (
	"encoding/hex"
	"os"
	"strings"
)

// Boot returns the ID of this boot of the machine; zeros if the system does not
// tell, which equals no other boot.
func Boot() (id ID) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ID{}
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(b) != len(id) {
		return ID{}
	}
	return ID(b)
}
