package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"redoubt/internal/rss"
	"redoubt/internal/testserver"
)

// form is how much is done: short, full, or nothing at all if it is empty.
var form = os.Getenv("HOSTILE")

func TestMain(m *testing.M) {
	if !slices.Contains([]string{"", "short", "full"}, form) {
		fmt.Fprintf(os.Stderr, "HOSTILE is %q; it may be short or full\n", form)
		os.Exit(2)
	}
	code := m.Run()
	printTable()
	printDisks()
	if form != "" && os.Getenv("HOSTILE_BINARY") == "" {
		if path, err := built(); err == nil {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	os.Exit(code)
}

// built is the program that is measured.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("HOSTILE_BINARY"); path != "" {
		return path, nil
	}
	return testserver.Build()
})

// program returns the program that is measured. It skips the test if nothing is to be
// measured: the scenarios take minutes.
func program(t *testing.T) string {
	t.Helper()
	if form == "" {
		t.Skip("takes minutes: set HOSTILE=short or HOSTILE=full (make hostile)")
	}
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pick is a count, by how much is done.
func pick(full, short int) int {
	if form == "short" {
		return short
	}
	return full
}

// pickTime is pick of a time.
func pickTime(full, short time.Duration) time.Duration {
	if form == "short" {
		return short
	}
	return full
}

// result is a line of the table.
type result struct {
	name, figure, bound, after, newcomers, verdict, detail string
}

// What becomes of a scenario.
const (
	passed = "pass"
	failed = "FAIL"
	notRun = "not run"
)

var results struct {
	mu  sync.Mutex
	all []result
}

// report adds a line to the table.
func report(r result) {
	results.mu.Lock()
	defer results.mu.Unlock()
	results.all = append(results.all, r)
}

func printTable() {
	results.mu.Lock()
	defer results.mu.Unlock()
	if len(results.all) == 0 {
		return
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', tabwriter.Debug)
	fmt.Fprintln(w, "\nscenario\tmeasured\tbound\tgiven back\tnewcomers\tresult\twhat the clients got")
	for _, r := range results.all {
		fmt.Fprintln(w, strings.Join([]string{r.name, r.figure, r.bound, r.after, r.newcomers, r.verdict, r.detail}, "\t"))
	}
	w.Flush()
}

// mb writes bytes for a reader.
func mb(n int64) string { return fmt.Sprintf("%d MB", (n+1<<19)>>20) }

// scenario is one thing that clients may do to a server.
type scenario struct {
	name   string
	memory int64    // maxmemory; 256 MB if 0
	args   []string // of the server
	full   bool     // it has no short form
	run    func(s *site) (got string)
}

// TestHostile runs all scenarios, one after the other.
func TestHostile(t *testing.T) {
	for _, sc := range slices.Concat(clientScenarios, workScenarios, loadScenarios) {
		if sc.full && form != "full" {
			if form == "short" {
				report(result{name: sc.name, verdict: notRun, detail: "it has no short form"})
			}
			t.Run(sc.name, func(t *testing.T) { t.Skip("has no short form: set HOSTILE=full (make hostile)") })
			continue
		}
		t.Run(sc.name, func(t *testing.T) { sc.measure(t) })
	}
}

func (sc scenario) measure(t *testing.T) {
	if sc.memory == 0 {
		sc.memory = 256 << 20
	}
	s := &site{T: t, scenario: sc, program: program(t), dir: t.TempDir()}
	bound := rss.Bound(sc.memory)
	r := result{name: sc.name, bound: mb(bound), verdict: failed, detail: "it ended early"}
	defer func() { report(r) }()
	s.start()
	begin := time.Now()
	stop := s.receive()
	got := sc.run(s)
	stop()
	s.note()
	s.hangUp()
	took := time.Since(begin).Round(100 * time.Millisecond)
	after := s.settle()
	if s.peak > bound {
		t.Errorf("the process took %s at its peak, its bound is %s", mb(s.peak), mb(bound))
	}
	r.figure, r.after, r.newcomers, r.detail = mb(s.peak), mb(after), s.newcomers.String(), fmt.Sprintf("%s; %s", got, took)
	if !t.Failed() {
		r.verdict = passed
	}
}
