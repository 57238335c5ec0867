package version

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	var b Build
	if got := b.String(); !strings.HasPrefix(got, Redoubt+", go") || b.Short() != "00000000" {
		t.Errorf("%s, %s", got, b.Short())
	}
	b.fill([]debug.BuildSetting{{Key: "vcs.revision", Value: strings.Repeat("0123456789", 4)}, {Key: "vcs.modified", Value: "true"}})
	b.Time = "2026-11-16T12:00:00Z"
	if got := b.String(); !strings.HasPrefix(got, Redoubt+", commit 01234567 with changes, built 2026-11-16T12:00:00Z, go") {
		t.Error(got)
	}
}

// The changelog begins with this version.
func TestChangelog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n## ")
	if !strings.HasPrefix(after, Redoubt+" ") {
		t.Errorf("the changelog begins with %.20q, this is %s", after, Redoubt)
	}
}
