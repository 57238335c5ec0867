package replication

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/sharedmem"
	"redoubt/internal/testmaster"
	"redoubt/rdb"
)

// On each kind of store: all data, then the stream with databases and transactions, then a
// master again.
func TestReplica(t *testing.T) {
	t.Parallel()
	for name, eng := range engines(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer closeEngine(t, eng)
			s := newSite(t, eng)
			defer s.stop()
			s.want("set mine 1", "+OK\r\n")
			m := testmaster.Start(t, testmaster.Options{File: testmaster.File(t, "a", "1", "n", "41"), EOF: name == "local"})
			m.Send("select 0", "incr n", "select 2", "rpush l x y", "multi", "set t 1", "select 3", "set t 2", "exec", "set last 3", "ping",
				"replconf getack *", "publish c m", "set gone 1 px 1")
			s.follow(m)
			s.synced(m)
			s.want("get mine", "$-1\r\n")
			s.want("get n", bulk("42"))
			for _, c := range [][3]string{{"2", "lrange l 0 -1", "*2\r\n$1\r\nx\r\n$1\r\ny\r\n"}, {"2", "get t", bulk("1")}, {"3", "get t", bulk("2")}, {"3", "get last", bulk("3")}} {
				if got := s.in(int(c[0][0]-'0'), strings.Fields(c[1])...); got != c[2] {
					t.Errorf("%s in %s: %q", c[1], c[0], got)
				}
			}
			testmaster.Wait(t, "an acknowledgement", func() bool { return m.Acked() == m.Offset() })
			s.want("set x y", "-READONLY You can't write against a read only replica.\r\n")
			if got, want := s.admin("role"), fmt.Sprintf("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%s\r\n$9\r\nconnected\r\n:%d\r\n", m.Port(), m.Offset()); got != want {
				t.Errorf("ROLE: %q, want %q", got, want)
			}
			if got := s.admin("replicaof", m.Host(), m.Port()); got != "+OK Already connected to specified master\r\n" {
				t.Errorf("again: %q", got)
			}
			if got := s.admin("replicaof", "no", "one"); got != "+OK\r\n" {
				t.Errorf("NO ONE: %q", got)
			}
			s.want("set x y", "+OK\r\n")
			m.Send("select 0", "set x master")
			if _, found, err := s.x.Space().Position(); found || err != nil {
				t.Errorf("a master has a position, %v", err)
			}
			s.want("get x", bulk("y"))
			if got := s.info("role"); got != "master" {
				t.Errorf("role %s", got)
			}
		})
	}
}

func closeEngine(t *testing.T, eng engine.Engine) {
	if err := eng.Close(); err != nil {
		t.Error(err)
	}
}

// The link is cut at every byte of the handshake and of the transfer. The old data stays until
// all of the new data has come.
func TestCuts(t *testing.T) {
	t.Parallel()
	file := testmaster.File(t, "a", "1", "b", strings.Repeat("two", 20))
	for _, eof := range []bool{false, true} {
		for name, eng := range engines(t) {
			t.Run(fmt.Sprintf("%s eof=%v", name, eof), func(t *testing.T) {
				t.Parallel()
				defer closeEngine(t, eng)
				s := newSite(t, eng)
				defer s.stop()
				s.want("set mine 1", "+OK\r\n")
				step := 1
				if testing.Short() || name != "mem" {
					step = 7
				}
				const most = 400
				m := testmaster.Start(t, testmaster.Options{File: file, EOF: eof, Cut: 1})
				s.follow(m)
				cut := 1
				for ; cut < most; cut += step {
					before := len(m.Seen())
					m.Set(func(o *testmaster.Options) { o.Cut = cut })
					testmaster.Wait(t, "another attempt", func() bool { return len(m.Seen()) > before || s.info("master_link_status") == "up" })
					mine, a := s.do("get mine"), s.do("get a")
					switch {
					case mine == bulk("1") && a == "$-1\r\n":
					case mine == "$-1\r\n" && a == bulk("1") && s.do("get b") == bulk(strings.Repeat("two", 20)):
					case mine == "$-1\r\n" || a == bulk("1"):
						// The keys were read at two moments.
						if mine, a = s.do("get mine"), s.do("get a"); mine != "$-1\r\n" || a != bulk("1") {
							t.Fatalf("after %d bytes: %q, %q", cut, mine, a)
						}
					default:
						t.Fatalf("after %d bytes: %q, %q", cut, mine, a)
					}
				}
				m.Set(func(o *testmaster.Options) { o.Cut = 0 })
				s.synced(m)
				s.want("get mine", "$-1\r\n")
				s.want("get a", bulk("1"))
			})
		}
	}
}

// A master that is none, or sends what cannot be loaded, changes nothing; INFO and the log say
// what is wrong.
func TestBadMasters(t *testing.T) {
	t.Parallel()
	file := testmaster.File(t, "a", "1")
	damaged := append([]byte(nil), file...)
	damaged[len(damaged)-12] ^= 1
	newer := append([]byte(nil), file...)
	copy(newer[5:], "0099")
	answer := func(name, reply string) func([]string) ([]byte, bool) {
		return func(args []string) ([]byte, bool) { return []byte(reply), strings.EqualFold(args[0], name) }
	}
	for name, c := range map[string]struct {
		o    testmaster.Options
		want string
	}{
		"HTTP":              {testmaster.Options{Answer: answer("ping", "HTTP/1.1 400 Bad Request\r\n")}, "this is not the replication protocol of Redis"},
		"no end of line":    {testmaster.Options{Answer: answer("ping", strings.Repeat("x", 20_000))}, "a line of more than"},
		"a password":        {testmaster.Options{Password: "secret"}, "NOAUTH"},
		"no PSYNC":          {testmaster.Options{Answer: answer("psync", "-ERR unknown command\r\n")}, "PSYNC: the master answers: ERR unknown command"},
		"a lie":             {testmaster.Options{Answer: answer("psync", "+FULLRESYNC abc 0\r\n")}, "the answer to PSYNC"},
		"continues nothing": {testmaster.Options{Answer: answer("psync", "+CONTINUE\r\n")}, "the answer to PSYNC"},
		"busy":              {testmaster.Options{Answer: answer("psync", "-LOADING Redis is loading the dataset in memory\r\n")}, "LOADING"},
		"no file":           {testmaster.Options{Answer: answer("psync", "+FULLRESYNC "+strings.Repeat("a", 40)+" 0\r\nfile\r\n")}, "is not the head of an RDB file"},
		"failed":            {testmaster.Options{Answer: answer("psync", "+FULLRESYNC "+strings.Repeat("a", 40)+" 0\r\n-ERR no fork\r\n")}, "the master answers: ERR no fork"},
		"huge":              {testmaster.Options{Answer: answer("psync", "+FULLRESYNC "+strings.Repeat("a", 40)+" 0\r\n$99999999999999999999\r\n")}, "is not the head of an RDB file"},
		"not an RDB file":   {testmaster.Options{File: []byte("this is no RDB file")}, "it does not begin with REDIS"},
		"damaged":           {testmaster.Options{File: damaged}, "at byte"},
		"damaged, EOF":      {testmaster.Options{File: damaged, EOF: true}, "at byte"},
		"newer":             {testmaster.Options{File: newer}, "unknown version of the RDB format: it has version 99"},
		"too long":          {testmaster.Options{File: append(append([]byte(nil), file...), "more"...)}, "is shorter than the master has announced"},
		"wrong mark":        {testmaster.Options{File: append(append([]byte(nil), file...), "more"...), EOF: true}, "not followed by the mark"},
		"database 9":        {testmaster.Options{File: file9(t)}, "too few databases"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := mem.New()
			s := newSite(t, eng)
			s.want("set mine 1", "+OK\r\n")
			m := testmaster.Start(t, c.o)
			s.follow(m)
			testmaster.Wait(t, "an error: "+s.info("master_link_error"), func() bool { return strings.Contains(s.info("master_link_error"), c.want) })
			if !strings.Contains(s.log.String(), "the replication is interrupted") {
				t.Errorf("log: %s", s.log.String())
			}
			s.want("get mine", bulk("1"))
			s.want("get a", "$-1\r\n")
			// The data of failed attempts is cleared.
			s.admin("replicaof", "no", "one")
			testmaster.Wait(t, "what was loaded is cleared", func() bool {
				dead, err := s.x.Space().Dead(view(t, eng))
				return err == nil && !dead
			})
		})
	}
}

// file9 is an RDB file with a key in a database that the sites do not have.
func file9(t *testing.T) []byte {
	var b strings.Builder
	w := rdb.NewWriter(&b, rdb.VersionRedis70)
	w.Database(9, 1, 0)
	w.Key([]byte("k"), 0).String([]byte("v"))
	if w.EndKey() != nil || w.End() != nil {
		t.Fatal("cannot write")
	}
	return []byte(b.String())
}

func view(t *testing.T, eng engine.Engine) engine.View {
	v, err := eng.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// Passwords and users.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"", "u"} {
		s := newSite(t, mem.New(), "--masterauth", "secret", "--masteruser", user, "--replica-announce-ip", "10.1.2.3")
		m := testmaster.Start(t, testmaster.Options{File: testmaster.File(t, "a", "1"), Password: "secret"})
		s.follow(m)
		s.synced(m)
		want := "PING;AUTH " + user + " secret;REPLCONF listening-port 7777;REPLCONF capa eof capa psync2;REPLCONF ip-address 10.1.2.3;PSYNC ? -1"
		if got := strings.Join(m.Seen(), ";"); got != strings.ReplaceAll(want, "  ", " ") {
			t.Errorf("%s", got)
		}
	}
}

// A master that has failed over goes on with another id, and one that has forgotten sends all.
func TestFailover(t *testing.T) {
	t.Parallel()
	s := newSite(t, sharedmem.New().Open())
	m := testmaster.Start(t, testmaster.Options{File: testmaster.File(t, "a", "1"), Base: 1000})
	m.Send("select 1", "set k 1")
	s.follow(m)
	s.synced(m)
	old := strings.Repeat("a1", 20)
	next := strings.Repeat("b2", 20)
	m.Set(func(o *testmaster.Options) { o.ID, o.ID2, o.Second = next, old, m.End() })
	m.Send("set k 2")
	s.synced(m)
	if got := s.in(1, "get", "k"); got != bulk("2") {
		t.Errorf("k is %q", got)
	}
	if p, _, _ := s.x.Space().Position(); p.ID != next || p.DB != 1 {
		t.Errorf("position %+v", p)
	}
	if fulls, goOns := m.Syncs(); fulls != 1 || goOns != 1 {
		t.Errorf("%d full, %d partial", fulls, goOns)
	}
	m.Set(func(o *testmaster.Options) { o.ID, o.ID2 = strings.Repeat("c3", 20), "" })
	testmaster.Wait(t, "all data", func() bool { fulls, _ := m.Syncs(); return fulls == 2 })
	s.synced(m)
}

// What a replica does with time: a key past its time is invisible, and deleted by the master.
func TestReplicaExpiresNothing(t *testing.T) {
	t.Parallel()
	for name, eng := range engines(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer closeEngine(t, eng)
			s := newSite(t, eng)
			defer s.stop()
			m := testmaster.Start(t, testmaster.Options{File: testmaster.File(t, "a", "1")})
			past := time.Now().Add(-time.Hour).UnixMilli()
			m.Send("select 0", fmt.Sprintf("set k 5 pxat %d", past), "set n 1", fmt.Sprintf("pexpireat n %d", past),
				"hset h f 1 g 2", fmt.Sprintf("hpexpireat h %d fields 1 f", past))
			s.follow(m)
			s.synced(m)
			s.want("get k", "$-1\r\n")
			s.want("exists n", ":0\r\n")
			s.want("hget h f", "$-1\r\n")
			s.want("dbsize", ":4\r\n")
			// For the master the keys are alive.
			m.Send("incr k", "persist k", "hincrby h f 1", "hpersist h fields 1 f", "append n 23", "persist n")
			s.synced(m)
			s.want("get k", bulk("6"))
			s.want("hget h f", bulk("2"))
			s.want("get n", bulk("123"))
			m.Send(fmt.Sprintf("pexpireat k %d", past))
			s.synced(m)
			s.want("get k", "$-1\r\n")
			if err := s.bg.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.want("dbsize", ":4\r\n")
			// A master again expires by itself.
			s.admin("replicaof", "no", "one")
			testmaster.Wait(t, "the key is removed", func() bool { return s.do("dbsize") == ":3\r\n" })
		})
	}
}
