package main

import (
	"slices"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	targets, err := find("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(targets) < 30 || !slices.Contains(targets, target{"./glob", "FuzzMatch"}) {
		t.Fatalf("%d targets: %v", len(targets), targets)
	}
}

func TestOnlyLate(t *testing.T) {
	t.Parallel()
	const head = "fuzz: elapsed: 3s, execs: 11 (4/sec)\n--- FAIL: FuzzReader (3.02s)\n"
	for out, want := range map[string]bool{
		head + "    context deadline exceeded\nFAIL\nexit status 1\n": true,
		head + "    --- FAIL: FuzzReader (0.00s)\n        reader_test.go:9: wrong\n\n    Failing input written to testdata/fuzz/FuzzReader/1\nFAIL\nexit status 1\n": false,
		head + "    fuzzing process hung or terminated unexpectedly: exit status 2\nFAIL\n":                                                                          false,
	} {
		if got := onlyLate([]byte(out)); got != want {
			t.Errorf("%v for\n%s", got, out)
		}
	}
}
