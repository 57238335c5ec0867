// Command fuzz runs every fuzz target of the module for a while:
//
//	go run ./test/fuzz -time 30s [-run regexp] [-parallel n]
//
// Targets are found by the text of the test files, so that a new one needs no
// entry anywhere. All of them are run, also after a failure; go test leaves an
// input that fails below the package's testdata/fuzz. The last line is
// "N passed, N failed".
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	each := flag.String("time", "30s", "how long each target is fuzzed, or with an x behind it how often")
	chosen := flag.String("run", "", "regular expression of the targets, as ./package.FuzzName")
	parallel := flag.Int("parallel", 2, "how many processes fuzz one target")
	flag.Parse()
	failed, err := run(*each, *chosen, *parallel)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

func run(each, chosen string, parallel int) (failed int, err error) {
	wanted, err := regexp.Compile(chosen)
	if err != nil {
		return 0, err
	}
	targets, err := find(".")
	if err != nil {
		return 0, err
	}
	passed := 0
	for _, t := range targets {
		if !wanted.MatchString(t.dir + "." + t.name) {
			continue
		}
		begin := time.Now()
		out, err := fuzz(t, each, parallel)
		if err != nil {
			failed++
			fmt.Printf("%sFAIL %s %s: %v\n", out, t.dir, t.name, err)
			continue
		}
		passed++
		fmt.Printf("ok   %s %s %.1fs\n", t.dir, t.name, time.Since(begin).Seconds())
	}
	if passed+failed == 0 {
		return 0, fmt.Errorf("no target matches %q: run it at the top of the module", chosen)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return failed, nil
}

// target is a fuzz target and the directory of its package.
type target struct{ dir, name string }

var declared = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// find returns the targets below root, without those of nested modules.
func find(root string) ([]target, error) {
	var targets []target
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root:
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				targets = append(targets, target{"./" + filepath.ToSlash(dir), string(m[1])})
			}
		}
		return nil
	})
	return targets, err
}

// fuzz runs one target.
func fuzz(t target, each string, parallel int) (out []byte, err error) {
	cmd := exec.Command("go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+each, "-fuzzminimizetime=100x", "-parallel="+strconv.Itoa(parallel), t.dir)
	out, err = cmd.CombinedOutput()
	switch {
	case err != nil && onlyLate(out):
		return out, nil
	case err == nil && !bytes.Contains(out, []byte("fuzz: elapsed")):
		return out, fmt.Errorf("it did not run")
	}
	return out, err
}

var late = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \([\d.]+s\)\n\s+context deadline exceeded\n`)

// onlyLate reports that a target failed for no other reason than that its time was
// over while a worker was busy, which go test calls a failure (golang/go#75804, mended in
// Go 1.27).
// An input that fails is always written, and said to be.
func onlyLate(out []byte) bool {
	return late.Match(out) && !bytes.Contains(out, []byte("Failing input written")) && bytes.Count(out, []byte("--- FAIL")) == 1
}
