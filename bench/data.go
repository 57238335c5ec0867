//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// What the suites of the load generator have in common: filling both servers,
// and cases that are run in turns.

const (
	seed     = 0x5eed // of keys and values: both servers get the same
	zipfSkew = 0.99
)

// rawBytes is what the data is without any store: names and values.
func rawBytes(n int) int { return n * (len(anyKey) + *size) }

// loadCase is a mix of requests at one pipeline depth.
type loadCase struct {
	name     string
	pipeline int
	skewed   bool
	requests mix
}

// title is the case in a table.
func (c loadCase) title() string { return fmt.Sprintf("%s P=%d", c.name, c.pipeline) }

// loadCases are those of the mixes that -only lets be run, reads first: at that
// time nothing is left to do behind the scenes.
func loadCases(list ...loadCase) (all []loadCase) {
	for _, c := range list {
		for _, c.pipeline = range []int{1, 16} {
			if chosen(c.name, c.pipeline) {
				all = append(all, c)
			}
		}
	}
	return all
}

func getSet() (get, set *request) {
	g, s := newRequest("GET", anyKey), newRequest("SET", anyKey, anyValue)
	return &g, &s
}

// load prepares a load of a case.
func (p *process) load(c loadCase) load {
	random := rand.NewPCG(seed, uint64(time.Now().UnixNano()))
	l := load{
		port: p.port, clients: *clients, pipeline: c.pipeline, requests: c.requests,
		keys: &uniform{random, uint64(*keys)}, time: *duration, random: random,
	}
	if c.skewed {
		l.keys = newZipf(random, zipfSkew, uint64(*keys))
	}
	if l.count = *requests; c.pipeline > 1 {
		l.count *= 4
	}
	return l
}

// measure runs a load and takes the server's CPU time meanwhile.
func (p *process) measure(l load) (result, *outcome, error) {
	before, err := p.cpu()
	if err != nil {
		return result{}, nil, err
	}
	o, err := l.run()
	if err != nil {
		return result{}, nil, fmt.Errorf("load on %s: %w", p.name, err)
	}
	after, err := p.cpu()
	if err != nil {
		return result{}, nil, err
	}
	n := float64(max(o.count, 1))
	return result{
		rps: float64(o.count) / o.time.Seconds(),
		p50: o.all.Milliseconds(0.5), p99: o.all.Milliseconds(0.99), p999: o.all.Milliseconds(0.999), most: o.all.Most().Seconds() * 1e3,
		cpu: (after - before).Seconds() * 1e6 / n, helper: o.cpu.Seconds() * 1e6 / n,
	}, o, nil
}

// fill writes every key once, and says how long that took.
func (p *process) fill() (time.Duration, error) {
	if *size < markSize {
		return 0, errors.New("-d is too small: values carry a mark of their key")
	}
	_, set := getSet()
	o, err := load{
		port: p.port, clients: *clients, pipeline: 64, requests: mix{set},
		keys: &inOrder{}, count: *keys, random: rand.NewPCG(seed, 0),
	}.run()
	if err != nil {
		return 0, fmt.Errorf("fill %s: %w", p.name, err)
	}
	n, err := p.number("DBSIZE")
	if err != nil {
		return 0, err
	}
	if n != *keys {
		return 0, fmt.Errorf("%s has %d keys after %d were written", p.name, n, *keys)
	}
	return o.time, nil
}

// filled is how a server stands after all keys were written.
type filled struct {
	took, settled  time.Duration
	rest           bool
	rss, rssLoaded int
	disk           int
}

// fillAndSettle fills the servers one after the other and lets each come to
// rest.
func (s pair) fillAndSettle() (all map[*process]filled, err error) {
	all = map[*process]filled{}
	for _, p := range s.both() {
		var f filled
		err := s.alone(p, func(p *process) (err error) {
			if f.took, err = p.fill(); err != nil {
				return err
			}
			if f.rssLoaded, _, err = p.memory(); err != nil {
				return err
			}
			if f.settled, f.rest, err = p.settle(); err != nil {
				return err
			}
			if f.rss, _, err = p.memory(); err != nil {
				return err
			}
			f.disk, _, err = p.disk()
			return err
		})
		if err != nil {
			return nil, err
		}
		all[p] = f
	}
	return all, nil
}

// compareAll runs cases in turns and writes their table. each, if not nil, is
// told of every run.
func (s pair) compareAll(out *document, list []loadCase, each func(loadCase, *process, func() (result, error)) (result, error)) error {
	out.header(true)
	low, high := 0.0, 0.0
	for _, c := range list {
		x, y, err := s.turns(func(p *process) (result, error) {
			run := func() (result, error) {
				r, _, err := p.measure(p.load(c))
				return r, err
			}
			if each != nil {
				return each(c, p, run)
			}
			return run()
		})
		if err != nil {
			return err
		}
		out.line(c.title(), x, y, true)
		for _, r := range []result{x, y} {
			if high = max(high, r[helper]); low == 0 || r[helper] < low {
				low = r[helper]
			}
		}
	}
	out.printf("\nThe load generator itself took %.1f to %.1f microseconds of CPU per request.\n", low, high)
	return nil
}

// loadText describes the load in a record.
func loadText() string {
	return fmt.Sprintf("the load generator of this program (one thread), %d connections, %d keys, values of %d bytes that do not compress and are checked when read, runs of %s, ",
		*clients, *keys, *size, *duration)
}
