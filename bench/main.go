// Command bench compares Redoubt with redis-server: both run side by side with
// the same durability, redis-benchmark loads them in turns, and what counts is
// the ratio of the medians. It prints a table and writes a record.
//
//	go run ./bench -suite mem          # no persistence on either side
//	go run ./bench -suite everysec     # Redoubt's engine against Redis's AOF
//	go run ./bench -suite always
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	suite    = flag.String("suite", "mem", "mem, everysec or always: the durability of both servers")
	rounds   = flag.Int("rounds", 4, "how often each case is run on each server")
	requests = flag.Int("n", 200_000, "requests per run at P=1; four times as many at P=16")
	clients  = flag.Int("c", 50, "connections")
	size     = flag.Int("d", 128, "bytes of a value")
	keys     = flag.Int("r", 1_000_000, "different keys")
	only     = flag.String("only", "", "comma-separated cases to run, such as GET/1,SET/16")
	record   = flag.String("record", "docs/bench", "directory of the record; empty writes none")
	redoubt  = flag.String("redoubt", "", "binary to measure; empty builds ./cmd/redoubt")
	pgo      = flag.String("pgo", "", "write a profile for the compiler to this file instead")
	args     = flag.String("args", "", "more arguments for Redoubt")
)

// benchCase is one command at one pipeline depth.
type benchCase struct {
	name     string
	pipeline int
	cmd      []string
}

// result is one run of a case on one server.
type result struct {
	rps, p50, p99, cpu float64 // requests a second, ms, ms, CPU us per request
}

func main() {
	flag.Parse()
	work := run
	if *pgo != "" {
		work = func() error { return makeProfile(*pgo) }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func cases() (all []benchCase) {
	mset := []string{"MSET"}
	for range 10 {
		mset = append(mset, "key:__rand_int__", strings.Repeat("x", *size))
	}
	for _, p := range []int{1, 16} {
		all = append(all,
			benchCase{"SET", p, []string{"SET", "key:__rand_int__", strings.Repeat("x", *size)}},
			benchCase{"GET", p, []string{"GET", "key:__rand_int__"}},
			benchCase{"INCR", p, []string{"INCR", "counter:__rand_int__"}},
			benchCase{"MSET10", p, mset},
		)
	}
	if *only == "" {
		return all
	}
	chosen := strings.Split(*only, ",")
	return slices.DeleteFunc(all, func(c benchCase) bool {
		return !slices.Contains(chosen, fmt.Sprintf("%s/%d", c.name, c.pipeline))
	})
}

func run() error {
	dir, err := os.MkdirTemp("", "redoubt-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := *redoubt
	if binary == "" {
		binary = filepath.Join(dir, "redoubt")
		if out, err := exec.Command("go", "build", "-o", binary, "./cmd/redoubt").CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w: %s", err, out)
		}
	}
	ours := append([]string{"--dir", filepath.Join(dir, "ours"), "--loglevel", "warning"}, strings.Fields(*args)...)
	theirs := []string{"--dir", dir, "--save", ""}
	switch *suite {
	case "mem":
		ours, theirs = append(ours, "--engine", "mem"), append(theirs, "--appendonly", "no")
	case "everysec", "always":
		ours = append(ours, "--appendfsync", *suite)
		theirs = append(theirs, "--appendonly", "yes", "--appendfsync", *suite)
	default:
		return fmt.Errorf("unknown suite %q", *suite)
	}
	a, err := start("redoubt", binary, ours)
	if err != nil {
		return err
	}
	defer a.stop()
	b, err := start("redis", "redis-server", theirs)
	if err != nil {
		return err
	}
	defer b.stop()

	for _, p := range []*process{a, b} {
		if err := p.prefill(); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	heading(&out, ours, theirs)
	fmt.Print(out.String())
	for _, c := range cases() {
		line, err := compare(c, a, b)
		if err != nil {
			return err
		}
		fmt.Print(line)
		out.WriteString(line)
	}
	if *record == "" {
		return nil
	}
	name := filepath.Join(*record, time.Now().UTC().Format("2006-01-02T1504")+"-"+*suite+".md")
	return os.WriteFile(name, out.Bytes(), 0o644)
}

func heading(out *bytes.Buffer, ours, theirs []string) {
	version, _ := exec.Command("redis-server", "--version").Output()
	commit, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	strip := func(a []string) string {
		a = slices.Clone(a)
		if i := slices.Index(a, "--dir"); i >= 0 {
			a = slices.Delete(a, i, i+2)
		}
		return strings.Join(a, " ")
	}
	fmt.Fprintf(out, "# %s, %s\n\n", *suite, time.Now().UTC().Format("2006-01-02 15:04"))
	fmt.Fprintf(out, "- Redoubt at %s, %s, %d processors: `redoubt %s`\n", strings.TrimSpace(string(commit)), runtime.Version(), runtime.NumCPU(), strip(ours))
	fmt.Fprintf(out, "- %s: `redis-server %s`\n", strings.TrimSpace(string(version)), strip(theirs))
	fmt.Fprintf(out, "- redis-benchmark -c %d -d %d -r %d, %d rounds in turns, medians, all keys written before; cpu is user + system microseconds of the server process per request; ratio is Redoubt's throughput to Redis's, and Redis's cpu to Redoubt's.\n\n", *clients, *size, *keys, *rounds)
	fmt.Fprintf(out, "| case | redoubt rps | redis rps | ratio | redoubt p50 / p99 ms | redis p50 / p99 ms | redoubt cpu | redis cpu | cpu ratio |\n|---|---|---|---|---|---|---|---|---|\n")
}

// compare runs a case in turns on both servers.
func compare(c benchCase, a, b *process) (string, error) {
	var ra, rb []result
	for i := range *rounds {
		first, second, fa, fb := a, b, &ra, &rb
		if i%2 == 1 {
			first, second, fa, fb = b, a, &rb, &ra
		}
		for _, s := range []struct {
			p  *process
			to *[]result
		}{{first, fa}, {second, fb}} {
			r, err := s.p.load(c)
			if err != nil {
				return "", err
			}
			*s.to = append(*s.to, r)
		}
	}
	x, y := median(ra), median(rb)
	return fmt.Sprintf("| %s P=%d | %.0f | %.0f | **%.2f** | %.2f / %.2f | %.2f / %.2f | %.2f | %.2f | **%.2f** |\n",
		c.name, c.pipeline, x.rps, y.rps, x.rps/y.rps, x.p50, x.p99, y.p50, y.p99, x.cpu, y.cpu, y.cpu/x.cpu), nil
}

func median(rs []result) result {
	mid := func(get func(result) float64) float64 {
		var v []float64
		for _, r := range rs {
			v = append(v, get(r))
		}
		slices.Sort(v)
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return result{
		mid(func(r result) float64 { return r.rps }), mid(func(r result) float64 { return r.p50 }),
		mid(func(r result) float64 { return r.p99 }), mid(func(r result) float64 { return r.cpu }),
	}
}

// prefill writes nearly all keys once, so that reads find something and writes
// mostly replace.
func (p *process) prefill() error {
	for _, cmd := range [][]string{
		{"SET", "key:__rand_int__", strings.Repeat("x", *size)}, {"SET", "counter:__rand_int__", "1"},
	} {
		args := append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-c", strconv.Itoa(*clients),
			"-n", strconv.Itoa(3 * *keys), "-P", "64", "-r", strconv.Itoa(*keys), "--csv"}, cmd...)
		if out, err := exec.Command("redis-benchmark", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("fill %s: %w: %s", p.name, err, out)
		}
	}
	return nil
}

// load runs redis-benchmark once and measures the server's CPU meanwhile.
func (p *process) load(c benchCase) (result, error) {
	n := *requests
	if c.pipeline > 1 {
		n *= 4
	}
	if c.name == "MSET10" {
		n /= 4
	}
	before, err := p.cpu()
	if err != nil {
		return result{}, err
	}
	cmd := append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-c", strconv.Itoa(*clients), "-n", strconv.Itoa(n),
		"-P", strconv.Itoa(c.pipeline), "-r", strconv.Itoa(*keys), "--csv"}, c.cmd...)
	text, err := exec.Command("redis-benchmark", cmd...).Output()
	if err != nil {
		return result{}, fmt.Errorf("redis-benchmark on %s: %w", p.name, err)
	}
	after, err := p.cpu()
	if err != nil {
		return result{}, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	fields := strings.Split(lines[len(lines)-1], `","`)
	if len(fields) < 7 {
		return result{}, fmt.Errorf("redis-benchmark on %s answered %q", p.name, text)
	}
	num := func(i int) float64 {
		v, _ := strconv.ParseFloat(strings.Trim(fields[i], `"`), 64)
		return v
	}
	return result{rps: num(1), p50: num(4), p99: num(6), cpu: (after - before).Seconds() * 1e6 / float64(n)}, nil
}
