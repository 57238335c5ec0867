package testcluster

import (
	"errors"
	"slices"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	var got []string
	verbs := []Verb{
		{"install", "", func([]string) error { return failed }},
		{"up", "<directory>", func(args []string) error { got = args; return nil }},
	}
	if err := run([]string{"install"}, verbs); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if err := run([]string{"up", "dir"}, verbs); err != nil || !slices.Equal(got, []string{"dir"}) {
		t.Errorf("%v, %q", err, got)
	}
	for _, args := range [][]string{nil, {"up"}, {"install", "dir"}, {"down", "dir"}} {
		if err := run(args, verbs); err == nil || err.Error() != "usage: cluster install | up <directory>" {
			t.Errorf("%q: %v", args, err)
		}
	}
}
