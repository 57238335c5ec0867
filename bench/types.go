//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// The suite of the collections: one large one of each type, as redis-benchmark
// has them, and many small ones.

// typeCase is a command and what must be there before.
type typeCase struct {
	name      string
	fill, cmd string // R stands for a random number, V for a value
}

var typeCases = []typeCase{
	{"LPUSH", "", "LPUSH list V"},
	{"RPUSH", "", "RPUSH list V"},
	{"LPOP", "RPUSH list V", "LPOP list"},
	{"LRANGE_100", "RPUSH list V", "LRANGE list 0 99"},
	{"SADD", "", "SADD set element:R"},
	{"SPOP", "SADD set element:R", "SPOP set"},
	{"HSET", "", "HSET hash field:R V"},
	{"HGET", "HSET hash field:R V", "HGET hash field:R"},
	{"ZADD", "", "ZADD board R member:R"},
	{"ZPOPMIN", "ZADD board R member:R", "ZPOPMIN board"},
	{"ZRANK", "ZADD board R member:R", "ZRANK board member:R"},
	{"XADD", "", "XADD stream * field V"},
	{"HSET small", "HSET user:R name V visits 1 seen 2", "HSET user:R seen R"},
	{"HGET small", "HSET user:R name V visits 1 seen 2", "HGET user:R seen"},
	{"SADD small", "", "SADD tags:R R"},
	{"LPUSH small", "", "LPUSH queue:R R"},
	{"ZADD small", "", "ZADD top:R R R"},
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
	out.heading(s, fmt.Sprintf("redis-benchmark -c %d -d %d -r %d; each case has keys of its own, and where it reads or takes elements they were filled with %d before; ",
		*clients, *size, *keys, 2**keys)+explained())
	out.header(false)
	no := 0
	for _, p := range []int{1, 16} {
		for _, c := range typeCases {
			if no++; !chosen(c.name, p) {
				continue
			}
			if err := s.fillFor(c, no); err != nil {
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
	}
	return out.write()
}

// fillFor prepares both servers for a case.
func (s pair) fillFor(c typeCase, no int) error {
	if c.fill == "" {
		return nil
	}
	for _, p := range s.both() {
		err := s.alone(p, func(p *process) error {
			args := append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-c", strconv.Itoa(*clients),
				"-n", strconv.Itoa(2 * *keys), "-P", "64", "-r", strconv.Itoa(*keys), "--csv"}, c.words(c.fill, no)...)
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
