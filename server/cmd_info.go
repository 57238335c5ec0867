package server

import (
	"fmt"
	"strings"

	"redoubt/command"
)

// INFO is text: sections of name:value lines. The names are those that tools
// look for in Redis; a figure that does not exist here is left out or, where
// zero is the truth about it, zero. What is ours stands in the section redoubt.
// Nothing here walks over keys: the cost of INFO does not depend on the data.

func infoCommands() []*local {
	return []*local{{
		Command: &command.Command{
			Name: "info", Group: command.Server, Since: "1.0.0", Arity: -1,
			Flags: command.Loading | command.Stale, Categories: command.CatDangerous,
			Tips:    []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
			Syntax:  "[section...]",
			Summary: "Shows figures about the server, by section.",
		},
		run: info, worker: true,
	}}
}

// infoSection is one section of INFO.
type infoSection struct {
	name  string // in lower case
	title string
	// ordinary sections come without being asked for, hidden ones only by name.
	ordinary, hidden bool
	write            func(*infoText)
}

var infoSections = []infoSection{
	{name: "server", title: "Server", ordinary: true, write: infoServer},
	{name: "clients", title: "Clients", ordinary: true, write: infoClients},
	{name: "memory", title: "Memory", ordinary: true, write: infoMemory},
	{name: "persistence", title: "Persistence", ordinary: true, write: infoPersistence},
	{name: "stats", title: "Stats", ordinary: true, write: infoStats},
	{name: "replication", title: "Replication", ordinary: true, write: infoReplication},
	{name: "cpu", title: "CPU", ordinary: true, write: infoCPU},
	{name: "modules", title: "Modules", ordinary: true, write: func(*infoText) {}},
	{name: "commandstats", title: "Commandstats", write: infoCommandStats},
	{name: "errorstats", title: "Errorstats", ordinary: true, write: infoErrorStats},
	{name: "latencystats", title: "Latencystats", write: infoLatencyStats},
	{name: "cluster", title: "Cluster", ordinary: true, write: func(t *infoText) {
		t.nums("cluster_enabled", boolInt(t.srv.fleet.Load() != nil))
	}},
	{name: "keyspace", title: "Keyspace", ordinary: true, write: infoKeyspace},
	{name: "redoubt", title: "Redoubt", ordinary: true, write: infoRedoubt},
	{name: "debug", title: "Debug", hidden: true, write: infoDebug},
}

// infoText collects the text of INFO.
type infoText struct {
	srv *Server
	eng storeFigures // read once for all sections
	b   strings.Builder
}

func (t *infoText) num(name string, n int64) { fmt.Fprintf(&t.b, "%s:%d\r\n", name, n) }

func (t *infoText) nums(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&t.b, "%s:%v\r\n", pairs[i], pairs[i+1])
	}
}

func (t *infoText) line(format string, args ...any) {
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteString("\r\n")
}

// zeros are figures of things that do not exist here.
func (t *infoText) zeros(names ...string) {
	for _, n := range names {
		t.num(n, 0)
	}
}

func info(c *localCall) error {
	c.w.Verbatim("txt", c.srv.info(c.args[1:]))
	return nil
}

// info makes the text of the sections that were asked for.
func (srv *Server) info(args [][]byte) string {
	wanted := make(map[string]bool)
	all, ordinary := false, len(args) == 0
	for _, a := range args {
		switch name := strings.ToLower(string(a)); name {
		case "default":
			ordinary = true
		case "all", "everything":
			all = true
		case "module_list":
			wanted["modules"] = true
		default:
			wanted[name] = true
		}
	}
	t := &infoText{srv: srv, eng: srv.figures()}
	for _, s := range infoSections {
		if !wanted[s.name] && (s.hidden || !all && !(ordinary && s.ordinary)) {
			continue
		}
		if t.b.Len() > 0 {
			t.b.WriteString("\r\n")
		}
		t.b.WriteString("# " + s.title + "\r\n")
		s.write(t)
	}
	return t.b.String()
}

// human prints bytes as Redis does.
func human(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%dB", n)
	}
	for i, unit := range []string{"K", "M", "G", "T", "P"} {
		if n < 1<<(10*(i+2)) {
			return fmt.Sprintf("%.2f%s", float64(n)/float64(int64(1)<<(10*(i+1))), unit)
		}
	}
	return fmt.Sprintf("%dB", n)
}
