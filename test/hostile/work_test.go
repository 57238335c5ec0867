package hostile

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"redoubt/internal/respclient"
)

// Scenarios in which commands need memory in proportion to their data.
var workScenarios = []scenario{
	{name: "scripts", run: scripts},
	{name: "sort", run: sortAlpha},
	{name: "zunionstore", run: zunionstore},
	{name: "copy-dump", run: copyDump},
}

// together runs commands at once, each on a connection of its own, until all are
// answered or the time is over.
func (s *site) together(limit time.Duration, commands ...[]string) *tally {
	got := new(tally)
	var all sync.WaitGroup
	for _, args := range commands {
		conn, err := s.dial()
		if err != nil {
			s.Fatal(err)
		}
		all.Go(func() { got.add(args[0] + " " + s.one(conn, limit, args)) })
	}
	all.Wait()
	return got
}

func (s *site) one(conn net.Conn, limit time.Duration, args []string) string {
	end := time.Now().Add(limit)
	if err := deadline(conn, end); err != nil {
		return closed
	}
	if _, err := conn.Write(respclient.AppendCommand(nil, args...)); err != nil {
		return closed
	}
	what := take(reader(conn))
	if what == closed && !time.Now().Before(end) {
		return noReply
	}
	return what
}

// fill sends commands that add n elements to a key, 500 at a time.
func (s *site) fill(n int, name, key string, element func(i int) []string) {
	s.Helper()
	c := s.client()
	const at = 500
	sent := 0
	read := func(until int) {
		for ; sent > until; sent-- {
			if v, err := c.Read(); err != nil || v.IsError() {
				s.Fatalf("filling %s: %v %v", key, v, err)
			}
		}
	}
	for i := 0; i < n; i += at {
		args := []string{name, key}
		for j := i; j < min(i+at, n); j++ {
			args = append(args, element(j)...)
		}
		if err := c.Send(args...); err != nil {
			s.Fatal(err)
		}
		sent++
		read(16)
	}
	read(0)
}

// scripts: ten scripts build tables without end.
func scripts(s *site) string {
	const script = `local t = {} for i = 1, 200000000 do t[i] = tostring(i) .. string.rep('x', 100) end return #t`
	limit := pickTime(30*time.Second, 8*time.Second)
	var commands [][]string
	for range 10 {
		commands = append(commands, []string{"EVAL", script, "0"})
	}
	return s.together(limit, commands...).String()
}

// sortAlpha: six times SORT ALPHA of 1.5 million elements.
func sortAlpha(s *site) string {
	s.fill(pick(1_500_000, 400_000), "RPUSH", "list", func(i int) []string {
		return []string{"element:" + strconv.Itoa(i*7919%10_000_019)}
	})
	var commands [][]string
	for range 6 {
		commands = append(commands, []string{"SORT", "list", "ALPHA"})
	}
	return s.together(2*time.Minute, commands...).String()
}

// zunionstore: four times ZUNIONSTORE of a million members.
func zunionstore(s *site) string {
	s.fill(pick(1_000_000, 250_000), "ZADD", "zset", func(i int) []string {
		return []string{strconv.Itoa(i * 7919 % 1_000_003), "member:" + strconv.Itoa(i)}
	})
	s.fill(1000, "ZADD", "other", func(i int) []string { return []string{"1", "other:" + strconv.Itoa(i)} })
	var commands [][]string
	for i := range 4 {
		commands = append(commands, []string{"ZUNIONSTORE", fmt.Sprint("union:", i), "2", "zset", "other"})
	}
	return s.together(2*time.Minute, commands...).String()
}

// copyDump: COPY and DUMP of a hash with a million fields.
func copyDump(s *site) string {
	value := strings.Repeat("v", 20)
	s.fill(pick(1_000_000, 300_000), "HSET", "hash", func(i int) []string {
		return []string{"field:" + strconv.Itoa(i), value}
	})
	return s.together(2*time.Minute, []string{"COPY", "hash", "copy"}, []string{"DUMP", "hash"}).String()
}
