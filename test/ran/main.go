// Command ran runs go test and fails not only when a test fails, but also when a
// test that should have run did not:
//
//	go run ./test/ran -here 'needs a cluster' -never 'no IPv6' -- ./pkg/... -count=1
//
// What stands behind -- goes to go test. Tests may skip themselves only for the
// reasons that two regular expressions match, as "package.Test: reason": -here is
// for tests that another run of the same ledger has to pass, -never for those that
// this machine or this engine cannot run. Any other skipped test counts as failed,
// so that a missing program or variable cannot make a run green; so does a package
// in which no test was chosen.
//
// With -dir DIR go test runs in that directory, for a module of its own.
//
// With -ledger FILE the run adds to the file what passed and what was skipped here.
// After all runs,
//
//	go run ./test/ran -settle FILE
//
// fails if a test that was skipped in one of them passed in none, unless one of them
// has found that it cannot run here.
//
// Output is that of go test: of tests that failed, or with -v of all. The last line
// is "N passed, N failed, N skipped".
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.here, "here", "^$", "regular expression of the tests that another run passes, as \"package.Test: reason\"")
	flag.StringVar(&o.never, "never", "^$", "regular expression of the tests that no run has to pass")
	flag.StringVar(&o.dir, "dir", "", "directory in which go test runs")
	flag.StringVar(&o.ledger, "ledger", "", "file to which passed and skipped tests are added")
	settle := flag.String("settle", "", "ledger to be checked; nothing is run")
	flag.Parse()
	err := error(nil)
	if *settle != "" {
		err = settled(*settle, os.Stdout)
	} else {
		err = run(o, flag.Args(), os.Stdout)
	}
	if err != nil {
		if !errors.Is(err, errWrong) {
			fmt.Fprintln(os.Stderr, "ran:", err)
		}
		os.Exit(1)
	}
}

type options struct{ here, never, dir, ledger string }

func run(o options, args []string, out io.Writer) error {
	here, err := regexp.Compile(o.here)
	if err != nil {
		return err
	}
	never, err := regexp.Compile(o.never)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = o.dir
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := newReport(out, here, never)
	r.verbose = slices.Contains(args, "-v")
	err = errors.Join(r.read(events), cmd.Wait())
	if err != nil && r.failed == 0 {
		r.wrong = append(r.wrong, err.Error())
	}
	if o.ledger != "" {
		if err := r.enter(o.ledger); err != nil {
			return err
		}
	}
	return r.verdict()
}

// event is a line of go test -json; go doc test2json describes it.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// line is a line of output, of a test or of the package itself.
type line struct{ test, text string }

// results is what is known of a package.
type results struct {
	lines           []line
	ended           map[string]string // the last action of each test that has ended
	passed, skipped int
	failed          int
}

// report follows a run.
type report struct {
	out      io.Writer
	verbose  bool
	here     *regexp.Regexp
	never    *regexp.Regexp
	packages map[string]*results
	reasons  map[string]int // how many tests were skipped for each
	ledger   []string
	passed   int
	failed   int
	skipped  int
	wrong    []string // what is wrong besides failed tests
}

func newReport(out io.Writer, here, never *regexp.Regexp) *report {
	return &report{out: out, here: here, never: never, packages: make(map[string]*results), reasons: make(map[string]int)}
}

// place is what go test writes before a message: the file and the line.
var place = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)

func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		text, err := lines.ReadBytes('\n')
		if len(text) > 0 {
			var e event
			if json.Unmarshal(text, &e) != nil {
				fmt.Fprintf(r.out, "%s", text) // go test itself, about its arguments
			} else {
				r.note(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) note(e event) {
	if strings.HasPrefix(e.Action, "build-") {
		fmt.Fprint(r.out, e.Output)
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &results{ended: make(map[string]string)}
		r.packages[e.Package] = p
	}
	switch {
	case e.Action == "output":
		if r.verbose {
			fmt.Fprint(r.out, e.Output)
		}
		p.lines = append(p.lines, line{e.Test, e.Output})
		if e.Test == "" && strings.Contains(e.Output, "no tests to run") {
			r.wrong = append(r.wrong, e.Package+": no test was chosen")
		}
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail"):
		r.endPackage(e, p)
	case e.Action == "pass":
		p.ended[e.Test] = e.Action
		p.passed++
		r.ledger = append(r.ledger, ranMark+e.Package+"."+e.Test)
	case e.Action == "fail":
		p.ended[e.Test] = e.Action
		p.failed++
	case e.Action == "skip" && e.Test != "":
		p.ended[e.Test] = e.Action
		p.skipped++
		r.skip(e, p)
	}
}

// skip notes why a test was skipped.
func (r *report) skip(e event, p *results) {
	reason := "no reason"
	for _, l := range p.lines {
		if l.test == e.Test && place.MatchString(l.text) {
			reason = strings.TrimSpace(place.ReplaceAllString(l.text, ""))
		}
	}
	r.reasons[reason]++
	switch name := e.Package + "." + e.Test; {
	case r.never.MatchString(name + ": " + reason):
		r.ledger = append(r.ledger, neverMark+name)
	case r.here.MatchString(name + ": " + reason):
		r.ledger = append(r.ledger, skipMark+name)
	default:
		r.wrong = append(r.wrong, "skipped: "+name+": "+reason)
	}
}

// endPackage prints a line about a package and, if it failed, the output of all
// that did not end well in it. A package that fails without a failed test did not
// build, or its process ended early: that counts as one failure.
func (r *report) endPackage(e event, p *results) {
	if e.Action == "fail" {
		if p.failed == 0 {
			p.failed = 1
		}
		for _, l := range p.lines {
			if end := p.ended[l.test]; !r.verbose && end != "pass" && end != "skip" && !strings.HasPrefix(l.text, "=== ") {
				fmt.Fprint(r.out, l.text)
			}
		}
	}
	r.passed += p.passed
	r.failed += p.failed
	r.skipped += p.skipped
	p.lines = nil
	fmt.Fprintf(r.out, "%-4s %s %.1fs, %d passed, %d failed, %d skipped\n", map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], e.Package, e.Elapsed, p.passed, p.failed, p.skipped)
}

// errWrong says that the report has told what is wrong.
var errWrong = errors.New("tests failed, or did not run")

// verdict prints what was skipped, what did not run and should have, and how many
// tests passed and failed.
func (r *report) verdict() error {
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		fmt.Fprintf(r.out, "%d skipped: %s\n", r.reasons[reason], reason)
	}
	if r.passed == 0 && len(r.wrong) == 0 && r.failed == 0 {
		r.wrong = append(r.wrong, "no test ran")
	}
	for _, w := range r.wrong {
		fmt.Fprintf(r.out, "FAIL %s\n", w)
	}
	r.failed += len(r.wrong)
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed > 0 {
		return errWrong
	}
	return nil
}
