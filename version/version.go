// Package version says which build this is: number, commit and time. INFO, the
// banner, the log and `redoubt version` all take it from here, so they agree. The
// number of the version stands here and nowhere else.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Redoubt is Redoubt's own version; Redis is the one whose commands it speaks and
// that it tells to clients who ask.
const (
	Redoubt = "0.2.0"
	Redis   = "7.4.1"
)

// commit and built are set by make build with -ldflags -X. Without them the commit
// is what the go command has noted, and the time of the build is unknown.
var commit, built string

// Build is where a program comes from.
type Build struct {
	Commit string // of git, 40 hexadecimal digits; empty if unknown
	Dirty  bool   // the files were not those of the commit
	Time   string // of the build, RFC 3339; empty if unknown
}

// Current returns the build of this program.
var Current = sync.OnceValue(func() Build {
	b := Build{Commit: strings.TrimSuffix(commit, "-dirty"), Dirty: strings.HasSuffix(commit, "-dirty"), Time: built}
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		b.fill(info.Settings)
	}
	return b
})

// fill takes the commit from what the go command has noted.
func (b *Build) fill(settings []debug.BuildSetting) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
}

// Short returns the first eight digits of the commit, zeros if it is unknown.
func (b Build) Short() string {
	if len(b.Commit) < 8 {
		return "00000000"
	}
	return b.Commit[:8]
}

// String describes the build in a line.
func (b Build) String() string {
	s := Redoubt
	if b.Commit != "" {
		s += ", commit " + b.Short()
		if b.Dirty {
			s += " with changes"
		}
	}
	if b.Time != "" {
		s += ", built " + b.Time
	}
	return s + ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
