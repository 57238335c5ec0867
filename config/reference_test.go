package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// referenceFile is made from the directives: REDOUBT_WRITE_DOCS=1 go test -run TestReference ./config
const referenceFile = "../docs/directives.md"

// reference is docs/directives.md.
func reference() string {
	var b strings.Builder
	b.WriteString("# Directives\n\nMade from package config; a test keeps it current. \"at start\" means that only the configuration file and the command line set the directive, \"own\" that Redis lacks it or has it otherwise.\n\n" +
		"| directive | form | default | | meaning |\n|---|---|---|---|---|\n")
	var idle []string
	escape := strings.NewReplacer("|", `\|`, "\n", " ")
	for _, d := range New().Directives() {
		if d.Flags&Hidden != 0 {
			continue
		}
		if d.NoEffect() {
			idle = append(idle, "`"+d.Name+"`")
			continue
		}
		form, def := d.Kind.String(), "`"+escape.Replace(d.Default)+"`"
		if values := d.Values(); len(values) > 0 {
			form += ": " + strings.Join(values, ", ")
		}
		switch {
		case d.Name == "maxmemory":
			def = "half of the memory"
		case d.Name == "dir":
			def = "`./redoubt-data`"
		case d.Default == "":
			def = ""
		}
		var marks []string
		if d.Flags&Own != 0 {
			marks = append(marks, "own")
		}
		if d.Flags&Immutable != 0 {
			marks = append(marks, "at start")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, form, def, strings.Join(marks, ", "), escape.Replace(d.Meaning()))
	}
	fmt.Fprintf(&b, "\n## Without effect\n\nAccepted, checked and kept, so that files and tools of Redis work: %s.\n", strings.Join(idle, ", "))
	return b.String()
}

// The reference is current.
func TestReference(t *testing.T) {
	t.Parallel()
	want := reference()
	if os.Getenv("REDOUBT_WRITE_DOCS") != "" {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(referenceFile)
	if err != nil || string(have) != want {
		t.Errorf("docs/directives.md is not what the directives are (%v): REDOUBT_WRITE_DOCS=1 go test -run TestReference ./config", err)
	}
}
