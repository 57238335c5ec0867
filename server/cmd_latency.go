package server

import (
	"strings"
	"time"

	"redoubt/command"
	"redoubt/wire"
)

func latencyCommands() []*local {
	sub := func(name, since string, arity int, syntax, summary, policy string, run func(*localCall) error) *local {
		return &local{Command: &command.Command{
			Name: name, Group: command.Server, Since: since, Arity: arity,
			Flags:  command.Admin | command.NoScript | command.Loading | command.Stale,
			Tips:   []string{"nondeterministic_output", "request_policy:all_nodes", policy},
			Syntax: syntax, Summary: summary,
		}, run: run, worker: true}
	}
	const special = "response_policy:special"
	reset := sub("reset", "2.8.13", -2, "[event...]", "Forgets the samples of some events, or of all.",
		"response_policy:agg_sum", latencyReset)
	reset.Tips = reset.Tips[1:]
	return []*local{{
		Command: &command.Command{
			Name: "latency", Group: command.Server, Since: "2.8.13", Arity: -2,
			Summary: "Holds the commands about how long things take.",
		},
		subs: []*local{
			sub("doctor", "2.8.13", 2, "", "Explains the latency events that were seen.", special, func(c *localCall) error {
				c.w.Verbatim("txt", c.srv.latency.doctor(time.Now()))
				return nil
			}),
			sub("graph", "2.8.13", 3, "event", "Draws the samples of an event.", special, latencyGraph),
			sub("histogram", "7.0.0", -2, "[command...]",
				"Counts the calls of commands by how long they took, cumulatively, in microseconds.", special, latencyHistogram),
			sub("history", "2.8.13", 3, "event", "Lists the samples of an event: Unix time and milliseconds.", special, latencyHistory),
			sub("latest", "2.8.13", 2, "",
				"Lists the events with their last sample, its time, and the largest one.", special, latencyLatest),
			reset,
			helpCommand(command.Server, "2.8.13", 0),
		},
	}}
}

func latencyGraph(c *localCall) error {
	event := string(c.args[2])
	s, ok := c.srv.latency.series(event)
	if !ok {
		return command.Error("ERR No samples available for event '" + event + "'")
	}
	c.w.Verbatim("txt", s.graph(event, time.Now()))
	return nil
}

func latencyHistory(c *localCall) error {
	s, _ := c.srv.latency.series(string(c.args[2]))
	c.w.Array(len(s.samples))
	for _, x := range s.samples {
		c.w.Array(2)
		c.w.Int(x.at)
		c.w.Int(x.ms)
	}
	return nil
}

func latencyLatest(c *localCall) error {
	type event struct {
		name string
		latencySeries
	}
	var list []event
	for _, name := range c.srv.latency.names() {
		if s, ok := c.srv.latency.series(name); ok {
			list = append(list, event{name, s})
		}
	}
	c.w.Array(len(list))
	for _, e := range list {
		last := e.samples[len(e.samples)-1]
		c.w.Array(4)
		c.w.BulkString(e.name)
		c.w.Int(last.at)
		c.w.Int(last.ms)
		c.w.Int(e.max)
	}
	return nil
}

func latencyReset(c *localCall) error {
	events := make([]string, len(c.args)-2)
	for i, a := range c.args[2:] {
		events[i] = string(a)
	}
	c.w.Int(int64(c.srv.latency.reset(events...)))
	return nil
}

func latencyHistogram(c *localCall) error {
	var list []*command.Command
	for _, a := range c.args[2:] {
		name, sub, _ := strings.Cut(string(a), "|")
		cmd := c.srv.table.Lookup([]byte(name))
		if cmd != nil && sub != "" {
			cmd = cmd.Sub([]byte(sub))
		}
		if cmd != nil {
			list = append(append(list, cmd), cmd.Subs...)
		}
	}
	if len(c.args) == 2 {
		list = c.srv.table.All()
	}
	out := wire.Writer{Proto: c.w.Proto}
	n := 0
	for _, cmd := range list {
		if s := c.srv.stats.command(cmd); s.timed > 0 {
			n++
			out.BulkString(cmd.FullName)
			s.writeHistogram(&out)
		}
	}
	c.w.Map(n)
	c.w.Buf = append(c.w.Buf, out.Buf...)
	return nil
}

// firstBucket is 2^10 nanoseconds: a microsecond, nearly.
const firstBucket = 10

// writeHistogram writes the number of calls, and how many of them took up to
// 1, 2, 4 and so on microseconds. The limits are powers of two nanoseconds, and
// a little more by the way in which Redis groups durations: 33 follows 16.
func (s *commandStats) writeHistogram(w *wire.Writer) {
	w.Map(2)
	w.BulkString("calls")
	w.Int(int64(s.timed))
	w.BulkString("histogram_usec")
	type step struct{ micros, count int64 }
	var steps []step
	before := uint64(0)
	for exp := firstBucket; before < s.timed; exp++ {
		count := s.upTo(exp)
		if exp > octaves {
			count = s.timed
		}
		if count > before {
			top := int64(1) << exp
			steps = append(steps, step{(top + top/128 - 1) / 1000, int64(count)})
		}
		before = count
	}
	w.Map(len(steps))
	for _, x := range steps {
		w.Int(x.micros)
		w.Int(x.count)
	}
}
