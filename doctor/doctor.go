// Package doctor looks at what a server depends on: its configuration, the limits of the
// system, disk, clock, the directory of its store, addresses and passwords, and the server
// itself if one answers. Each finding says what was seen, why it matters, and what to do.
//
// The package promises: it changes nothing, but for a file that it writes and removes to
// measure fsync; no password is in a finding; what cannot be found out on a system is said to
// be unknown, not to be in order.
package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"redoubt/client"
	"redoubt/config"
)

// Grade is how bad a finding is.
type Grade int

const (
	OK      Grade = iota
	Unknown       // it cannot be found out here
	Advice        // worth a thought
	Warning       // it will hurt in some case
	Fault         // the server cannot start, or does not serve as it should
)

func (g Grade) String() string {
	return [...]string{"ok", "unknown", "advice", "warning", "fault"}[g]
}

// Finding is something that was seen.
type Finding struct {
	Area  string
	Grade Grade
	What  string
	Why   string // of those that are not in order
	Do    string
}

// Volume is a file system.
type Volume struct {
	Kind        string // "" if it has no name here
	Free, Total uint64
}

// Machine is what is looked at besides the configuration.
type Machine struct {
	Root      fs.FS // of Linux's /proc and /sys
	Now       func() time.Time
	OpenFiles func() (limit uint64, ok bool)
	Volume    func(path string) (Volume, error)
	// Fsync writes and syncs a small file in a directory again and again, for so long.
	Fsync    func(dir string, d time.Duration) (p50, p99, most time.Duration, err error)
	FsyncFor time.Duration
	// ClockSynced reports whether the system keeps its clock by others.
	ClockSynced func() (synced, ok bool)
	User        int // who looks: the owner of files that it makes
	// Owner is who has a file.
	Owner func(fs.FileInfo) (user int, ok bool)
	// Store opens a store that is at rest and returns a line about it. locked: a process has
	// it open.
	Store func(dir string) (about string, locked bool, err error)
	// Memory is how much memory this process may take.
	Memory uint64
}

// Patient is what the doctor looks at.
type Patient struct {
	Config *config.Config
	// Mistake is why the configuration could not be read.
	Mistake error
	Server  *client.Server // nil: the one that the configuration describes
	Version string         // of this program
}

// examination collects findings.
type examination struct {
	Machine
	Patient
	cfg    *config.Config
	answer *answer // of the server, nil if there is none
	out    func(Finding)
}

func (e *examination) ok(area, format string, args ...any) {
	e.out(Finding{Area: area, What: fmt.Sprintf(format, args...)})
}

func (e *examination) unknown(area, format string, args ...any) {
	e.out(Finding{Area: area, Grade: Unknown, What: fmt.Sprintf(format, args...)})
}

func (e *examination) add(area string, g Grade, what, why, do string) {
	e.out(Finding{area, g, what, why, do})
}

// Examine looks at everything and reports each finding.
func Examine(ctx context.Context, p Patient, m Machine, report func(Finding)) {
	e := &examination{Machine: m, Patient: p, cfg: p.Config, out: report}
	if p.Mistake != nil {
		e.add("config", Fault, p.Mistake.Error(), "the server does not start with a directive that it cannot read",
			"correct that line; `redoubt --help directives` lists what there is")
		return
	}
	e.answer = e.ask(ctx)
	e.configuration()
	e.certificate()
	e.limits()
	e.memory()
	if !e.onCluster() {
		e.disk()
		e.store()
	}
	e.clock()
	e.access()
	e.running()
}

// onCluster reports whether the data is on other machines.
func (e *examination) onCluster() bool {
	return e.cfg.Enum("engine") == "tikv" || e.cfg.Enum("engine") == "cql"
}
