package main

import (
	"runtime/debug"
	"testing"
)

// Each module of a program is listed, and one that is replaced as what replaces it.
func TestList(t *testing.T) {
	t.Parallel()
	d := list(&debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Path: "redoubt", Version: "v1"}, Deps: []*debug.Module{
		{Path: "example.org/a", Version: "v1.2.3"},
		{Path: "example.org/b", Version: "v1", Replace: &debug.Module{Path: "example.org/c", Version: "v2"}},
	}})
	want := []string{"pkg:golang/stdlib@go1.26", "pkg:golang/example.org/a@v1.2.3", "pkg:golang/example.org/c@v2"}
	if d.Metadata.Component.PURL != "pkg:golang/redoubt@v1" || len(d.Components) != len(want) {
		t.Fatalf("%+v", d)
	}
	for i, c := range d.Components {
		if c.PURL != want[i] {
			t.Errorf("%s, not %s", c.PURL, want[i])
		}
	}
}
