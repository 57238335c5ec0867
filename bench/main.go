//go:build linux

// Command bench compares Redoubt with redis-server: both run side by side, are
// loaded in turns, and what counts is the ratio of the medians. It prints
// tables and writes a record.
//
//	go run ./bench -suite mem         # no persistence on either side
//	go run ./bench -suite everysec    # Redoubt's engine against Redis's AOF
//	go run ./bench -suite always
//	go run ./bench -suite types       # hashes, lists, sets, sorted sets, streams
//	go run ./bench -suite session     # transactions, scripts, messages
//	go run ./bench -suite channels    # durable channels beside Lua scripts
//	go run ./bench -suite huge        # collections of up to ten million elements
//	go run ./bench -suite large       # more data than Redoubt's memory budget
//	go run ./bench -suite many        # ten million keys in memory
//	go run ./bench -suite sustained   # latency while writing at full speed
//	go run ./bench -suite soak        # Redoubt alone, and whether it grows
//
// -quick is for trying a suite with little data; its figures mean nothing.
//
// It needs Linux: it reads /proc, and the load generator is written on epoll.
// The servers keep their data under $TMPDIR, which should be on a real disk and
// have some gigabytes free.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const suiteNames = "mem, everysec, always, types, session, channels, huge, large, many, sustained, soak"

// A flag that is 0 or empty takes the value of the suite, see suites.
var (
	suiteName = flag.String("suite", "mem", "what to measure: "+suiteNames)
	quick     = flag.Bool("quick", false, "little data and short runs, no record: to try a suite in about a minute")
	rounds    = flag.Int("rounds", 0, "how often each case is run on each server")
	requests  = flag.Int("n", 0, "requests per run at P=1, four times as many at P=16")
	duration  = flag.Duration("t", 0, "how long a run of large, many, sustained or soak lasts")
	clients   = flag.Int("c", 50, "connections")
	size      = flag.Int("d", 128, "bytes of a value")
	keys      = flag.Int("r", 0, "different keys")
	maxmemory = flag.String("maxmemory", "", "Redoubt's memory budget")
	only      = flag.String("only", "", "comma-separated cases to run, such as GET/1,SET/16")
	record    = flag.String("record", "docs/bench", "directory of the record; empty writes none")
	redoubt   = flag.String("redoubt", "", "binary to measure; empty builds ./cmd/redoubt")
	redis     = flag.String("redis", "redis-server", "binary to compare with")
	pgo       = flag.String("pgo", "", "write a profile for the compiler to this file instead")
	args      = flag.String("args", "", "more arguments for Redoubt")
)

// scale is how much a suite does. A zero leaves a figure without a bound or to
// the server.
type scale struct {
	requests, keys, rounds int
	time                   time.Duration
	maxmemory              string
}

// suite is one thing to measure, at its full size and for trying it.
type suite struct {
	full, quick scale
	run         func() error
}

func suites() map[string]suite {
	front := scale{requests: 200_000, keys: 1_000_000, rounds: 4}
	small := scale{requests: 20_000, keys: 100_000, rounds: 2}
	return map[string]suite{
		"mem":      {front, small, runFront},
		"everysec": {front, small, runFront},
		"always":   {scale{requests: 20_000, keys: 1_000_000, rounds: 4}, scale{requests: 2000, keys: 100_000, rounds: 2}, runFront},
		"types":    {scale{requests: 100_000, keys: 200_000, rounds: 3}, scale{requests: 10_000, keys: 20_000, rounds: 1}, runTypes},
		"huge":     {scale{requests: 5000, keys: 10_000_000, maxmemory: "256mb"}, scale{requests: 500, keys: 20_000, maxmemory: "64mb"}, runHuge},
		"channels": {
			scale{requests: 100_000, keys: 1_000_000, rounds: 4, time: 5 * time.Second},
			scale{requests: 5000, keys: 20_000, rounds: 1, time: time.Second}, runChannels,
		},
		"session": {scale{requests: 200_000, keys: 500_000, rounds: 3}, scale{requests: 10_000, keys: 50_000, rounds: 1}, runSession},
		"large": {
			scale{keys: 5_000_000, rounds: 4, time: 5 * time.Second, maxmemory: "256mb"},
			scale{keys: 500_000, rounds: 2, time: time.Second, maxmemory: "32mb"}, runLarge,
		},
		"many": {
			scale{keys: 10_000_000, rounds: 4, time: 5 * time.Second},
			scale{keys: 500_000, rounds: 2, time: time.Second}, runMany,
		},
		"sustained": {
			scale{keys: 5_000_000, time: time.Minute},
			scale{keys: 500_000, time: 10 * time.Second}, runSustained,
		},
		"soak": {
			scale{keys: 2_000_000, time: 10 * time.Minute, maxmemory: "64mb"},
			scale{keys: 300_000, time: 30 * time.Second, maxmemory: "32mb"}, runSoak,
		},
	}
}

func main() {
	// A server dies with the thread that started it (see server.start), so this
	// must be the thread that lives as long as the program.
	runtime.LockOSThread()
	flag.Parse()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-interrupted
		cleanUp()
		os.Exit(1)
	}()
	err := choose()
	cleanUp()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// choose sets what the flags left open, and runs the suite.
func choose() error {
	s, ok := suites()[*suiteName]
	if !ok {
		return fmt.Errorf("unknown suite %q; there are %s", *suiteName, suiteNames)
	}
	with := s.full
	if *quick {
		with, *record = s.quick, ""
	}
	setDefault(rounds, max(1, with.rounds))
	setDefault(requests, with.requests)
	setDefault(duration, with.time)
	setDefault(keys, with.keys)
	setDefault(maxmemory, with.maxmemory)
	if *pgo != "" {
		return makeProfile(*pgo)
	}
	return s.run()
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// prepare makes the directory for both servers' data, and the binary.
func prepare() (dir, binary string, err error) {
	dir, err = os.MkdirTemp("", "redoubt-bench-")
	if err != nil {
		return "", "", err
	}
	atEnd(func() { os.RemoveAll(dir) })
	if *redoubt != "" {
		return dir, *redoubt, nil
	}
	binary = filepath.Join(dir, "redoubt")
	if out, err := exec.Command("env", "CGO_ENABLED=0", "go", "build", "-o", binary, "./cmd/redoubt").CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build: %w: %s", err, out)
	}
	return dir, binary, nil
}

// chosen says whether -only lets a case be run.
func chosen(name string, pipeline int) bool {
	return *only == "" || slices.Contains(strings.Split(*only, ","), fmt.Sprintf("%s/%d", name, pipeline))
}
