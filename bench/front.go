//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// The suites of data that fits memory: mem, everysec and always are the same
// commands under another durability, and redis-benchmark sends them.

// benchCase is one command at one pipeline depth.
type benchCase struct {
	name     string
	pipeline int
	cmd      []string
}

func cases() (all []benchCase) {
	value := strings.Repeat("x", *size)
	mset := []string{"MSET"}
	for range 10 {
		mset = append(mset, "key:__rand_int__", value)
	}
	for _, p := range []int{1, 16} {
		list := []benchCase{
			{"SET", p, []string{"SET", "key:__rand_int__", value}},
			{"GET", p, []string{"GET", "key:__rand_int__"}},
			{"INCR", p, []string{"INCR", "counter:__rand_int__"}},
			{"MSET10", p, mset},
		}
		if *suiteName != "mem" { // one counter that all clients want
			list = append(list, benchCase{"HOT", p, []string{"INCR", "hot"}})
		}
		for _, c := range list {
			if chosen(c.name, c.pipeline) {
				all = append(all, c)
			}
		}
	}
	return all
}

func runFront() error {
	var ours, theirs server
	if *suiteName == "mem" {
		ours.args, theirs.args = []string{"--engine", "memory"}, []string{"--appendonly", "no"}
	} else {
		ours.args = []string{"--appendfsync", *suiteName}
		theirs.args = []string{"--appendonly", "yes", "--appendfsync", *suiteName}
	}
	s, err := startPair(ours, theirs)
	if err != nil {
		return err
	}
	for _, p := range s.both() {
		if err := p.prefill(); err != nil {
			return err
		}
		if _, _, err := p.settle(); err != nil {
			return err
		}
	}
	var out document
	load := fmt.Sprintf("redis-benchmark -c %d -d %d -r %d, all keys written before and both servers at rest, ", *clients, *size, *keys)
	if *suiteName != "mem" {
		load += "HOT is INCR of one counter by all clients, "
	}
	out.heading(s, load+explained())
	out.header(false)
	for _, c := range cases() {
		x, y, err := s.turns(func(p *process) (result, error) { return p.redisBenchmark(c) })
		if err != nil {
			return err
		}
		out.line(fmt.Sprintf("%s P=%d", c.name, c.pipeline), x, y, false)
	}
	return out.write()
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

// redisBenchmark runs it once and measures the server's CPU meanwhile.
func (p *process) redisBenchmark(c benchCase) (result, error) {
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
