// Package top turns what INFO of a server says into a screen of figures: of Redoubt, and of
// every Redis, whose INFO has part of them. Figures that the server does not tell are left out.
//
// The package promises: a frame is text that fits into the width and height that are asked
// for; nothing that a server answers can move the cursor or change the terminal.
package top

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Sample is what INFO said at a moment.
type Sample struct {
	At   time.Time
	Info map[string]string
}

// number returns a field; ok is false if the server does not tell it.
func (s *Sample) number(name string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(s.Info[name], 64)
	return n, err == nil
}

// kept is how many rates are drawn at the most.
const kept = 60

// View makes frames of samples.
type View struct {
	Server    string
	last, now *Sample
	rates     []float64 // commands a second, the newest last
	err       error
}

// Add takes a sample.
func (v *View) Add(s Sample) {
	v.last, v.now, v.err = v.now, &s, nil
	if r, ok := v.rate("total_commands_processed"); ok {
		v.rates = append(v.rates, r)
		v.rates = v.rates[max(0, len(v.rates)-kept):]
	}
}

// Fail notes why there is no sample. The figures of before are not shown as if they were live.
func (v *View) Fail(err error) { v.last, v.now, v.err = nil, nil, err }

// rate returns how much a counter grew in a second since the sample before. A counter that was
// reset has no rate.
func (v *View) rate(name string) (r float64, ok bool) {
	if v.last == nil || v.now == nil {
		return 0, false
	}
	a, has := v.last.number(name)
	b, has2 := v.now.number(name)
	took := v.now.At.Sub(v.last.At).Seconds()
	if !has || !has2 || took <= 0 || b < a {
		return 0, false
	}
	return (b - a) / took, true
}

// figure is a name with its text.
type figure struct{ name, text string }

// group is a line of figures.
type group struct {
	title   string
	figures []figure
}

func (g *group) add(name, text string, ok bool) {
	if ok {
		g.figures = append(g.figures, figure{name, text})
	}
}

// Bytes formats a number of bytes.
func Bytes(n float64) string {
	units := "KMGTP"
	if n < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := -1
	for n >= 1024 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", n, units[i])
}

// Count formats a number that is not of bytes.
func Count(n float64) string {
	for _, u := range []struct {
		unit float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if n >= u.unit {
			if u.name == "k" {
				return fmt.Sprintf("%.1fk", n/1e3)
			}
			return fmt.Sprintf("%.2f%s", n/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%.0f", n)
}

// groups are the figures of the newest sample.
func (v *View) groups() []group {
	s := v.now
	is := func(name string, format func(float64) string) (string, bool) {
		n, ok := s.number(name)
		return format(n), ok
	}
	per := func(name string, format func(float64) string) (string, bool) {
		n, ok := v.rate(name)
		return format(n) + "/s", ok
	}
	var list []group
	put := func(title string, fill func(add func(string, string, bool))) {
		g := group{title: title}
		fill(g.add)
		if len(g.figures) > 0 {
			list = append(list, g)
		}
	}
	with := func(add func(string, string, bool), name string, f func(string, func(float64) string) (string, bool), field string, format func(float64) string) {
		text, ok := f(field, format)
		add(name, text, ok)
	}
	put("commands", func(add func(string, string, bool)) {
		with(add, "rate", per, "total_commands_processed", Count)
		with(add, "errors", per, "total_error_replies", Count)
		with(add, "in", per, "total_net_input_bytes", Bytes)
		with(add, "out", per, "total_net_output_bytes", Bytes)
		with(add, "cold", per, "cold_commands", Count)
	})
	put("keys", func(add func(string, string, bool)) {
		keys, any := 0.0, false
		for name, text := range s.Info {
			if rest, ok := strings.CutPrefix(name, "db"); ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
				var n float64
				if _, err := fmt.Sscanf(text, "keys=%g", &n); err == nil {
					keys, any = keys+n, true
				}
			}
		}
		add("there", Count(keys), any)
		hits, ok := v.rate("keyspace_hits")
		misses, ok2 := v.rate("keyspace_misses")
		add("hits", fmt.Sprintf("%.1f %%", 100*hits/max(1e-9, hits+misses)), ok && ok2 && hits+misses > 0)
		with(add, "expired", per, "expired_keys", Count)
		with(add, "evicted", per, "evicted_keys", Count)
		with(add, "changes", is, "rdb_changes_since_last_save", Count)
	})
	put("clients", func(add func(string, string, bool)) {
		with(add, "connected", is, "connected_clients", Count)
		with(add, "of", is, "maxclients", Count)
		with(add, "blocked", is, "blocked_clients", Count)
		with(add, "memory", is, "clients_memory", Bytes)
		with(add, "refused", is, "rejected_connections", Count)
	})
	put("memory", func(add func(string, string, bool)) {
		with(add, "process", is, "used_memory_rss", Bytes)
		with(add, "of", is, "maxmemory", Bytes)
		with(add, "used", is, "used_memory", Bytes)
		with(add, "rows", is, "engine_resident_mapped_bytes", Bytes)
		with(add, "dirty", is, "engine_dirty_bytes", Bytes)
	})
	put("disk", func(add func(string, string, bool)) {
		with(add, "store", is, "disk_bytes", Bytes)
		with(add, "free", is, "engine_disk_free_bytes", Bytes)
		syncs, ok := v.rate("syncs")
		micros, ok2 := v.rate("sync_usec")
		add("fsync", fmt.Sprintf("%.0f/s of %.2f ms", syncs, micros/max(1e-9, syncs)/1e3), ok && ok2 && syncs > 0)
		with(add, "not on disk", is, "pending_commits", func(n float64) string { return Count(n) + " commits" })
		with(add, "cold reads", per, "engine_cold_reads", Count)
		with(add, "written back", per, "engine_writeback_bytes", Bytes)
		with(add, "compactions", is, "engine_compactions_running", Count)
	})
	put("cpu", func(add func(string, string, bool)) {
		u, ok := v.rate("used_cpu_user")
		k, ok2 := v.rate("used_cpu_sys")
		add("user", fmt.Sprintf("%.0f %%", 100*u), ok)
		add("system", fmt.Sprintf("%.0f %%", 100*k), ok2)
	})
	put("replication", func(add func(string, string, bool)) {
		role := s.Info["role"]
		add("role", role, role != "")
		with(add, "replicas", is, "connected_slaves", Count)
		link := s.Info["master_link_status"]
		add("link", link, link != "")
	})
	return list
}

// alerts are what somebody should look at.
func (v *View) alerts() (list []string) {
	s := v.now
	if text := s.Info["store_error"]; text != "" {
		list = append(list, "WRITES ARE REFUSED: "+text)
	}
	if s.Info["loading"] == "1" {
		list = append(list, "LOADING")
	}
	if s.Info["engine_disk_low"] == "1" {
		list = append(list, "THE DISK IS ALMOST FULL")
	}
	if s.Info["master_link_status"] == "down" {
		list = append(list, "THE LINK TO THE MASTER IS DOWN")
	}
	return list
}

// commands are the commands that took the most time since the sample before, from INFO
// commandstats.
func (v *View) commands() (list []string) {
	if v.last == nil {
		return nil
	}
	type row struct {
		name        string
		calls, usec float64
	}
	var rows []row
	for field, text := range v.now.Info {
		name, ok := strings.CutPrefix(field, "cmdstat_")
		if !ok {
			continue
		}
		was, now := stat(v.last.Info[field]), stat(text)
		if calls := now["calls"] - was["calls"]; calls > 0 && now["usec"] >= was["usec"] {
			rows = append(rows, row{strings.ReplaceAll(name, "|", " "), calls, now["usec"] - was["usec"]})
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		if rows[i].usec != rows[j].usec {
			return rows[i].usec > rows[j].usec
		}
		return rows[i].name < rows[j].name
	})
	took := v.now.At.Sub(v.last.At).Seconds()
	for _, r := range rows {
		text := fmt.Sprintf("  %-24.24s %9s/s  %9.1f us each  %5.1f %% of a processor", r.name, Count(r.calls/took), r.usec/r.calls, r.usec/took/1e4)
		if p := v.now.Info["latency_percentiles_usec_"+strings.ReplaceAll(r.name, " ", "|")]; p != "" {
			text += "  " + p
		}
		list = append(list, text)
	}
	return list
}

// stat reads a line of commandstats: calls=1,usec=2,...
func stat(text string) map[string]float64 {
	m := make(map[string]float64)
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			m[name] = n
		}
	}
	return m
}

// Line is the newest sample in a line, for logs.
func (v *View) Line() string {
	if v.now == nil {
		return plain(v.waiting())
	}
	var parts []string
	for _, g := range v.groups() {
		var words []string
		for _, f := range g.figures {
			words = append(words, f.name+" "+f.text)
		}
		parts = append(parts, g.title+": "+strings.Join(words, ", "))
	}
	return plain(strings.Join(append(v.alerts(), parts...), "; "))
}

// waiting says why there are no figures.
func (v *View) waiting() string {
	if v.err != nil {
		return "no answer: " + v.err.Error()
	}
	return "waiting for the server"
}

// bars are the heights of a drawn rate.
var bars = []rune("▁▂▃▄▅▆▇█")

// Frame draws the newest sample into lines that fit. With color they have escape sequences of
// their own, which count for nothing in the width.
func (v *View) Frame(width, height int, color bool) []string {
	bold := func(s string) string { return s }
	if color {
		bold = func(s string) string { return "\x1b[1m" + s + "\x1b[0m" }
	}
	var lines []string
	put := func(line string, strong bool) {
		line = cut(plain(line), width)
		if strong {
			line = bold(line)
		}
		lines = append(lines, line)
	}
	if v.now == nil {
		put("redoubt top  "+v.Server, true)
		put(v.waiting(), false)
		return lines[:min(len(lines), height)]
	}
	kind := "Redis " + v.now.Info["redis_version"]
	if version := v.now.Info["redoubt_version"]; version != "" {
		kind = "Redoubt " + version + ", engine " + v.now.Info["engine"] + ", " + v.now.Info["durability"]
	}
	put(fmt.Sprintf("redoubt top  %s  %s  up %s  %s", v.Server, kind, up(v.now), v.now.At.Format(time.TimeOnly)), true)
	for _, a := range v.alerts() {
		put("!! "+a, true)
	}
	if len(v.rates) > 0 {
		most := 1.0
		for _, r := range v.rates {
			most = max(most, r)
		}
		var drawn strings.Builder
		for _, r := range v.rates {
			drawn.WriteRune(bars[min(len(bars)-1, int(r/most*float64(len(bars))))])
		}
		put(fmt.Sprintf("%s  at most %s/s", drawn.String(), Count(most)), false)
	}
	lines = append(lines, "")
	for _, g := range v.groups() {
		line := fmt.Sprintf("%-12s", g.title)
		for _, f := range g.figures {
			line += fmt.Sprintf("%s %-*s", f.name, 20-len(f.name), f.text)
		}
		put(line, false)
	}
	if list := v.commands(); len(list) > 0 {
		lines = append(lines, "")
		put("commands by the time that they took", true)
		for _, l := range list {
			put(l, false)
		}
	}
	return lines[:min(len(lines), max(0, height))]
}

func up(s *Sample) string {
	n, _ := s.number("uptime_in_seconds")
	return (time.Duration(n) * time.Second).String()
}

// plain replaces what would move a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// cut shortens a line to a number of characters.
func cut(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(0, width)])
	}
	return strings.TrimRight(s, " ")
}
