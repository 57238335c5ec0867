// Package lint holds the rules of the house that a compiler does not check: who may
// import whom, that handlers are deterministic, that each package is documented, and
// that texts and comments name only files that are there.
package lint

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the top of the module.
const root = "../.."

// layers are the packages in the order in which a command passes them. A
// package may import only what stands below it.
var layers = []struct {
	dir   string
	below []string // prefixes of what it may import, within the module
}{
	{"cmd/redoubt", []string{"budget", "client", "comparer", "config", "copier", "doctor", "engine", "exporter", "fleet", "histogram", "importer", "journal", "keyspace", "loader", "replica", "script", "server", "top", "types", "version"}},
	{"server/access", []string{"acl", "command", "config", "number", "server/admin", "wire"}},
	{"server/admin", []string{"acl", "command", "config", "number", "script", "wire"}},
	{"server/checkpoint", []string{"command", "config", "server/admin"}},
	{"server/cluster", []string{"command", "config", "fleet", "keyspace", "number", "server/admin", "wire"}},
	{"server/debug", []string{"command", "config", "engine", "glob", "keyspace", "number", "server/admin", "server/observe", "types"}},
	{"server/history", []string{"command", "server/info", "server/observe"}},
	{"server/info", []string{"budget", "command", "config", "engine", "keyspace", "number", "script", "server/admin", "server/checkpoint", "server/observe", "version"}},
	{"server/metrics", []string{"command", "server/info", "server/observe", "version"}},
	{"server/migrate", []string{"command", "keyspace", "number", "server/admin"}},
	{"server/observe", []string{"command", "config", "number", "server/admin", "wire"}},
	{"server/output", []string{"budget", "engine", "wire"}},
	{"server/peers", []string{"bus", "config", "engine", "executor", "fleet", "keyspace", "server/admin", "server/cluster", "server/pubsub", "server/tracking", "version"}},
	{"server/pubsub", []string{"command", "engine", "glob", "keyspace", "server/admin", "server/output"}},
	{"server/replication", []string{"command", "config", "engine", "executor", "exporter", "feed", "importer", "keyspace", "number", "script", "server/admin", "upstream", "version", "wire"}},
	{"server/tracking", []string{"budget", "command", "engine", "keyspace", "number", "server/admin", "server/output", "wire"}},
	{"server/web", []string{"budget", "command", "config", "engine", "executor", "gateway", "keyspace", "server/info", "types/channel", "wire"}},
	{"server", []string{"acl", "budget", "bus", "command", "config", "console", "engine", "executor", "feed", "fleet", "gateway", "glob", "keyspace", "number", "replica", "script", "types", "version", "wire"}},
	{"console", nil},
	{"gateway", []string{"gateway"}},
	{"acl", []string{"command", "glob", "wire"}},
	{"bus", []string{"keyspace"}},
	{"script", []string{"budget", "command", "glob", "keyspace", "lua", "number", "rdb", "wire"}},
	{"executor", []string{"budget", "command", "engine", "feed", "keyspace", "wire"}},
	{"command", []string{"budget", "engine", "glob", "keyspace", "number", "rdb", "types", "wire"}},
	{"types", []string{"budget", "engine", "keyspace", "number", "types"}},
	{"fleet", []string{"engine", "keyspace"}},
	{"exporter", []string{"command", "engine", "keyspace", "rdb"}},
	{"importer", []string{"command", "engine", "keyspace", "number", "rdb", "script", "types", "wire"}},
	{"comparer", []string{"client"}},
	{"doctor", []string{"client", "config", "histogram"}},
	{"loader", []string{"client", "histogram"}},
	{"top", nil},
	{"client", nil},
	{"histogram", nil},
	{"copier", []string{"engine", "keyspace"}},
	{"keyspace", []string{"budget", "engine", "feed"}},
	{"feed", []string{"budget", "engine"}},
	{"engine", []string{"engine", "internal", "journal"}},
	{"replica/member", []string{"bus", "engine", "journal", "replica"}},
	{"replica", []string{"journal"}},
	{"journal", nil},
	{"config", []string{"glob", "number", "wire"}},
	{"upstream", []string{"number", "wire"}},
	{"rdb", []string{"number"}},
	{"lua", []string{"lua"}},
	{"wire", []string{"number"}},
	{"budget", nil},
	{"glob", nil},
	{"number", nil},
	{"version", nil},
}

// vendors are libraries that may appear in one folder only.
var vendors = map[string]string{
	"github.com/cockroachdb/pebble": "engine/local",
	"github.com/tidwall/btree":      "engine/mem",
	"github.com/prometheus":         "server/metrics",
	"github.com/golang-jwt":         "gateway/policy",
	"go.yaml.in/yaml":               "gateway/rules",
	"github.com/apache":             "engine/cql",
	"github.com/tikv":               "engine/tikv",
	"github.com/pingcap":            "engine/tikv",
	"go.etcd.io/etcd":               "engine/tikv",
	"go.etcd.io/raft":               "replica",
	"go.uber.org/zap":               "engine/tikv",
	"google.golang.org/grpc":        "engine/tikv",
}

// engines are concrete engines: only the program itself and tests choose one.
var engines = []string{"redoubt/engine/cql", "redoubt/engine/local", "redoubt/engine/mem", "redoubt/engine/memory", "redoubt/engine/tikv"}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	eachFile(t, func(path string, _ []byte, imports []string) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "commandtest") {
			return
		}
		for _, l := range layers {
			if path != l.dir && !strings.HasPrefix(path, l.dir+"/") {
				continue
			}
			for _, imp := range imports {
				if rest, ours := strings.CutPrefix(imp, "redoubt/"); ours && !allowed(rest, l.below) && !within(l.dir, rest) {
					t.Errorf("%s imports %s: %s may import only %v", path, imp, l.dir, l.below)
				}
			}
			break
		}
		for _, imp := range imports {
			for lib, home := range vendors {
				if strings.HasPrefix(imp, lib) && !strings.HasPrefix(path, home+"/") && !strings.Contains(path, "test") {
					t.Errorf("%s imports %s, which belongs to %s alone", path, imp, home)
				}
			}
			for _, e := range engines {
				if imp == e && !strings.HasPrefix(path, "cmd/") && !strings.Contains(path, "test") && !strings.HasPrefix(path, "internal/sharedmem/") {
					t.Errorf("%s imports the concrete engine %s", path, imp)
				}
			}
		}
	})
}

func allowed(imp string, below []string) bool {
	for _, b := range below {
		if imp == b || strings.HasPrefix(imp, b+"/") {
			return true
		}
	}
	return false
}

// within says whether a package belongs to the same layer, but lies deeper.
func within(dir, imp string) bool { return strings.HasPrefix(imp, dir+"/") }

// A handler is a function of its inputs: no clock, no global randomness, no
// goroutine, no socket.
var impure = regexp.MustCompile(`\btime\.(Now|Since|Until|After|Sleep|NewTimer|NewTicker)\b|\brand\.(Int|IntN|Uint|Float|Perm|Shuffle|Read)\w*\(|\brand\.N\(|^\s*go (func|\w)|\bnet\.`)

func TestHandlersAreDeterministic(t *testing.T) {
	t.Parallel()
	eachFile(t, func(path string, text []byte, _ []string) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "commandtest") {
			return
		}
		dir := strings.SplitN(path, "/", 2)[0]
		if dir != "command" && dir != "types" && dir != "keyspace" || path == "keyspace/catalog.go" { // its leases are the process's
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			if code, _, _ := strings.Cut(line, "//"); impure.MatchString(code) {
				t.Errorf("%s:%d: %s", path, i+1, strings.TrimSpace(line))
			}
		}
	})
}

func eachFile(t *testing.T, visit func(path string, text []byte, imports []string)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range f.Imports {
			imports = append(imports, strings.Trim(i.Path.Value, `"`))
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		n++
		visit(filepath.ToSlash(rel), text, imports)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 20 {
		t.Fatalf("only %d files were looked at", n)
	}
}
