package server_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testserver"
)

// Each policy lets data beyond maxmemory replace older data, and keeps what it must keep: without
// an expiry for volatile policies, what is used for the others.
func TestEvictionPolicies(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("x", 1000)
	for _, policy := range []string{
		"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "noeviction",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			c := dial(t, testserver.Start(t, testserver.Options{
				Engine: "memory", Args: []string{"--maxmemory", "2mb", "--maxmemory-policy", policy, "--maxmemory-samples", "10", "--lfu-log-factor", "0"},
			}).Addr)
			send := func(args ...string) string {
				t.Helper()
				if _, err := c.Do(args...); err != nil {
					t.Fatal(err)
				}
				return string(c.Raw())
			}
			expiring := strings.HasPrefix(policy, "volatile-")
			if expiring {
				for i := range 100 { // these do not expire
					send("SET", fmt.Sprint("stays", i), value)
				}
			}
			refused := 0
			for i := range 5000 {
				args := []string{"SET", fmt.Sprint("key", i), value}
				if expiring {
					args = append(args, "EX", strconv.Itoa(1000+i))
				}
				switch reply := send(args...); {
				case strings.HasPrefix(reply, "-OOM"):
					refused++
				case reply != "+OK\r\n":
					t.Fatal(reply)
				}
				if i == 0 || i%100 == 0 { // used more often than any other
					send("GET", "key0")
				}
			}
			evicted, _ := strconv.Atoi(infoOf(t, c, "stats")["evicted_keys"])
			used, _ := strconv.Atoi(infoOf(t, c, "memory")["used_memory"])
			if used > 2<<20+100_000 {
				t.Errorf("%d bytes are used", used)
			}
			if policy == "noeviction" {
				if evicted != 0 || refused == 0 {
					t.Errorf("%d were evicted, %d refused", evicted, refused)
				}
				return
			}
			if refused > 0 || evicted < 2500 {
				t.Errorf("%d were evicted, %d refused", evicted, refused)
			}
			if expiring {
				for i := range 100 {
					if reply := send("EXISTS", fmt.Sprint("stays", i)); reply != ":1\r\n" {
						t.Fatalf("a key that does not expire is gone: %s", reply)
					}
				}
			}
			if strings.HasSuffix(policy, "-lfu") {
				if reply := send("EXISTS", "key0"); reply != ":1\r\n" {
					t.Error("the key that was used most is gone")
				}
			}
			if policy == "volatile-ttl" { // the last ones live longest, and new ones die first only if they are the worst of all
				early, late := 0, 0
				for i := range 500 {
					early += strings.Count(send("EXISTS", fmt.Sprint("key", i)), "1")
					late += strings.Count(send("EXISTS", fmt.Sprint("key", 4499+i)), "1")
				}
				if early > 10 || late < 450 {
					t.Errorf("%d of the 500 that expire first are left, %d of the 500 that expire last", early, late)
				}
			}
		})
	}
}

// What goes is noted as an event, and told to replicas.
func TestEvictionIsNoted(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{
		Engine: "memory", Args: []string{"--maxmemory", "2mb", "--maxmemory-policy", "allkeys-random", "--notify-keyspace-events", "Ee"},
	})
	listener, c := dial(t, s.Addr), dial(t, s.Addr)
	must(t, listener, "SUBSCRIBE __keyevent@0__:evicted")
	value := strings.Repeat("x", 50_000)
	var names []string
	for i := range 80 {
		name := fmt.Sprint("key", i)
		if _, err := c.Do("SET", name, value); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	v, err := listener.Read()
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Elems) != 3 || v.Elems[0].Str != "message" || !slices.Contains(names, v.Elems[2].Str) {
		t.Errorf("%+v", v)
	}
}

// A database of one large value is evicted, and its memory counts as free at once.
func TestEvictionOfALargeValue(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{
		Engine: "memory", Args: []string{"--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru"},
	}).Addr)
	for i := 0; ; i += 100 {
		args := []string{"HSET", "large"}
		for n := range 100 {
			args = append(args, fmt.Sprint("field", i+n), strings.Repeat("v", 100))
		}
		if _, err := c.Do(args...); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(c.Raw()), "-") || i > 100_000 {
			t.Fatalf("%d fields: %s", i, c.Raw())
		}
		if infoOf(t, c, "stats")["evicted_keys"] != "0" {
			break
		}
	}
	if used, _ := strconv.Atoi(infoOf(t, c, "memory")["used_memory"]); used > 4<<20 {
		t.Errorf("%d bytes are used", used)
	}
}

// The use of a key is known: by OBJECT, and unless the client or the command does not count.
func TestUseOfKeys(t *testing.T) {
	t.Parallel()
	clock := testserver.NewClock(time.Unix(1_700_000_000, 0))
	s := testserver.Start(t, testserver.Options{Engine: "memory", Clock: clock})
	c := dial(t, s.Addr)
	send := func(want, line string) {
		t.Helper()
		if _, err := c.Do(strings.Fields(line)...); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(c.Raw())); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	send("+OK", "SET a 1")
	send("+OK", "SET b 1")
	clock.Advance(100 * time.Second)
	send(":100", "OBJECT IDLETIME a")
	send(":1", "EXISTS a")
	send("+string", "TYPE a")
	send(":-1", "TTL a")
	send(":100", "OBJECT IDLETIME a")
	send("+OK", "CLIENT NO-TOUCH ON")
	send("$1\r\n1", "GET a")
	send(":100", "OBJECT IDLETIME a")
	send(":1", "TOUCH a")
	send(":0", "OBJECT IDLETIME a")
	send("+OK", "CLIENT NO-TOUCH OFF")
	send(":100", "OBJECT IDLETIME b")
	send("$1\r\n1", "GET b")
	send(":0", "OBJECT IDLETIME b")
	send("-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.", "OBJECT FREQ a")
	send("+OK", "CONFIG SET maxmemory-policy allkeys-lfu lfu-log-factor 0")
	send("+OK", "SET c 1")
	send(":5", "OBJECT FREQ c")
	for range 10 {
		send("$1\r\n1", "GET c")
	}
	send(":15", "OBJECT FREQ c")
	clock.Advance(3 * time.Minute)
	send(":12", "OBJECT FREQ c")
	send("-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.", "OBJECT IDLETIME c")
}

// Clients that are told of evicted keys and do not read make one round of eviction evict no
// more: what they leave unread counts, but is not what eviction is to make up for.
func TestEvictionDoesNotFeedItself(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Engine: "memory", Args: []string{
		"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-random", "--maxmemory-eviction-tenacity", "100", "--maxmemory-clients", "0",
	}})
	c := dial(t, s.Addr)
	const keys = 1000
	for i := range keys {
		must(t, c, fmt.Sprintf("SET %s%d v", strings.Repeat("k", 20_000), i))
	}
	for range 20 {
		deaf := dial(t, s.Addr)
		if err := deaf.Conn().(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		must(t, deaf, "HELLO 3")
		must(t, deaf, "CLIENT TRACKING ON BCAST")
	}
	used, _ := strconv.Atoi(infoOf(t, c, "memory")["used_memory"])
	must(t, c, fmt.Sprint("CONFIG SET maxmemory ", used-400_000)) // some twenty keys
	evicted, _ := strconv.Atoi(infoOf(t, c, "stats")["evicted_keys"])
	if evicted == 0 || evicted > 60 {
		t.Errorf("%d of %d keys were evicted", evicted, keys)
	}
}
