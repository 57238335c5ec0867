//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"redoubt/internal/respclient"
)

// The suite of large collections: what an operation costs on one of ten thousand
// elements and on one of many more than memory holds, on Redoubt alone.

// hugeType is a collection and what is done to it. R stands for a random element's
// number, S for another one's, N for a new one, K for the key.
type hugeType struct {
	name string
	add  []string // with E for the element's number; many of them are one command
	cost []string
}

var hugeTypes = []hugeType{
	{"hash", []string{"HSET", "K", "field:E", "value:E"}, []string{
		"HGET K field:R", "HSET K field:R other", "HSET K new:N v", "HEXISTS K none:R", "HDEL K new:N", "HSCAN K R", "HRANDFIELD K", "HLEN K"}},
	{"set", []string{"SADD", "K", "member:E"}, []string{
		"SISMEMBER K member:R", "SADD K new:N", "SREM K new:N", "SSCAN K R", "SRANDMEMBER K", "SCARD K"}},
	{"list", []string{"RPUSH", "K", "element:E"}, []string{
		"LINDEX K R", "LSET K R other", "LPUSH K new", "LPOP K", "RPUSH K new", "RPOP K", "LRANGE K R R", "LLEN K"}},
	{"zset", []string{"ZADD", "K", "E", "member:E"}, []string{
		"ZSCORE K member:R", "ZRANK K member:R", "ZREVRANK K member:R", "ZADD K S member:R", "ZADD K R new:N", "ZREM K new:N", "ZCOUNT K 0 R",
		"ZRANGE K R R", "ZRANGEBYSCORE K R +inf LIMIT 0 10", "ZRANGE K 0 9", "ZPOPMIN K", "ZRANDMEMBER K", "ZSCAN K R"}},
}

// hugeSizes are the numbers of elements; the last one is the flag's.
func hugeSizes() []int { return []int{10_000, 100_000, 1_000_000, *keys} }

func runHuge() error {
	dir, binary, err := prepare()
	if err != nil {
		return err
	}
	s := server{name: "redoubt", binary: binary, dir: dir + "/ours", args: []string{"--loglevel", "warning", "--maxmemory", *maxmemory}}
	p, err := s.start()
	if err != nil {
		return err
	}
	c, err := respclient.Dial(fmt.Sprintf("127.0.0.1:%d", p.port))
	if err != nil {
		return err
	}
	defer c.Close()
	c.Timeout = 10 * time.Minute
	h := &huge{p: p, c: c, rng: rand.New(rand.NewPCG(seed, 2))}
	var out document
	out.printf("# huge, %s\n\nOne collection of each type in `redoubt --maxmemory %s`, one connection, microseconds per command: %d commands in pipelines of %d, the best of 3 runs, and behind the stroke the median of single commands, the best of 3 runs of a fifth as many. Elements are drawn at random, so on the largest most of them come from disk.\n",
		time.Now().UTC().Format("2006-01-02 15:04"), *maxmemory, *requests, hugePipeline)
	for _, t := range hugeTypes {
		if !chosen(t.name, 1) {
			continue
		}
		if err := h.measure(&out, t); err != nil {
			return err
		}
	}
	return out.write()
}

// hugePipeline is how many commands are sent at once, hugeFill how many elements one
// adds that fills a collection.
const (
	hugePipeline = 50
	hugeFill     = 100
)

type huge struct {
	p   *process
	c   *respclient.Client
	rng *rand.Rand
	new int
}

func (h *huge) measure(out *document, t hugeType) error {
	out.printf("\n| %s", t.name)
	costs := make([][][2]float64, len(t.cost))
	var last string
	var filled time.Duration
	for _, n := range hugeSizes() {
		out.printf(" | %d", n)
		last = fmt.Sprintf("%s:%d", t.name, n)
		begin := time.Now()
		if err := h.fill(t, last, n); err != nil {
			return err
		}
		filled = time.Since(begin)
		if _, _, err := h.p.settle(); err != nil {
			return err
		}
		fmt.Printf("%s filled and settled in %.0f s\n", last, time.Since(begin).Seconds())
		for i, command := range t.cost {
			var cost [2]float64
			for j, pipeline := range []int{hugePipeline, 1} {
				var err error
				if cost[j], err = h.cost(command, last, n, pipeline); err != nil {
					return err
				}
			}
			costs[i] = append(costs[i], cost)
		}
	}
	out.printf(" |\n|---%s|\n", "|---|---|---|---")
	for i, command := range t.cost {
		out.printf("| %s", command)
		for _, cost := range costs[i] {
			out.printf(" | %.1f / %.0f", cost[0], cost[1])
		}
		out.printf(" |\n")
	}
	rss, peak, err := h.p.memory()
	if err != nil {
		return err
	}
	out.printf("\nThe last one was filled in %.0f s, %d elements a command; RSS then %s, at its peak %s.\n", filled.Seconds(), hugeFill, mb(rss), mb(peak))
	return h.whole(out, last)
}

// whole measures what is done to a whole collection, once each.
func (h *huge) whole(out *document, key string) error {
	out.printf("\nOn all of `%s`, milliseconds:", key)
	for _, args := range [][]string{
		{"EXPIRE", key, "100000"}, {"PERSIST", key}, {"RENAME", key, key + ":b"}, {"OBJECT", "ENCODING", key + ":b"}, {"DEL", key + ":b"},
	} {
		begin := time.Now()
		v, err := h.c.Do(args...)
		if err != nil || v.IsError() {
			return errors.Join(err, errors.New(v.Str))
		}
		out.printf(" %s %.2f,", args[0], float64(time.Since(begin).Microseconds())/1000)
	}
	begin := time.Now()
	_, rest, err := h.p.settle()
	if err != nil {
		return err
	}
	disk, _, err := h.p.disk()
	if err != nil {
		return err
	}
	out.printf(" and %.0f s later (rest %v) the disk has %s.\n", time.Since(begin).Seconds(), rest, mb(disk))
	return nil
}

// fill makes a collection of n elements, in an order that is not theirs.
func (h *huge) fill(t hugeType, key string, n int) error {
	// A step that shares no factor with n visits every number once.
	step := n/2 + 1
	for gcd(step, n) != 1 {
		step++
	}
	at := 0
	for done := 0; done < n; {
		args := []string{t.add[0], key}
		for range min(hugeFill, n-done) {
			for _, a := range t.add[2:] {
				args = append(args, replace(a, 'E', at))
			}
			at = (at + step) % n
			done++
		}
		if v, err := h.c.Do(args...); err != nil || v.IsError() {
			return errors.Join(err, fmt.Errorf("%s: %s", args[0], v.Str))
		}
	}
	return nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// replace puts a number in the place of a letter that stands at the end.
func replace(word string, letter byte, n int) string {
	if len(word) > 0 && word[len(word)-1] == letter {
		return word[:len(word)-1] + strconv.Itoa(n)
	}
	return word
}

// cost measures a command: the time for each in pipelines, or the median of single ones.
func (h *huge) cost(command, key string, n, pipeline int) (best float64, err error) {
	words := strings.Fields(command)
	count := *requests
	if pipeline == 1 {
		count /= 5
	}
	for range 3 {
		took := make([]float64, 0, count/pipeline)
		for sent := 0; sent < count; sent += pipeline {
			text := h.text(words, key, n, pipeline)
			begin := time.Now()
			if err := h.c.Write(text); err != nil {
				return 0, err
			}
			for range pipeline {
				if v, err := h.c.Read(); err != nil || v.IsError() {
					return 0, errors.Join(err, fmt.Errorf("%s: %s", command, v.Str))
				}
			}
			took = append(took, float64(time.Since(begin).Nanoseconds())/1000/float64(pipeline))
		}
		one := 0.0
		if slices.Sort(took); pipeline == 1 {
			one = took[len(took)/2]
		} else {
			for _, t := range took {
				one += t / float64(len(took))
			}
		}
		if best == 0 || one < best {
			best = one
		}
	}
	return best, nil
}

// text is some commands.
func (h *huge) text(words []string, key string, n, count int) (text []byte) {
	for range count {
		r, other := h.rng.IntN(n), h.rng.IntN(n)
		args := make([]string, len(words))
		for i, w := range words {
			switch {
			case w == "K":
				args[i] = key
			case i == 0:
				args[i] = w
			default:
				args[i] = replace(replace(replace(w, 'R', r), 'S', other), 'N', h.new)
			}
		}
		h.new++
		text = respclient.AppendCommand(text, args...)
	}
	return text
}
