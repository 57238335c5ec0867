package master

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/rdbtext"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

func start(t *testing.T, args ...string) *testserver.Server {
	t.Helper()
	return testserver.Start(t, testserver.Options{Engine: "local", Args: append([]string{"--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"}, args...)})
}

// doer connects, and returns a function that runs a command, which must not fail.
func doer(t *testing.T, addr string) func(args ...string) respclient.Value {
	t.Helper()
	c, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func(args ...string) respclient.Value {
		t.Helper()
		v, err := c.Do(args...)
		if err != nil || v.IsError() {
			t.Fatalf("%.100q: %v %v", args, v, err)
		}
		return v
	}
}

// await waits until ok is true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waiting for: %s", what)
		}
	}
}

func info(do func(...string) respclient.Value, name string) string {
	for line := range strings.Lines(do("INFO", "everything").Str) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// number is info of a number.
func number(do func(...string) respclient.Value, name string) int64 {
	n, _ := strconv.ParseInt(info(do, name), 10, 64)
	return n
}

// snapshotText returns the keys of a snapshot.
func (r *reader) snapshotText() map[string]string {
	r.t.Helper()
	keys, err := rdbtext.Keys(bytes.NewReader(r.rdb))
	if err != nil {
		r.t.Fatalf("the snapshot: %v", err)
	}
	return keys
}

// psyncFrom asks to go on behind what the reader has.
func (r *reader) psyncFrom(id string, offset int64) string {
	r.t.Helper()
	r.send("PSYNC", id, strconv.FormatInt(offset+1, 10))
	return r.line()
}

// A replica that comes back gets what it misses, and nothing else, if the backlog has it.
func TestPartialResync(t *testing.T) {
	t.Parallel()
	s := start(t, "--repl-backlog-size", "16384")
	do := doer(t, s.Addr)
	do("SET", "before", "1")
	r := connect(t, s.Addr, "capa", "eof", "capa", "psync2")
	r.full()
	if keys := r.snapshotText(); len(keys) != 1 || keys["0 before"] == "" {
		t.Errorf("the snapshot has %q", keys)
	}
	do("SET", "a", "1")
	do("SET", "end", "1")
	r.until("end")
	id, offset := r.id, r.offset
	r.conn.Close()
	do("SET", "b", "2")
	do("SET", "end", "2")
	again := connect(t, s.Addr, "capa", "psync2")
	if line := again.psyncFrom(id, offset); line != "+CONTINUE "+id {
		t.Fatalf("PSYNC: %s", line)
	}
	if got := again.until("end"); len(got) != 1 || got[0][1] != "b" {
		t.Errorf("the stream goes on with %q", got)
	}
	old := connect(t, s.Addr, "listening-port", "1")
	if line := old.psyncFrom(id, offset); line != "+CONTINUE" {
		t.Errorf("PSYNC without capa psync2: %s", line)
	}
	for range 40 {
		do("SET", "big", strings.Repeat("x", 1000))
	}
	for _, c := range []struct {
		what string
		ask  func(*reader) string
	}{
		{"another history", func(r *reader) string { return r.psyncFrom(strings.Repeat("a", 40), offset) }},
		{"what is gone", func(r *reader) string { return r.psyncFrom(id, offset) }},
		{"what has not come yet", func(r *reader) string { return r.psyncFrom(id, offset+1<<30) }},
		{"a negative offset", func(r *reader) string { return r.psyncFrom(id, -5) }},
		{"another id's", func(r *reader) string {
			end := number(do, "master_repl_offset")
			do("DEBUG", "CHANGE-REPL-ID")
			return r.psyncFrom(id, end)
		}},
	} {
		r := connect(t, s.Addr, "capa", "eof")
		if line := c.ask(r); !strings.HasPrefix(line, "+FULLRESYNC ") {
			t.Errorf("asked for %s: %s", c.what, line)
		}
		r.snapshot()
	}
	if full, part, no := number(do, "sync_full"), number(do, "sync_partial_ok"), number(do, "sync_partial_err"); full != 6 || part != 2 || no != 5 {
		t.Errorf("INFO counts %d, %d and %d", full, part, no)
	}
}

// The snapshot has the form that the replica can read, and the parts that it wants.
func TestSnapshotForms(t *testing.T) {
	t.Parallel()
	s := start(t)
	do := doer(t, s.Addr)
	do("SET", "k", "v")
	do("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
	do("CHPUBLISH", "ch", "m", "1")
	const library = "library #!lua name=lib"
	for _, c := range []struct {
		about     []string
		diskless  string
		sync      bool
		direct    bool
		want, not string
	}{
		{about: []string{"capa", "eof"}, diskless: "yes", direct: true, want: "0 k", not: "0 ch"},
		{about: []string{"capa", "eof"}, diskless: "no", want: "0 k"},
		{about: []string{"capa", "psync2"}, diskless: "yes", want: library},
		{about: []string{"capa", "eof"}, diskless: "yes", sync: true, direct: true, want: "0 k"},
		{about: []string{"capa", "eof", "rdb-only", "1"}, diskless: "yes", sync: true, direct: true, want: "0 k"},
		{about: []string{"capa", "eof", "rdb-only", "1", "rdb-filter-only", "functions"}, diskless: "yes", sync: true, direct: true, want: library, not: "0 k"},
		{about: []string{"rdb-only", "1", "rdb-filter-only", ""}, diskless: "yes", sync: true, not: "0 k"},
	} {
		do("CONFIG", "SET", "repl-diskless-sync", c.diskless)
		r := connect(t, s.Addr, c.about...)
		if c.sync {
			r.send("SYNC")
		} else {
			r.send("PSYNC", "?", "-1")
			r.line()
		}
		r.snapshot()
		if r.direct != c.direct {
			t.Errorf("%q: the length was announced: %v", c.about, !r.direct)
		}
		keys := r.snapshotText()
		if c.want != "" && keys[c.want] == "" || c.not != "" && keys[c.not] != "" {
			t.Errorf("%q: the snapshot has %q", c.about, keys)
		}
	}
}

// The snapshot has the oldest version that loses no data, since a replica does not tell which it
// can read: when consumers were active, which Redis 7.0 does not know, is no reason for a newer one.
func TestSnapshotVersion(t *testing.T) {
	t.Parallel()
	s := start(t)
	do := doer(t, s.Addr)
	version := func() string {
		r := connect(t, s.Addr, "capa", "eof")
		r.full()
		return string(r.rdb[:9])
	}
	do("XGROUP", "CREATE", "stream", "g", "$", "MKSTREAM")
	do("XGROUP", "CREATECONSUMER", "stream", "g", "idle")
	if v := version(); v != "REDIS0010" {
		t.Errorf("with a consumer that was never active it is %s", v)
	}
	do("HSET", "hash", "f", "v")
	do("HEXPIRE", "hash", "1000", "FIELDS", "1", "f")
	if v := version(); v != "REDIS0012" {
		t.Errorf("with a field that expires it is %s", v)
	}
}

// A snapshot is of exactly one place of the stream: nothing is missing between them, and
// nothing is in both.
func TestSnapshotIsAPlaceOfTheStream(t *testing.T) {
	t.Parallel()
	s := start(t, "--io-threads", "4")
	const writers = 6
	stop := make(chan struct{})
	done := make(chan error, writers)
	for i := range writers {
		go func() {
			c, err := respclient.Dial(s.Addr)
			if err != nil {
				done <- err
				return
			}
			defer c.Close()
			for n := 1; ; n++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if _, err := c.Do("RPUSH", fmt.Sprint("k", i), fmt.Sprint("<", n, ">")); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for round := range 10 {
		r := connect(t, s.Addr, "capa", "eof")
		r.full()
		keys, seen := r.snapshotText(), map[string]bool{}
		for len(seen) < writers {
			args, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			if args[0] != "RPUSH" || seen[args[1]] {
				continue
			}
			seen[args[1]] = true
			n, _ := strconv.Atoi(strings.Trim(args[2], "<>"))
			in := keys["0 "+args[1]]
			if strings.Contains(in, args[2]) || n > 1 && !strings.Contains(in, fmt.Sprint("<", n-1, ">")) {
				t.Errorf("round %d: the stream goes on with %q, and the snapshot has %d of them", round, args, strings.Count(in, "<"))
			}
		}
		r.conn.Close()
	}
	close(stop)
	for range writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// WAIT counts the replicas that have acknowledged, and waits for them.
func TestWait(t *testing.T) {
	t.Parallel()
	s := start(t)
	do := doer(t, s.Addr)
	do("SET", "a", "1")
	if n := do("WAIT", "1", "1").Int(); n != 0 {
		t.Errorf("WAIT without a replica: %d", n)
	}
	r := connect(t, s.Addr, "capa", "eof", "listening-port", "7777", "ip-address", "1.2.3.4")
	r.full()
	await(t, "the replica", func() bool {
		return strings.HasPrefix(info(do, "slave0"), "ip=1.2.3.4,port=7777,state=online")
	})
	do("SET", "a", "2")
	if n := do("WAIT", "1", "1").Int(); n != 0 {
		t.Errorf("WAIT for a replica that is silent: %d", n)
	}
	go func() {
		for { // acknowledges when it is asked
			if _, err := r.next(); err != nil {
				return
			}
		}
	}()
	do("SET", "a", "3")
	if n := do("WAIT", "1", "0").Int(); n != 1 {
		t.Errorf("WAIT: %d", n)
	}
	if v := do("WAITAOF", "1", "0", "0"); len(v.Elems) != 2 || v.Elems[0].Int() != 1 || v.Elems[1].Int() != 0 {
		t.Errorf("WAITAOF: %v", v)
	}
	do("MULTI")
	do("SET", "a", "4")
	do("WAIT", "5", "0")
	if v := do("EXEC"); len(v.Elems) != 2 || v.Elems[1].Int() > 1 {
		t.Errorf("WAIT in a transaction: %v", v)
	}
	for how, want := range map[string]string{"TIMEOUT": "1", "ERROR": "UNBLOCKED"} {
		c, err := respclient.Dial(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		id, err := c.Do("CLIENT", "ID")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send("WAIT", "2", "0"); err != nil {
			t.Fatal(err)
		}
		await(t, "the client to wait", func() bool { return number(do, "blocked_clients") == 1 })
		do("WAIT", "1", "0") // so that the other has something to count
		await(t, "the client to be woken", func() bool { return do("CLIENT", "UNBLOCK", id.Str, how).Int() == 1 })
		if v, err := c.Read(); err != nil || !strings.HasPrefix(v.Str, want) {
			t.Errorf("CLIENT UNBLOCK %s: %v %v", how, v, err)
		}
	}
}

// Writes need as many good replicas as the directive says.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	s := start(t, "--min-replicas-to-write", "1")
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	set := func() string {
		v, err := c.Do("SET", "a", "1")
		if err != nil {
			t.Fatal(err)
		}
		return v.Str
	}
	if got := set(); got != "NOREPLICAS Not enough good replicas to write." {
		t.Errorf("without a replica: %s", got)
	}
	r := connect(t, s.Addr, "capa", "eof")
	r.full()
	await(t, "a good replica", func() bool { return set() == "OK" })
	r.conn.Close()
	await(t, "that the replica is gone", func() bool { return strings.HasPrefix(set(), "NOREPLICAS") })
}

// SYNC and PSYNC need a login and rights.
func TestWhoMaySync(t *testing.T) {
	t.Parallel()
	s := start(t, "--requirepass", "secret")
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	do := func(args ...string) string {
		t.Helper()
		v, err := c.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return v.Str
	}
	for _, line := range []string{"REPLCONF capa eof", "PSYNC ? -1", "SYNC"} {
		if got := do(words(line)...); !strings.HasPrefix(got, "NOAUTH") {
			t.Errorf("%s: %s", line, got)
		}
	}
	do("AUTH", "secret")
	do("ACL", "SETUSER", "reader", "on", ">r", "~*", "+@read")
	do("ACL", "SETUSER", "replica", "on", ">r", "+psync", "+replconf", "+ping")
	do("AUTH", "reader", "r")
	for _, line := range []string{"REPLCONF capa eof", "PSYNC ? -1", "SYNC"} {
		if got := do(words(line)...); !strings.HasPrefix(got, "NOPERM") {
			t.Errorf("%s: %s", line, got)
		}
	}
	if got := do("AUTH", "replica", "r"); got != "OK" {
		t.Fatal(got)
	}
	if got := do("PSYNC", "?", "-1"); !strings.HasPrefix(got, "FULLRESYNC ") {
		t.Errorf("with rights: %s", got)
	}
}

// Wrong arguments get an error, and the connection goes on.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	s := start(t)
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for line, want := range map[string]string{
		"REPLCONF capa":                                  "ERR syntax error",
		"REPLCONF listening-port x":                      "ERR value is not an integer or out of range",
		"REPLCONF nonsense 1":                            "ERR Unrecognized REPLCONF option: nonsense",
		"REPLCONF rdb-filter-only keys":                  "ERR Unsupported rdb-filter-only option: keys",
		"PSYNC ? x":                                      "ERR value is not an integer or out of range",
		"PSYNC ? -1 FAILOVER":                            "ERR PSYNC FAILOVER can't be sent to a master.",
		"REPLCONF ip-address " + strings.Repeat("1", 50): "ERR REPLCONF ip-address provided by replica instance is too long: 50 bytes",
	} {
		if v, err := c.Do(words(line)...); err != nil || v.Str != want {
			t.Errorf("%s: %v %v", line, v, err)
		}
	}
	if err := c.Write(respclient.AppendCommand(respclient.AppendCommand(nil, "PING"), "SYNC")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PONG", "ERR SYNC and PSYNC are invalid with pending output"} {
		if v, err := c.Read(); err != nil || v.Str != want {
			t.Errorf("a pipeline: %v %v", v, err)
		}
	}
}

// A replica that sends what replicas do not send is closed, and hurts nobody.
func TestReplicaThatSendsNonsense(t *testing.T) {
	t.Parallel()
	s := start(t)
	do := doer(t, s.Addr)
	good := connect(t, s.Addr, "capa", "eof")
	good.full()
	for what, bytes := range map[string]string{
		"a command":       "*1\r\n$4\r\nPING\r\n",
		"a write":         "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n",
		"an unknown one":  "*1\r\n$8\r\nnonsense\r\n",
		"a bad request":   "*1\r\n!\r\n",
		"a bad length":    "*1\r\n$-5\r\n",
		"a wrong option":  "*3\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n",
		"SYNC once again": "*1\r\n$4\r\nSYNC\r\n",
	} {
		r := connect(t, s.Addr, "capa", "eof")
		r.full()
		if _, err := r.conn.Write([]byte(bytes)); err != nil {
			t.Fatal(err)
		}
		var err error
		for err == nil {
			_, err = r.next()
		}
		if strings.Contains(err.Error(), "no command") || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, half := range []string{"*3\r\n$8\r\nREPLCONF\r\n$3\r\nAC", "*2\r\n$8\r\nREPL"} { // and then silence
		r := connect(t, s.Addr, "capa", "eof")
		r.full()
		if _, err := r.conn.Write([]byte(half)); err != nil {
			t.Fatal(err)
		}
		do("SET", "half", "1")
		r.until("half")
	}
	do("SET", "end", "1")
	good.until("end")
	if got := do("GET", "a"); !got.IsNull {
		t.Errorf("a replica has written %v", got)
	}
}

// A replica that does not read is closed at its limit, and what the stream held for it goes.
func TestReplicaThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s := start(t, "--client-output-buffer-limit", "replica 4mb 0 0", "--repl-backlog-size", "1mb")
	do := doer(t, s.Addr)
	r := connect(t, s.Addr, "capa", "eof")
	r.full()
	await(t, "the replica", func() bool { return strings.Contains(info(do, "slave0"), "state=online") })
	big := strings.Repeat("x", 100<<10)
	most := int64(0)
	for range 400 { // more than sockets hold
		do("SET", "big", big)
		most = max(most, number(do, "mem_total_replication_buffers"))
		if info(do, "connected_slaves") == "0" {
			break
		}
	}
	await(t, "that the replica is gone", func() bool { return info(do, "connected_slaves") == "0" })
	if most < 2<<20 || most > 6<<20 {
		t.Errorf("the stream held %d bytes", most)
	}
	if n := number(do, "mem_total_replication_buffers"); n > 2<<20 {
		t.Errorf("the stream holds %d bytes for nobody", n)
	}
	if list := do("CLIENT", "LIST", "TYPE", "replica").Str; !strings.HasSuffix(list, ":") && strings.TrimPrefix(list, "txt:") != "" {
		t.Errorf("CLIENT LIST: %s", list)
	}
}

// CLIENT LIST and CLIENT KILL know replicas.
func TestClientsThatAreReplicas(t *testing.T) {
	t.Parallel()
	s := start(t)
	do := doer(t, s.Addr)
	r := connect(t, s.Addr, "capa", "eof")
	r.full()
	list := do("CLIENT", "LIST", "TYPE", "slave").Str
	if !strings.Contains(list, " flags=S ") || !strings.Contains(list, r.conn.LocalAddr().String()) {
		t.Errorf("CLIENT LIST: %s", list)
	}
	if n := do("CLIENT", "KILL", "TYPE", "replica").Int(); n != 1 {
		t.Errorf("CLIENT KILL: %d", n)
	}
	var err error
	for err == nil {
		_, err = r.next()
	}
	await(t, "that the replica is gone", func() bool { return info(do, "connected_slaves") == "0" })
}

// A store that front ends share has no stream.
func TestSharedStoreHasNoStream(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Engine: "shared"})
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, line := range []string{"SYNC", "PSYNC ? -1"} {
		if v, err := c.Do(words(line)...); err != nil || !strings.HasPrefix(v.Str, "ERR This server has no replication stream") {
			t.Errorf("%s: %v %v", line, v, err)
		}
	}
	if v, err := c.Do("WAIT", "1", "1"); err != nil || v.Int() != 0 {
		t.Errorf("WAIT: %v %v", v, err)
	}
}

// Replicas that come together share a snapshot, and one that leaves does not spoil it.
func TestReplicasShareASnapshot(t *testing.T) {
	t.Parallel()
	s := start(t, "--repl-diskless-sync-delay", "1000", "--repl-diskless-sync-max-replicas", "3")
	do := doer(t, s.Addr)
	for i := range 100 {
		do("SET", fmt.Sprint("k", i), strings.Repeat("x", 10_000))
	}
	join := func() *reader {
		r := connect(t, s.Addr, "capa", "eof")
		r.send("PSYNC", "?", "-1")
		return r
	}
	first := join()
	await(t, "the first", func() bool { return info(do, "connected_slaves") == "1" })
	first.conn.Close()
	await(t, "that it is gone", func() bool { return info(do, "connected_slaves") == "0" })
	list := []*reader{join(), join(), join()}
	answer := ""
	for i, r := range list {
		line := r.line()
		if answer == "" {
			answer = line
		}
		if r.snapshot(); line != answer || len(r.snapshotText()) != 100 {
			t.Errorf("replica %d: %s, the first %s; %d keys", i, line, answer, len(r.snapshotText()))
		}
	}
}
