package script

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/internal/race"
	"redoubt/internal/testserver"
)

var (
	only   = flag.String("script", "", "run only the scripts of this group/command; wildcards allowed")
	record = flag.Bool("record", false, "rewrite expectations from a real Redis")
	redis  = flag.String("redis", "", "address of the real Redis to record from; it is flushed. Without it one is started")
)

// scripts are the names of the scripts to run, and all of them by name.
func scripts(t *testing.T) ([]string, map[string]string) {
	t.Helper()
	paths, err := Find("testdata", *only)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 && *only != "" {
		t.Fatalf("no script matches %q", *only)
	}
	return slices.Sorted(maps.Keys(paths)), paths
}

func load(t *testing.T, name, path string) *File {
	t.Helper()
	f, err := ParseFile(name, path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// realRedis is a target at a real Redis of the test's own, or at -redis.
func realRedis(t *testing.T, proto int) *Target {
	t.Helper()
	target := &Target{Addr: *redis, Proto: proto, Cases: []string{"redis", protoCase(proto), "plain"}, Now: time.Now, Advance: time.Sleep}
	if *redis == "" {
		r := testserver.StartRedis(t)
		target.Addr, target.Version = r.Addr, r.Version
		return target
	}
	v, err := testserver.RedisVersion(*redis, "")
	if err != nil {
		t.Fatal(err)
	}
	target.Version = v
	return target
}

func protoCase(proto int) string {
	if proto == 3 {
		return "resp3"
	}
	return "resp2"
}

// TestRecord rewrites expectations when -record is given.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("run with -record to rewrite expectations")
	}
	names, paths := scripts(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rec := &Recorder{Target: func(proto int) (*Target, error) { return realRedis(t, proto), nil }}
			changed, err := rec.Record(load(t, name, paths[name]))
			if err != nil {
				t.Fatal(err)
			}
			if changed {
				t.Logf("%s: expectations rewritten", name)
			}
		})
	}
}

// TestScripts runs the scripts on every engine and in both protocol versions: in memory
// each in both, elsewhere half of them in one and half in the other, since no engine
// knows what protocol it is.
func TestScripts(t *testing.T) {
	names, paths := scripts(t)
	for _, name := range names {
		f := load(t, name, paths[name])
		for _, o := range []testserver.Options{{Engine: "mem"}, {Engine: "memory"}, {Engine: "local"}, {Engine: "tight"}, {Engine: "cold"}, {Engine: "contended"}, {Engine: "mem", Pipes: true}} {
			for _, proto := range []int{2, 3} {
				half := proto == 2+len(name)%2
				// The race detector takes its time: those that share most.
				if race.Enabled && (!half || o.Engine != "cold" && o.Engine != "contended" && !o.Pipes) || !half && o.Engine != "mem" {
					continue
				}
				label := name + "/" + o.Engine + "-" + protoCase(proto)
				if o.Pipes {
					label += "-pipes"
				}
				t.Run(label, func(t *testing.T) {
					t.Parallel()
					if err := f.Run(redoubt(t, o, proto)); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// TestWrapped runs the scripts about data inside MULTI and EXEC, and from a script.
func TestWrapped(t *testing.T) {
	names, paths := scripts(t)
	for _, name := range names {
		switch group, _, _ := strings.Cut(name, "/"); group {
		case "connection", "server", "transactions", "scripting", "pubsub", "cluster":
			continue
		}
		f := load(t, name, paths[name])
		for _, how := range []string{"multi", "eval"} {
			for _, engine := range []string{"mem", "cold", "contended"} {
				if race.Enabled && (engine == "mem" || (engine == "cold") != (how == "multi")) {
					continue // the others go the same ways, and more
				}
				t.Run(how+"-"+engine+"/"+name, func(t *testing.T) {
					t.Parallel()
					target := redoubt(t, testserver.Options{Engine: engine}, 2)
					target.Cases[len(target.Cases)-1] = how
					if err := f.Run(target); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// redoubt is a target at a fresh Redoubt.
func redoubt(t *testing.T, o testserver.Options, proto int) *Target {
	t.Helper()
	clock := testserver.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	o.Clock = clock
	o.Args = append(o.Args, "--enable-debug-command", "yes") // as StartRedis does
	engine := strings.Replace(o.Engine, "tight", "local", 1) // the same one, with little memory
	return &Target{
		Addr: testserver.Start(t, o).Addr, Proto: proto, Cases: []string{"redoubt", engine, protoCase(proto), "plain"},
		Now: clock.Now, Advance: clock.Advance,
	}
}

// TestOracle runs the scripts against a real Redis.
func TestOracle(t *testing.T) {
	testserver.Oracle(t)
	names, paths := scripts(t)
	for _, name := range names {
		f := load(t, name, paths[name])
		for _, proto := range []int{2, 3} {
			t.Run(name+"/"+protoCase(proto), func(t *testing.T) {
				t.Parallel()
				if err := f.Run(realRedis(t, proto)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
