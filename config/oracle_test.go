package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/config"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// A file that we rewrite means the same to Redis as to us, and one that Redis
// rewrites means the same to us as to Redis.
func TestRewriteLikeRedis(t *testing.T) {
	testserver.Oracle(t)
	t.Parallel()
	dir := t.TempDir()
	const original = `# The beginning.
maxclients 500
save 900 1
save 300 10
 # indented
client-output-buffer-limit replica 512mb 128mb 60
client-output-buffer-limit pubsub 64mb 16mb 90
lua-time-limit 4000
slowlog-max-len 64
slowlog-max-len 32
notify-keyspace-events Ex
masteruser "with \"quotes\" and \x01"
rename-command FLUSHALL ""
maxmemory 100mb
maxmemory-policy allkeys-lru
proc-title-template "{title} {port}"
oom-score-adj-values 1 2 3
latency-tracking-info-percentiles 50 90
aclfile ""
user worker on >secret ~jobs:* +@read
hash-max-ziplist-entries 100
`
	changes := [][2]string{
		{"maxclients", "600"}, {"save", "60 5 10 50 5 500"}, {"client-output-buffer-limit", "normal 1mb 2000 3"}, {"timeout", "30"},
		{"slowlog-max-len", "128"}, {"notify-keyspace-events", "KEA"}, {"maxmemory", "12345"}, {"maxmemory-policy", "noeviction"},
		{"tcp-keepalive", "60"}, {"hash-max-listpack-entries", "101"}, {"shutdown-on-sigterm", "nosave force"}, {"masterauth", "a b'c"},
		{"latency-tracking-info-percentiles", ""}, {"appendonly", "no"}, {"repl-backlog-size", "2mb"}, {"lfu-decay-time", "3"},
	}
	ours, theirs := filepath.Join(dir, "ours.conf"), filepath.Join(dir, "theirs.conf")
	for _, path := range []string{ours, theirs} {
		if err := os.WriteFile(path, []byte(original), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := config.New()
	if err := c.LoadFile(ours); err != nil {
		t.Fatal(err)
	}
	if err := c.SetAll(changes); err != nil {
		t.Fatal(err)
	}
	if err := c.Rewrite(ours); err != nil {
		t.Fatal(err)
	}
	// Redis need not understand what it does not have.
	text, err := os.ReadFile(ours)
	if err != nil {
		t.Fatal(err)
	}
	var plain strings.Builder
	for line := range strings.Lines(string(text)) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); c.Lookup(word) == nil || c.Lookup(word).Flags&config.Own == 0 || word == "maxmemory" || word == "appendonly" {
			plain.WriteString(line)
		}
	}
	if err := os.WriteFile(ours, []byte(plain.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	redis := open(t, ours)
	for _, d := range c.Directives() {
		if d.Flags&config.Own != 0 && d.Name != "maxmemory" || skip[d.Name] {
			continue
		}
		if got := redis.get(d.Name); got != nil && *got != c.Get(d.Name) {
			t.Errorf("%s is %q for us and %q for Redis in\n%s", d.Name, c.Get(d.Name), *got, plain.String())
		}
	}

	redis = open(t, theirs)
	args := []string{"CONFIG", "SET"}
	for _, p := range changes {
		args = append(args, p[0], p[1])
	}
	redis.ok(args...)
	redis.ok("CONFIG", "REWRITE")
	loaded := config.New()
	if err := loaded.LoadFile(theirs); err != nil {
		t.Fatal(err)
	}
	for _, d := range loaded.Directives() {
		if skip[d.Name] {
			continue
		}
		want := c.Get(d.Name)
		if d.Flags&config.Own == 0 && loaded.Get(d.Name) != want {
			t.Errorf("%s is %q for us, and %q as Redis has written it", d.Name, want, loaded.Get(d.Name))
		}
	}
	if got, want := len(loaded.Renames()), 1; got != want {
		t.Errorf("%d renamed commands", got)
	}
}

// skip are directives that the way of starting Redis sets.
var skip = map[string]bool{"port": true, "bind": true, "dir": true, "daemonize": true}

type redis struct {
	t *testing.T
	c *respclient.Client
}

// open starts Redis with a configuration file.
func open(t *testing.T, file string) redis {
	t.Helper()
	c, err := respclient.Dial(testserver.StartRedisFile(t, file).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return redis{t, c}
}

func (r redis) ok(args ...string) {
	r.t.Helper()
	v, err := r.c.Do(args...)
	if err != nil || v.Str != "OK" {
		r.t.Fatalf("%q: %v, %v", args, v, err)
	}
}

func (r redis) get(name string) *string {
	r.t.Helper()
	v, err := r.c.Do("CONFIG", "GET", name)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(v.Elems) < 2 {
		return nil
	}
	return &v.Elems[1].Str
}
