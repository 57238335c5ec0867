package config

import (
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// fallbackMemory is assumed if the machine's memory is not known.
const fallbackMemory = 2 << 30

// MachineMemory is the number of bytes that this process may use at most: the
// machine's memory, or a container's limit when that is less.
func MachineMemory() uint64 { return memoryOf(os.DirFS("/")) }

// memoryOf reads what Linux tells under a root directory.
func memoryOf(root fs.FS) uint64 {
	total := meminfo(root)
	if total == 0 {
		return fallbackMemory
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return total
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path; version 2 has no controllers.
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		switch {
		case part[1] == "":
			total = min(total, groupLimit(root, "sys/fs/cgroup", part[2], "memory.max"))
			total = min(total, groupLimit(root, "sys/fs/cgroup/unified", part[2], "memory.max"))
		case hasWord(part[1], "memory"):
			total = min(total, groupLimit(root, "sys/fs/cgroup/memory", part[2], "memory.limit_in_bytes"))
		}
	}
	return total
}

// groupLimit is the lowest limit of a control group and those around it. Inside
// a container the path may be that of the host, which does not exist here; the
// walk up then ends at the mount, which is the container's own group.
func groupLimit(root fs.FS, mount, group, file string) uint64 {
	limit := uint64(math.MaxUint64)
	for dir := path.Join(mount, path.Clean("/"+group)); ; dir = path.Dir(dir) {
		if b, err := fs.ReadFile(root, path.Join(dir, file)); err == nil {
			// "max" is no limit; so is the huge number of version 1.
			if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
		if len(dir) <= len(mount) {
			return limit
		}
	}
}

func meminfo(root fs.FS) uint64 {
	b, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "MemTotal:" {
			kib, err := strconv.ParseUint(f[1], 10, 54)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// absolute is a path made absolute, or as it is when that fails.
func absolute(p string) string {
	if a, err := filepath.Abs(p); err == nil {
		return a
	}
	return p
}
