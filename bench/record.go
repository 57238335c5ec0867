//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// result is one run of a case on one server.
type result [figures]float64

// The figures of a result.
const (
	rps    = iota // requests a second
	p50           // milliseconds, as the others
	p99           //
	p999          //
	most          // the longest of all
	cpu           // microseconds of the server per request
	helper        // microseconds of the load generator per request
	figures
)

// median takes every figure by itself. Of the longest times it takes the
// longest.
func median(rs []result) (m result) {
	for f := range m {
		var v []float64
		for _, r := range rs {
			v = append(v, r[f])
		}
		slices.Sort(v)
		m[f] = (v[(len(v)-1)/2] + v[len(v)/2]) / 2
		if f == most {
			m[f] = v[len(v)-1]
		}
	}
	return m
}

// document is the record of a suite, printed while it grows.
type document struct{ text strings.Builder }

func (d *document) printf(format string, a ...any) {
	fmt.Printf(format, a...)
	fmt.Fprintf(&d.text, format, a...)
}

// heading says what was compared; load says how.
func (d *document) heading(s pair, load string) {
	version, _ := exec.Command(*redis, "--version").Output()
	d.printf("# %s, %s\n\n", *suiteName, time.Now().UTC().Format("2006-01-02 15:04"))
	d.printf("- Redoubt at %s, %s, %d processors: `redoubt %s`\n", commit(), runtime.Version(), runtime.NumCPU(), shown(s.ours.args))
	d.printf("- %s: `redis-server %s`\n", strings.TrimSpace(string(version)), shown(s.theirs.args))
	d.printf("- beside it: a load average of %s over the minute before the start\n", busy)
	d.printf("- %s\n", load)
}

// busy is what else this machine had to do.
var busy = func() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return one
}()

// explained is what all comparisons have in common.
func explained() string {
	return fmt.Sprintf("%d rounds in turns, the waiting server stopped (SIGSTOP) so that work behind the scenes is its own, medians; "+
		"cpu is user + system microseconds of the server process per request; ratio is Redoubt's throughput to Redis's, and Redis's cpu to Redoubt's.", *rounds)
}

// shown is arguments as one would type them.
func shown(args []string) string {
	var text []string
	for _, a := range args {
		if a == "" {
			a = `""`
		}
		text = append(text, a)
	}
	return strings.Join(text, " ")
}

// commit is what was built here.
func commit() string {
	if *redoubt != "" {
		text, err := exec.Command(*redoubt, "version").Output()
		if err != nil {
			return "an unknown commit (a given binary)"
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return line
	}
	name, _ := exec.Command("git", "describe", "--always", "--dirty").Output()
	return strings.TrimSpace(string(name))
}

// header begins a table of cases.
func (d *document) header(tails bool) {
	times := "p50 / p99"
	if tails {
		times = "p50 / p99 / p99.9 / max"
	}
	d.printf("\n| case | redoubt rps | redis rps | ratio | redoubt %[1]s ms | redis %[1]s ms | redoubt cpu | redis cpu | cpu ratio |\n|---|---|---|---|---|---|---|---|---|\n", times)
}

// line is one case of that table.
func (d *document) line(name string, x, y result, tails bool) {
	times := func(r result) string {
		text := fmt.Sprintf("%.2f / %.2f", r[p50], r[p99])
		if tails {
			text += fmt.Sprintf(" / %.2f / %.1f", r[p999], r[most])
		}
		return text
	}
	d.printf("| %s | %.0f | %.0f | **%.2f** | %s | %s | %.2f | %.2f | **%.2f** |\n",
		name, x[rps], y[rps], x[rps]/y[rps], times(x), times(y), x[cpu], y[cpu], y[cpu]/x[cpu])
}

// write saves the record under the time and the name of the suite.
func (d *document) write() error {
	if *record == "" {
		return nil
	}
	name := filepath.Join(*record, time.Now().UTC().Format("2006-01-02T1504")+"-"+*suiteName+".md")
	return os.WriteFile(name, []byte(d.text.String()), 0o644)
}

// mb shows bytes in millions.
func mb(n int) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }
