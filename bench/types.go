//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// The suite of the collections: one large one of each type, as redis-benchmark
// has them, many small ones, and a mixture of all commands.

// typeCase is a command and what must be there before.
type typeCase struct {
	name      string
	fill, cmd string // R stands for a random number, V for a value
	takes     bool   // elements go: there must be one for each request of all rounds
}

var typeCases = []typeCase{
	{name: "LPUSH", cmd: "LPUSH list V"},
	{name: "RPUSH", cmd: "RPUSH list V"},
	{name: "LPOP", fill: "RPUSH list V", cmd: "LPOP list", takes: true},
	{name: "LRANGE_100", fill: "RPUSH list V", cmd: "LRANGE list 0 99"},
	{name: "SADD", cmd: "SADD set element:R"},
	{name: "SPOP", fill: "SADD set element:R", cmd: "SPOP set", takes: true},
	{name: "HSET", cmd: "HSET hash field:R V"},
	{name: "HGET", fill: "HSET hash field:R V", cmd: "HGET hash field:R"},
	{name: "ZADD", cmd: "ZADD board R member:R"},
	{name: "ZPOPMIN", fill: "ZADD board R member:R", cmd: "ZPOPMIN board", takes: true},
	{name: "ZRANK", fill: "ZADD board R member:R", cmd: "ZRANK board member:R"},
	{name: "XADD", cmd: "XADD stream * field V"},
	{name: "HSET small", fill: "HSET user:R name V visits 1 seen 2", cmd: "HSET user:R seen R"},
	{name: "HGET small", fill: "HSET user:R name V visits 1 seen 2", cmd: "HGET user:R seen"},
	{name: "SADD small", cmd: "SADD tags:R R"},
	{name: "LPUSH small", cmd: "LPUSH queue:R R"},
	{name: "ZADD small", cmd: "ZADD top:R R R"},
}

// The mixture has each of these commands as often as it is listed, on one of so
// many collections of its type.
const mixedKeys = 16

var (
	mixedFill = []string{"RPUSH list V", "SADD set element:R", "HSET hash field:R V", "ZADD board R member:R"}
	mixed     = []string{
		"LPUSH list V", "RPUSH list V", "LPOP list", "LPOP list", "LRANGE list 0 99",
		"SADD set element:R", "SADD set element:R", "SPOP set",
		"HSET hash field:R V", "HSET hash field:R V", "HGET hash field:R", "HGET hash field:R",
		"ZADD board R member:R", "ZADD board R member:R", "ZPOPMIN board", "ZRANK board member:R",
		"XADD stream * field V",
	}
)

// mixOf makes requests of commands; prefix keeps the keys of the cases apart.
func mixOf(commands []string, prefix string) (all mix) {
	for _, text := range commands {
		for i := range mixedKeys {
			words := strings.Fields(text)
			words[1] = fmt.Sprintf("%s:%s:%d", prefix, words[1], i)
			for i, w := range words[2:] {
				if w = strings.ReplaceAll(w, "R", anyNumber); w == "V" {
					w = anyValue
				}
				words[i+2] = w
			}
			r := newRequest(words...)
			all = append(all, &r)
		}
	}
	return all
}

// words are the arguments of a command; no is a number that keeps the keys of the
// cases apart.
func (c typeCase) words(text string, no int) []string {
	words := strings.Fields(text)
	words[1] = fmt.Sprintf("%d:%s", no, words[1])
	for i, w := range words {
		w = strings.ReplaceAll(w, "R", "__rand_int__")
		if i == 0 {
			w = words[0]
		}
		if w == "V" {
			w = strings.Repeat("x", *size)
		}
		words[i] = w
	}
	return words
}

func runTypes() error {
	s, err := startPair(server{args: []string{"--appendfsync", "everysec"}},
		server{args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}})
	if err != nil {
		return err
	}
	var out document
	out.heading(s, fmt.Sprintf("redis-benchmark -c %d -d %d -r %d; each case has keys of its own, and where it reads elements they were filled with %d before, "+
		"where it takes them with one for each request; before each case both servers came to rest; "+
		"MIXED is this program's own load of %d commands (bench/types.go) over %d collections of each type, filled with %d elements in all; ",
		*clients, *size, *keys, 2**keys, len(mixed), mixedKeys, 2**keys)+explained())
	out.header(false)
	no := 0
	for _, p := range []int{1, 16} {
		for _, c := range typeCases {
			if no++; !chosen(c.name, p) {
				continue
			}
			if err := s.fillFor(c, no, p); err != nil {
				return err
			}
			if err := s.comeToRest(); err != nil {
				return err
			}
			x, y, err := s.turns(func(to *process) (result, error) {
				return to.redisBenchmark(benchCase{c.name, p, c.words(c.cmd, no)})
			})
			if err != nil {
				return err
			}
			out.line(fmt.Sprintf("%s P=%d", c.name, p), x, y, false)
		}
		if chosen("MIXED", p) {
			if err := s.runMixed(&out, p); err != nil {
				return err
			}
		}
	}
	return out.write()
}

func (s pair) runMixed(out *document, pipeline int) error {
	prefix := fmt.Sprintf("mixed%d", pipeline)
	for _, p := range s.both() {
		err := s.alone(p, func(p *process) error {
			l := p.load(loadCase{pipeline: 64, requests: mixOf(mixedFill, prefix)})
			l.count, l.time = 2**keys, 0
			_, err := l.run()
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := s.comeToRest(); err != nil {
		return err
	}
	load := loadCase{name: "MIXED", pipeline: pipeline, requests: mixOf(mixed, prefix)}
	x, y, err := s.turns(func(to *process) (result, error) {
		l := to.load(load)
		l.time = 0
		r, _, err := to.measure(l)
		return r, err
	})
	if err != nil {
		return err
	}
	out.line(load.title(), x, y, false)
	return nil
}

// comeToRest has both servers do what they still have to do behind what was
// written, so that none of it counts for the next case.
func (s pair) comeToRest() error {
	if _, err := s.ours.ask("SAVE"); err != nil { // else it may wait for half a minute
		return err
	}
	for _, p := range s.both() {
		if _, _, err := p.settleFor(2 * time.Second); err != nil {
			return err
		}
	}
	return nil
}

// fillFor prepares both servers for a case.
func (s pair) fillFor(c typeCase, no, pipeline int) error {
	if c.fill == "" {
		return nil
	}
	n, different := 2**keys, *keys
	if c.takes {
		n, different = *requests**rounds, 1_000_000_000 // hardly any comes twice
		if pipeline > 1 {
			n *= 4
		}
	}
	for _, p := range s.both() {
		err := s.alone(p, func(p *process) error {
			args := append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-c", strconv.Itoa(*clients),
				"-n", strconv.Itoa(n), "-P", "64", "-r", strconv.Itoa(different), "--csv"}, c.words(c.fill, no)...)
			if out, err := exec.Command("redis-benchmark", args...).CombinedOutput(); err != nil {
				return fmt.Errorf("fill %s: %w: %s", p.name, err, out)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
