package observe

import (
	"strings"
	"time"

	"redoubt/command"
	"redoubt/server/admin"
	"redoubt/wire"
)

// latencyCommands returns LATENCY.
func (o *Observer) latencyCommands() []*admin.Command {
	sub := func(name, since string, arity int, syntax, summary, policy string, run func(*admin.Call) error) *admin.Command {
		return &admin.Command{Command: &command.Command{
			Name: name, Group: command.Server, Since: since, Arity: arity,
			Flags:  command.Admin | command.NoScript | command.Loading | command.Stale,
			Tips:   []string{"nondeterministic_output", "request_policy:all_nodes", policy},
			Syntax: syntax, Summary: summary,
		}, Run: run, Worker: true}
	}
	const special = "response_policy:special"
	reset := sub("reset", "2.8.13", -2, "[event...]", "Forgets the samples of some events, or of all.",
		"response_policy:agg_sum", o.latencyReset)
	reset.Tips = reset.Tips[1:]
	return []*admin.Command{{
		Command: &command.Command{
			Name: "latency", Group: command.Server, Since: "2.8.13", Arity: -2,
			Summary: "Holds the commands about how long things take.",
		},
		Subs: []*admin.Command{
			sub("doctor", "2.8.13", 2, "", "Explains the latency events that were seen.", special, func(c *admin.Call) error {
				c.Reply.Verbatim("txt", o.Latency.doctor(time.Now()))
				return nil
			}),
			sub("graph", "2.8.13", 3, "event", "Draws the samples of an event.", special, o.latencyGraph),
			sub("histogram", "7.0.0", -2, "[command...]",
				"Counts the calls of commands by how long they took, cumulatively, in microseconds.", special, o.latencyHistogram),
			sub("history", "2.8.13", 3, "event", "Lists the samples of an event: Unix time and milliseconds.", special, o.latencyHistory),
			sub("latest", "2.8.13", 2, "",
				"Lists the events with their last sample, its time, and the largest one.", special, o.latencyLatest),
			reset,
			admin.Help(command.Server, "2.8.13", 0),
		},
	}}
}

func (o *Observer) latencyGraph(c *admin.Call) error {
	event := string(c.Args[2])
	s, ok := o.Latency.find(event)
	if !ok {
		return command.Error("ERR No samples available for event '" + event + "'")
	}
	c.Reply.Verbatim("txt", s.graph(event, time.Now()))
	return nil
}

func (o *Observer) latencyHistory(c *admin.Call) error {
	s, _ := o.Latency.find(string(c.Args[2]))
	c.Reply.Array(len(s.samples))
	for _, x := range s.samples {
		c.Reply.Array(2)
		c.Reply.Int(x.at)
		c.Reply.Int(x.ms)
	}
	return nil
}

func (o *Observer) latencyLatest(c *admin.Call) error {
	type event struct {
		name string
		series
	}
	var list []event
	for _, name := range o.Latency.names() {
		if s, ok := o.Latency.find(name); ok {
			list = append(list, event{name, s})
		}
	}
	c.Reply.Array(len(list))
	for _, e := range list {
		last := e.samples[len(e.samples)-1]
		c.Reply.Array(4)
		c.Reply.BulkString(e.name)
		c.Reply.Int(last.at)
		c.Reply.Int(last.ms)
		c.Reply.Int(e.max)
	}
	return nil
}

func (o *Observer) latencyReset(c *admin.Call) error {
	events := make([]string, len(c.Args)-2)
	for i, a := range c.Args[2:] {
		events[i] = string(a)
	}
	c.Reply.Int(int64(o.Latency.reset(events...)))
	return nil
}

func (o *Observer) latencyHistogram(c *admin.Call) error {
	var list []*command.Command
	for _, a := range c.Args[2:] {
		name, sub, _ := strings.Cut(string(a), "|")
		cmd := c.Table.Lookup([]byte(name))
		if cmd != nil && sub != "" {
			cmd = cmd.Sub([]byte(sub))
		}
		if cmd != nil {
			list = append(append(list, cmd), cmd.Subs...)
		}
	}
	if len(c.Args) == 2 {
		list = c.Table.All()
	}
	out := wire.Writer{Proto: c.Reply.Proto}
	n := 0
	for _, cmd := range list {
		if s := o.Stats.Command(cmd); s.Timed > 0 {
			n++
			out.BulkString(cmd.FullName)
			s.writeHistogram(&out)
		}
	}
	c.Reply.Map(n)
	c.Reply.Buf = append(c.Reply.Buf, out.Buf...)
	return nil
}

// firstBucket stands for 2^10 nanoseconds, about a microsecond.
const firstBucket = 10

// writeHistogram writes the number of calls, and how many of them took up to
// 1, 2, 4 and so on microseconds. The limits are powers of two nanoseconds, rounded up
// a little as Redis does: 33 follows 16.
func (s *CommandStats) writeHistogram(w *wire.Writer) {
	w.Map(2)
	w.BulkString("calls")
	w.Int(int64(s.Timed))
	w.BulkString("histogram_usec")
	type step struct{ micros, count int64 }
	var steps []step
	before := uint64(0)
	for exp := firstBucket; before < s.Timed; exp++ {
		count := s.UpTo(exp)
		if exp > octaves {
			count = s.Timed
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
