package server_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// dial connects to a server for the length of the test.
func dial(t *testing.T, addr string) *respclient.Client {
	t.Helper()
	c, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a command, of words, and returns the reply.
func ask(t *testing.T, c *respclient.Client, call string) respclient.Value {
	t.Helper()
	v, err := c.Do(strings.Fields(call)...)
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return v
}

// must is ask for a command that must not fail.
func must(t *testing.T, c *respclient.Client, call string) respclient.Value {
	t.Helper()
	v := ask(t, c, call)
	if v.IsError() {
		t.Fatalf("%s: %s", call, v.Str)
	}
	return v
}

// infoOf returns the fields of INFO.
func infoOf(t *testing.T, c *respclient.Client, sections string) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	for l := range strings.SplitSeq(must(t, c, "INFO "+sections).Str, "\r\n") {
		name, value, ok := strings.Cut(l, ":")
		if !ok {
			if l != "" && !strings.HasPrefix(l, "# ") {
				t.Errorf("INFO %s has the line %q", sections, l)
			}
			continue
		}
		if _, twice := fields[name]; twice && name != "redoubt_version" {
			t.Errorf("INFO %s has %s twice", sections, name)
		}
		fields[name] = value
	}
	return fields
}

func number(t *testing.T, fields map[string]string, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(fields[name], 10, 64)
	if err != nil {
		t.Fatalf("%s is %q", name, fields[name])
	}
	return n
}

// without are fields of Redis that are left out, and why.
var without = map[string]string{
	"total_reads_processed":                  "not counted",
	"total_writes_processed":                 "not counted",
	"io_threaded_reads_processed":            "not counted",
	"io_threaded_writes_processed":           "not counted",
	"reply_buffer_shrinks":                   "reply buffers are shared",
	"reply_buffer_expands":                   "reply buffers are shared",
	"eventloop_cycles":                       "not counted",
	"eventloop_duration_sum":                 "not measured",
	"instantaneous_eventloop_cycles_per_sec": "not counted",
	"instantaneous_eventloop_duration_usec":  "not measured",
	"used_cpu_sys_main_thread":               "no thread is the main one",
	"used_cpu_user_main_thread":              "no thread is the main one",
}

// INFO has every field of Redis that tools look for.
func TestInfoFields(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile("testdata/info-7.2.6.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"mem", "local"} {
		c := dial(t, testserver.Start(t, testserver.Options{Engine: engine}).Addr)
		must(t, c, "SET k v")
		fields := infoOf(t, c, "everything")
		for name := range strings.FieldsSeq(string(recorded)) {
			_, has := fields[name]
			if reason := without[name]; has == (reason != "") {
				t.Errorf("%s: %s: in INFO: %v, left out: %q", engine, name, has, reason)
			}
		}
		if fields["engine"] != engine || fields["db0"] != "keys=1,expires=0,avg_ttl=0" {
			t.Errorf("engine %s, db0 %s", fields["engine"], fields["db0"])
		}
		for _, name := range []string{"used_memory", "used_memory_rss", "used_memory_peak", "total_system_memory", "maxmemory"} {
			if number(t, fields, name) <= 0 {
				t.Errorf("%s: %s is %s", engine, name, fields[name])
			}
		}
	}
}

func TestInfoSections(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{}).Addr)
	titles := func(call string) (out []string) {
		for l := range strings.SplitSeq(must(t, c, call).Str, "\r\n") {
			if title, ok := strings.CutPrefix(l, "# "); ok {
				out = append(out, title)
			}
		}
		return out
	}
	const ordinary = "[Server Clients Memory Persistence Stats Replication CPU Modules Errorstats Cluster Keyspace Channels Redoubt]"
	const all = "[Server Clients Memory Persistence Stats Replication CPU Modules Commandstats Errorstats Latencystats Cluster Keyspace Channels Redoubt]"
	for call, want := range map[string]string{
		"INFO":                        ordinary,
		"INFO default":                ordinary,
		"INFO DEFAULT cpu":            ordinary,
		"INFO all":                    all,
		"INFO everything cpu":         all,
		"INFO cpu CLUSTER cpu nosuch": "[CPU Cluster]",
		"INFO nosuch":                 "[]",
		"INFO modules":                "[Modules]",
		"INFO debug":                  "[Debug]",
	} {
		if got := fmt.Sprint(titles(call)); got != want {
			t.Errorf("%s: got %s, want %s", call, got, want)
		}
	}
}

// The figures count what happens, and CONFIG RESETSTAT sets them back.
func TestInfoCounts(t *testing.T) {
	t.Parallel()
	for _, pipes := range []bool{false, true} {
		addr := testserver.Start(t, testserver.Options{Pipes: pipes}).Addr
		c := dial(t, addr)
		must(t, c, "CONFIG RESETSTAT")
		before := infoOf(t, c, "stats")
		must(t, dial(t, addr), "PING") // when it is answered, the connection is counted
		must(t, c, "SET k v")
		must(t, c, "GET k")
		must(t, c, "GET nosuch")
		ask(t, c, "GET")
		ask(t, c, "INCR k")
		ask(t, c, "NOSUCH")
		after := infoOf(t, c, "all")
		for name, want := range map[string]int64{
			"total_connections_received": 1, "total_commands_processed": 6, "keyspace_hits": 1, "keyspace_misses": 1,
			"total_error_replies": 3,
		} {
			if got := number(t, after, name) - number(t, before, name); got != want {
				t.Errorf("%s grew by %d, want %d", name, got, want)
			}
		}
		for _, name := range []string{"total_net_input_bytes", "total_net_output_bytes"} {
			if got := number(t, after, name) - number(t, before, name); got < 50 || got > 10_000 {
				t.Errorf("%s grew by %d", name, got)
			}
		}
		for name, want := range map[string]string{
			"cmdstat_get": "calls=2,", "cmdstat_incr": "calls=1,", "cmdstat_config|resetstat": "calls=1,", "errorstat_ERR": "count=3",
			"latency_percentiles_usec_get": "p50=",
		} {
			if !strings.HasPrefix(after[name], want) {
				t.Errorf("%s is %q", name, after[name])
			}
		}
		if !strings.HasSuffix(after["cmdstat_get"], "rejected_calls=1,failed_calls=0") ||
			!strings.HasSuffix(after["cmdstat_incr"], "rejected_calls=0,failed_calls=1") {
			t.Errorf("get: %s, incr: %s", after["cmdstat_get"], after["cmdstat_incr"])
		}
		must(t, c, "CONFIG RESETSTAT")
		reset := infoOf(t, c, "all")
		if number(t, reset, "total_commands_processed") != 1 || number(t, reset, "total_net_input_bytes") > 100 ||
			number(t, reset, "total_error_replies") != 0 || number(t, reset, "keyspace_hits") != 0 || reset["cmdstat_get"] != "" {
			t.Errorf("after CONFIG RESETSTAT: %v", reset)
		}
		if got := number(t, reset, "rdb_changes_since_last_save"); got != 1 {
			t.Errorf("rdb_changes_since_last_save is %d", got)
		}
		must(t, c, "SAVE")
		saved := infoOf(t, c, "persistence redoubt")
		if number(t, saved, "rdb_changes_since_last_save") != 0 || saved["rdb_saves"] != "1" || saved["checkpoints_supported"] != "0" {
			t.Errorf("after SAVE: %v", saved)
		}
	}
}

// Deleting a value of many elements is told as what Redis leaves to the background.
func TestLazyFreedObjects(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	c := f.dial()
	for i := range 200 {
		c.do("RPUSH", "small", fmt.Sprint(i%10))
		c.do("SADD", "large", fmt.Sprint("member ", i))
	}
	c.do("LTRIM", "small", "0", "9")
	c.do("DEL", "small")
	if got := c.info("memory", "lazyfreed_objects"); got != "0" {
		t.Errorf("after a small one: %s", got)
	}
	c.do("UNLINK", "large")
	if got := c.info("memory", "lazyfreed_objects"); got != "1" {
		t.Errorf("after a large one: %s", got)
	}
	c.do("CONFIG", "RESETSTAT")
	if got := c.info("memory", "lazyfreed_objects"); got != "0" {
		t.Errorf("after CONFIG RESETSTAT: %s", got)
	}
}
