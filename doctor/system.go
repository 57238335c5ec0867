package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// besides is how many files and sockets a server has open besides its clients.
const besides = 160

// text reads a line of /proc or /sys.
func (e *examination) text(path string) (string, bool) {
	b, err := fs.ReadFile(e.Root, path)
	return strings.TrimSpace(string(b)), err == nil
}

// limits looks at what the system limits and at its memory settings.
func (e *examination) limits() {
	const area = "limits"
	want := uint64(e.cfg.Int("maxclients")) + besides
	if e.cfg.Str("http-addr") != "" {
		want += uint64(e.cfg.Int("http-max-connections"))
	}
	switch n, ok := e.OpenFiles(); {
	case !ok:
		e.unknown(area, "the limit on open files is not known here")
	case n < want:
		e.add(area, Warning, fmt.Sprintf("the limit on open files is %d; maxclients and http-max-connections need %d", n, want),
			"clients beyond it are refused", fmt.Sprintf("ulimit -n %d before the start, or LimitNOFILE=%d in the unit; or lower maxclients", want, want))
	default:
		e.ok(area, "the limit on open files is %d, %d are needed", n, want)
	}
	if s, ok := e.text("proc/sys/vm/overcommit_memory"); !ok {
		e.unknown(area, "vm.overcommit_memory is not known here")
	} else if s == "2" {
		e.add(area, Warning, "vm.overcommit_memory is 2", "the system refuses memory that is reserved and not used, and the program ends when it gets none", "sysctl vm.overcommit_memory=0")
	} else {
		e.ok(area, "vm.overcommit_memory is %s", s)
	}
	if s, ok := e.text("sys/kernel/mm/transparent_hugepage/enabled"); !ok {
		e.unknown(area, "the setting of transparent huge pages is not known here")
	} else if strings.Contains(s, "[always]") {
		e.add(area, Advice, "transparent huge pages are always used", "memory that is given back in small pieces stays taken, so the process may be larger than maxmemory says, and compacting pages costs time now and then",
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
	} else {
		e.ok(area, "transparent huge pages: %s", s)
	}
	if s, ok := e.text("proc/sys/net/core/somaxconn"); ok {
		if n, err := strconv.Atoi(s); err == nil && n < 512 {
			e.add(area, Advice, fmt.Sprintf("net.core.somaxconn is %d", n), "when many clients connect at once, some are turned away", "sysctl net.core.somaxconn=4096")
		}
	}
}

// memory looks at maxmemory, and at swap.
func (e *examination) memory() {
	const area = "memory"
	budget := uint64(e.cfg.Int("maxmemory"))
	switch {
	case budget == 0:
		e.add(area, Warning, "maxmemory is 0", "nothing bounds the process, and the system ends it when memory is used up", "set maxmemory to half of the memory")
	case budget+budget/4 > e.Memory:
		e.add(area, Warning, fmt.Sprintf("maxmemory is %d MiB, and the process may take 1.25 times that; this machine or container has %d MiB", budget>>20, e.Memory>>20),
			"the system ends the process when memory is used up", fmt.Sprintf("set maxmemory to %dmb or less", e.Memory/2>>20))
	default:
		e.ok(area, "maxmemory is %d MiB of %d MiB", budget>>20, e.Memory>>20)
	}
	swaps, ok := e.text("proc/swaps")
	swappiness, known := e.text("proc/sys/vm/swappiness")
	if !ok || !known {
		e.unknown(area, "whether there is swap is not known here")
	} else if n, err := strconv.Atoi(swappiness); err == nil && n > 10 && strings.Contains(swaps, "\n") {
		e.add(area, Advice, fmt.Sprintf("there is swap, and vm.swappiness is %d", n), "the system may put rows on disk that the server takes to be in memory, and a command waits for them where nobody expects it", "sysctl vm.swappiness=1, or do without swap")
	} else {
		e.ok(area, "swap is off or hardly used")
	}
}

// remote are file systems on which locks and fsync may not mean what they say, fleeting those
// that lose everything with the machine.
var (
	remote   = map[string]bool{"nfs": true, "smb": true, "cifs": true, "fuse": true, "9p": true, "ceph": true}
	fleeting = map[string]bool{"tmpfs": true, "ramfs": true}
)

const (
	slowFsync = 20 * time.Millisecond
	leastFree = 64 << 20 // below this fsync is not measured
)

// existing returns the directory, or the nearest one above that exists.
func existing(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// disk looks at the file system of the data.
func (e *examination) disk() {
	const area = "disk"
	if e.cfg.Enum("engine") == "memory" {
		return
	}
	at := existing(e.cfg.Str("dir"))
	v, err := e.Volume(at)
	if err != nil {
		e.unknown(area, "the file system of %s: %v", at, err)
		return
	}
	switch {
	case remote[v.Kind]:
		e.add(area, Warning, fmt.Sprintf("%s is on %s", at, v.Kind), "over a network locks and fsync may not hold what they promise, and two servers could open one store", "put dir on a local disk")
	case fleeting[v.Kind]:
		e.add(area, Warning, fmt.Sprintf("%s is on %s", at, v.Kind), "it is memory: everything is lost when the machine restarts", "put dir on a disk")
	case v.Kind == "overlay":
		e.add(area, Warning, at+" is on an overlay file system", "it is a container's own layer: everything is lost when the container is removed", "mount a volume at dir")
	case v.Kind != "":
		e.ok(area, "%s is on %s", at, v.Kind)
	}
	warn := uint64(e.cfg.Int("disk-free-warning"))
	if v.Total > 0 && v.Free < v.Total/100*warn {
		e.add(area, Warning, fmt.Sprintf("%d MiB of %d MiB are free", v.Free>>20, v.Total>>20), "writes are refused with MISCONF when the disk is full", "make room, or give the file system more space")
	} else {
		e.ok(area, "%d MiB of %d MiB are free", v.Free>>20, v.Total>>20)
	}
	if v.Free < leastFree {
		e.unknown(area, "how long fsync takes was not measured: the disk is too full")
		return
	}
	p50, p99, most, err := e.Fsync(at, e.FsyncFor)
	took := fmt.Sprintf("fsync takes p50 %s, p99 %s, at most %s", p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond), most.Round(10*time.Microsecond))
	switch {
	case err != nil:
		e.add(area, Fault, fmt.Sprintf("%s cannot be written to: %v", at, err), "the server does not start", "see to the owner and the mode of the directory, and to the mount")
	case p99 > slowFsync && e.cfg.Enum("appendfsync") == "always":
		e.add(area, Warning, took, "with appendfsync always each write waits for it", "take a disk with a protected write cache (a local NVMe, say), or appendfsync everysec")
	case p99 > slowFsync:
		e.add(area, Advice, took, "after a second of writes beyond what the disk takes, writes wait", "take a faster disk if writes are many")
	default:
		e.ok(area, "%s", took)
	}
}

// clock looks at the clock.
func (e *examination) clock() {
	const area = "clock"
	now := e.Now()
	if now.Year() < 2026 {
		e.add(area, Fault, "the clock says "+now.UTC().Format(time.DateOnly), "keys expire by it", "set it")
		return
	}
	if info, err := os.Stat(filepath.Join(e.cfg.Str("dir"), "local", "journal")); err == nil && info.ModTime().After(now.Add(time.Minute)) {
		e.add(area, Warning, "the store was written to at "+info.ModTime().UTC().Format(time.DateTime)+", which is later than now", "the clock was set back, or has been wrong: keys expire too late", "set the clock, and keep it by NTP")
	}
	switch synced, ok := e.ClockSynced(); {
	case !ok:
		e.unknown(area, "whether the clock is kept by NTP is not known here")
	case !synced:
		e.add(area, Advice, "the system does not say that its clock is kept by NTP", "keys expire by the clock of the machine; a replica, or another node, has another one", "run chrony or systemd-timesyncd")
	default:
		e.ok(area, "the clock is kept by NTP")
	}
	if s, ok := e.text("sys/devices/system/clocksource/clocksource0/current_clocksource"); ok && (s == "hpet" || s == "acpi_pm") {
		e.add(area, Advice, "the clock source is "+s, "reading the time is a system call of a microsecond or more, and each command reads it", "use tsc or kvm-clock if the machine has it")
	}
}
