//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"redoubt/internal/rss"
)

// The soak runs Redoubt alone, under a mixed load with much less memory than
// data, and watches whether anything grows that must not: it fails at the end
// if memory went over its bound, disk over a multiple of the data, or
// goroutines, descriptors or files kept growing.

const (
	// sampleEvery is the time between samples; each time the clients connect
	// anew, so that a leak per connection shows.
	sampleEvery = 5 * time.Second

	// diskFactor is how many times the raw data the files may take while
	// writes are going on.
	diskFactor = 3

	// Large strings, written again one after the other, are rows that go by a
	// range.
	bigStrings = 16
	bigSize    = 1 << 20
)

// watched are the engine's figures in INFO that samples show, where it has them.
var watched = []string{
	"resident_bytes", "resident_mapped_bytes", "dirty_bytes", "journal_bytes", "checkpoint_age_seconds",
	"cold_reads", "commits_waited", "compaction_debt_bytes",
}

// sample is what was seen at one moment.
type sample struct {
	rss, goroutines, descriptors, files int
	disk, raw                           int
	engine                              string
}

func runSoak() error {
	dir, binary, err := prepare()
	if err != nil {
		return err
	}
	metrics, err := freeAddr()
	if err != nil {
		return err
	}
	p, err := server{
		name: "redoubt", binary: binary, dir: filepath.Join(dir, "ours"),
		args: append([]string{"--loglevel", "warning", "--maxmemory", *maxmemory, "--metrics-addr", metrics.String()}, strings.Fields(*args)...),
	}.start()
	if err != nil {
		return err
	}
	fmt.Printf("soak: %s, %d keys (%s) and %d strings of %s with maxmemory %s\n", *duration, *keys, mb(rawBytes(*keys)), bigStrings, mb(bigSize), *maxmemory)
	if _, err := p.fill(); err != nil {
		return err
	}
	for i := range bigStrings {
		if err := p.writeBig(i); err != nil {
			return err
		}
	}
	var all []sample
	requests := soakMix()
	for begin := time.Now(); time.Since(begin) < *duration; {
		s, o, err := p.soakStep(requests, len(all), metrics.String())
		if err != nil {
			return err
		}
		all = append(all, s)
		fmt.Printf("%4.0f s %7.0f rps, p50 %.2f p99 %.2f max %.0f ms, %.0f %% missed | RSS %s, %d goroutines, %d descriptors | %d files, %s, %.2f of raw |%s\n",
			time.Since(begin).Seconds(), float64(o.count)/o.time.Seconds(), o.all.Milliseconds(0.5), o.all.Milliseconds(0.99), o.all.Most().Seconds()*1e3, 100*float64(o.missed)/float64(o.count),
			mb(s.rss), s.goroutines, s.descriptors, s.files, mb(s.disk), float64(s.disk)/float64(s.raw), s.engine)
	}
	limit, err := gauge(metrics.String(), "redoubt_memory_max_bytes")
	if err != nil {
		return err
	}
	_, peak, err := p.memory()
	if err != nil {
		return err
	}
	if err := judge(all, peak, limit); err != nil {
		return err
	}
	fmt.Printf("soak: passed; RSS at its peak %s\n", mb(peak))
	return nil
}

// soakMix is reads, writes, writes that expire, deletes and one counter.
func soakMix() (m mix) {
	add := func(times int, words ...string) {
		r := newRequest(words...)
		for range times {
			m = append(m, &r)
		}
	}
	add(10, "GET", anyKey)
	add(6, "SET", anyKey, anyValue)
	add(2, "SET", anyKey, anyValue, "PX", "3000")
	add(1, "DEL", anyKey)
	add(1, "INCR", "counter")
	return m
}

// soakStep loads the server until the next sample and takes it meanwhile. Keys
// are skewed and even in turns: what stays in memory, and what comes and goes.
func (p *process) soakStep(requests mix, step int, metrics string) (sample, *outcome, error) {
	l := p.load(loadCase{pipeline: []int{1, 16}[step/2%2], skewed: step%2 == 0, requests: requests})
	l.time, l.mayMiss = min(sampleEvery, *duration), true
	type end struct {
		o   *outcome
		err error
	}
	done := make(chan end, 1)
	go func() {
		o, err := l.run()
		done <- end{o, err}
	}()
	time.Sleep(l.time * 4 / 5)
	s, err := p.sample(metrics)
	err = errors.Join(err, p.writeBig(step%bigStrings))
	e := <-done
	return s, e.o, errors.Join(err, e.err)
}

// writeBig writes one of the large strings, and a part of it again.
func (p *process) writeBig(i int) error {
	name := fmt.Sprintf("big:%d", i)
	random := rand.NewPCG(seed, uint64(i))
	text := make([]byte, bigSize)
	fillValue(text, uint64(i), random)
	if _, err := p.ask("SET", name, string(text)); err != nil {
		return err
	}
	_, err := p.ask("SETRANGE", name, strconv.Itoa(bigSize/2), string(text[:1000]))
	return err
}

func (p *process) sample(metrics string) (s sample, err error) {
	fail := func(e error) { err = errors.Join(err, e) }
	var e error
	s.rss, _, e = p.memory()
	fail(e)
	s.descriptors, e = p.openFiles()
	fail(e)
	s.disk, s.files, e = p.disk()
	fail(e)
	s.goroutines, e = gauge(metrics, "go_goroutines")
	fail(e)
	n, e := p.number("DBSIZE")
	fail(e)
	s.raw = rawBytes(n) + bigStrings*bigSize
	info, e := p.info("redoubt")
	fail(e)
	for _, name := range watched {
		if value, ok := info["engine_"+name]; ok {
			s.engine += " " + name + " " + value
		}
	}
	return s, err
}

// gauge reads a whole number from the metrics page.
func gauge(addr, name string) (int, error) {
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int(v), err
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

// judge says what went wrong, all of it.
func judge(all []sample, peak, maxmemory int) error {
	var errs []error
	fail := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if limit := int(rss.Bound(int64(maxmemory))); peak > limit {
		fail("RSS was %s at its peak, more than %s", mb(peak), mb(limit))
	}
	first, second := all[:len(all)/2], all[len(all)/2:]
	for _, s := range second {
		if s.disk > diskFactor*s.raw {
			fail("the files took %s with %s of data", mb(s.disk), mb(s.raw))
			break
		}
	}
	grows := func(what string, slack int, get func(sample) int) {
		if a, b := middle(first, get), middle(second, get); len(first) > 0 && b > a+a/4+slack {
			fail("%s grew from %d to %d", what, a, b)
		}
	}
	grows("goroutines", 16, func(s sample) int { return s.goroutines })
	grows("open descriptors", 32, func(s sample) int { return s.descriptors })
	grows("files", 32, func(s sample) int { return s.files })
	return errors.Join(errs...)
}

// middle is the median of a figure.
func middle(all []sample, get func(sample) int) int {
	var v []int
	for _, s := range all {
		v = append(v, get(s))
	}
	slices.Sort(v)
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}
