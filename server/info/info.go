// Package info implements INFO and MEMORY, and has the figures that they and the metrics
// read.
//
// INFO is text: sections of name:value lines. The names are those of Redis, which tools
// expect; a figure that does not exist here is left out or, where zero is true, zero.
// Redoubt's own figures are in the sections channels and redoubt. Nothing here walks over
// keys: the cost of INFO does not depend on the data. The server provides its figures as
// plain values (Source); this package knows no session and no store.
package info

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"

	"redoubt/command"
	"redoubt/server/admin"
)

// Reporter writes the figures of a Source. Init is called before use.
type Reporter struct {
	Source
	runID       string
	startMemory int64
	peakMemory  atomic.Int64
}

// Init sets the source, and notes how much memory is in use at the start.
func (r *Reporter) Init(from Source) {
	r.Source, r.runID = from, randomID()
	r.startMemory = r.Memory().Used
}

// randomID returns a random id of 40 hexadecimal digits.
func randomID() string {
	b := make([]byte, 20)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Commands returns INFO and MEMORY.
func (r *Reporter) Commands() []*admin.Command {
	return append(r.infoCommands(), r.memoryCommands()...)
}

func (r *Reporter) infoCommands() []*admin.Command {
	return []*admin.Command{{
		Command: &command.Command{
			Name: "info", Group: command.Server, Since: "1.0.0", Arity: -1,
			Flags: command.Loading | command.Stale, Categories: command.CatDangerous,
			Tips:    []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
			Syntax:  "[section...]",
			Summary: "Shows figures about the server, by section.",
		},
		Run: func(c *admin.Call) error {
			c.Reply.Verbatim("txt", r.Text(c.Args[1:]))
			return nil
		}, Worker: true,
	}}
}

// section is one section of INFO.
type section struct {
	name  string // in lower case
	title string
	// ordinary sections are in INFO without arguments, hidden ones only if named.
	ordinary, hidden bool
	write            func(*text)
}

var sections = []section{
	{name: "server", title: "Server", ordinary: true, write: writeServer},
	{name: "clients", title: "Clients", ordinary: true, write: writeClients},
	{name: "memory", title: "Memory", ordinary: true, write: writeMemory},
	{name: "persistence", title: "Persistence", ordinary: true, write: writePersistence},
	{name: "stats", title: "Stats", ordinary: true, write: writeStats},
	{name: "replication", title: "Replication", ordinary: true, write: writeReplication},
	{name: "cpu", title: "CPU", ordinary: true, write: writeCPU},
	{name: "modules", title: "Modules", ordinary: true, write: func(*text) {}},
	{name: "commandstats", title: "Commandstats", write: writeCommandStats},
	{name: "errorstats", title: "Errorstats", ordinary: true, write: writeErrorStats},
	{name: "latencystats", title: "Latencystats", write: writeLatencyStats},
	{name: "cluster", title: "Cluster", ordinary: true, write: func(t *text) {
		t.nums("cluster_enabled", admin.BoolInt(t.r.Server().Cluster))
	}},
	{name: "keyspace", title: "Keyspace", ordinary: true, write: writeKeyspace},
	{name: "channels", title: "Channels", ordinary: true, write: writeChannels},
	{name: "redoubt", title: "Redoubt", ordinary: true, write: writeRedoubt},
	{name: "debug", title: "Debug", hidden: true, write: func(*text) {}},
}

// text collects the text of INFO.
type text struct {
	r     *Reporter
	store Store // read once for all sections
	b     strings.Builder
}

func (t *text) num(name string, n int64) { fmt.Fprintf(&t.b, "%s:%d\r\n", name, n) }

func (t *text) nums(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&t.b, "%s:%v\r\n", pairs[i], pairs[i+1])
	}
}

func (t *text) line(format string, args ...any) {
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteString("\r\n")
}

// zeros writes 0 for figures that do not exist here.
func (t *text) zeros(names ...string) {
	for _, n := range names {
		t.num(n, 0)
	}
}

// Text returns the text of the sections that the arguments name.
func (r *Reporter) Text(args [][]byte) string {
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
	t := &text{r: r, store: r.Store()}
	for _, s := range sections {
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

// human formats bytes as Redis does.
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
