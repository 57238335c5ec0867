package script

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// withoutScript are commands that have no script for now, or cannot have one.
var withoutScript = []string{}

// TestEveryCommandHasScript asks the server for its commands. The script of a
// command is testdata/<group>/<command>.txt; that of a subcommand is
// testdata/<group>/<command>_<subcommand>.txt, or its container's.
func TestEveryCommandHasScript(t *testing.T) {
	t.Parallel()
	c, err := respclient.DialProto(testserver.Start(t, testserver.Options{}).Addr, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	docs, err := c.Do("COMMAND", "DOCS")
	if err != nil || docs.Kind != respclient.Map {
		t.Fatalf("COMMAND DOCS: %s, %v", docs, err)
	}
	for i := 0; i < len(docs.Elems); i += 2 {
		name, doc := docs.Elems[i].Str, docs.Elems[i+1]
		group := field(doc, "group").Str
		if has(group, name) {
			continue
		}
		missing := []string{name}
		if subs := field(doc, "subcommands"); len(subs.Elems) > 0 {
			missing = nil
			for j := 0; j < len(subs.Elems); j += 2 {
				if sub := subs.Elems[j].Str; !has(group, strings.ReplaceAll(sub, "|", "_")) {
					missing = append(missing, sub)
				}
			}
		}
		for _, m := range missing {
			if !slices.Contains(withoutScript, m) {
				t.Errorf("%s has no script in testdata/%s", m, group)
			}
		}
	}
}

func has(group, name string) bool {
	_, err := os.Stat(filepath.Join("testdata", group, strings.ToLower(name)+".txt"))
	return err == nil
}

// field finds a value in a map.
func field(m respclient.Value, name string) respclient.Value {
	for i := 0; i+1 < len(m.Elems); i += 2 {
		if m.Elems[i].Str == name {
			return m.Elems[i+1]
		}
	}
	return respclient.Value{}
}
