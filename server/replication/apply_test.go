package replication

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/executor"
	"redoubt/internal/respclient"
	"redoubt/internal/sharedmem"
	"redoubt/internal/testmaster"
	"redoubt/keyspace"
	"redoubt/wire"
)

// However the link is cut and the server restarted, each command is applied once and in its
// order.
func TestAppliedOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"local", "shared"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := seeded(t)
			dir, store := t.TempDir(), sharedmem.New()
			open := func() engine.Engine {
				if name == "shared" {
					return store.Open()
				}
				return openLocal(t, dir)
			}
			eng := open()
			s := newSite(t, eng)
			m := testmaster.Start(t, testmaster.Options{File: testmaster.File(t, "n", "0")})
			s.follow(m)
			m.Send("select 0")
			s.synced(m) // a server that ends earlier is right to ask for all data again
			n, list := 0, []string{}
			for range 40 {
				for range rng.IntN(200) {
					n++
					switch list = append(list, strconv.Itoa(n)); rng.IntN(4) {
					case 0:
						m.Send("incr n", fmt.Sprintf("rpush l %d", n))
					case 1:
						m.Send("multi", "incr n", fmt.Sprintf("rpush l %d", n), "exec")
					case 2: // of databases
						m.Send("select 1", "incr other", "select 0", "incr n", fmt.Sprintf("rpush l %d", n))
					default:
						m.Send("incr n", fmt.Sprintf("eval return(redis.call('rpush','l','%d')) 0", n), "ping")
					}
				}
				switch rng.IntN(4) {
				case 0:
					m.CloseAll()
				case 1:
					m.Set(func(o *testmaster.Options) { o.Cut = 300 + rng.IntN(20000) })
				case 2:
					m.Set(func(o *testmaster.Options) { o.Cut = 0 })
				default:
					s.stop()
					closeEngine(t, eng)
					eng = open()
					s = newSite(t, eng)
				}
			}
			m.Set(func(o *testmaster.Options) { o.Cut = 0 })
			s.synced(m)
			s.want("get n", bulk(strconv.Itoa(n)))
			want := fmt.Sprintf("*%d\r\n", len(list))
			for _, v := range list {
				want += bulk(v)
			}
			if got := s.do("lrange l 0 -1"); got != want {
				t.Errorf("the list differs: %d bytes, want %d", len(got), len(want))
			}
			if fulls, _ := m.Syncs(); fulls != 1 {
				t.Errorf("%d full synchronizations", fulls)
			}
			s.stop()
			closeEngine(t, eng)
		})
	}
}

// A transaction of which the end does not come, or of which a command fails, does nothing.
func TestTransactionsAreWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t, mem.New())
	m := testmaster.Start(t, testmaster.Options{File: testmaster.File(t, "n", "0")})
	s.follow(m)
	m.Send("select 0", "set a 1", "multi", "incr n", "incr n")
	testmaster.Wait(t, "a", func() bool { return s.do("get a") == bulk("1") })
	m.CloseAll()
	testmaster.Wait(t, "the link again", func() bool { _, goOns := m.Syncs(); return goOns > 0 })
	s.want("get n", bulk("0"))
	m.Send("exec")
	s.synced(m)
	s.want("get n", bulk("2"))

	m.Send("multi", "incr n", "lpush n x", "exec")
	testmaster.Wait(t, "the error", func() bool { return strings.Contains(s.log.String(), "lpush") })
	if got := s.log.String(); !strings.Contains(got, "WRONGTYPE") || !strings.Contains(got, "all data is loaded anew") {
		t.Errorf("log: %s", got)
	}
	// The master's data has come again since, and with it the same transaction.
	testmaster.Wait(t, "all data", func() bool { fulls, _ := m.Syncs(); return fulls > 2 })
	if got := s.do("get n"); got != bulk("2") && got != bulk("0") {
		t.Errorf("n is %q", got)
	}
	m.Set(func(o *testmaster.Options) { o.Base, o.File = m.End(), testmaster.File(t, "n", "7") })
	s.synced(m)
	s.want("get n", bulk("7"))
}

// A stream that is damaged ends the link, what came before the damage is applied, and all data
// is loaded anew.
func TestDamagedStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bytes, want string }{
		{"*1\r\n$x\r\n", "invalid bulk length"},
		{"set a 2\r\n", "a command begins with 's'"},
		{"*1\r\n$4\r\nexec\r\n", `"exec" at offset`},
		{"*1\r\n$5\r\nmulti\r\n*1\r\n$5\r\nmulti\r\n", `"multi" at offset`},
		{"*2\r\n$6\r\nselect\r\n$1\r\n9\r\n", "this server has 4 databases"},
		{"*2\r\n$10\r\nmodule.add\r\n$1\r\nk\r\n", "unknown command"},
		{"*1\r\n$3\r\nset\r\n", "wrong number of arguments"},
	} {
		s := newSite(t, mem.New())
		m := testmaster.Start(t, testmaster.Options{File: testmaster.File(t, "n", "0")})
		s.follow(m)
		m.Write(append(respclient.AppendCommand(nil, "incr", "n"), c.bytes...))
		testmaster.Wait(t, c.want, func() bool { return strings.Contains(s.log.String(), strings.ReplaceAll(c.want, `"`, `\"`)) })
		testmaster.Wait(t, "all data", func() bool { fulls, _ := m.Syncs(); return fulls > 1 })
		m.Set(func(o *testmaster.Options) { o.Base, o.File = m.End(), testmaster.File(t, "n", "5") })
		s.synced(m)
		s.want("get n", bulk("5"))
		s.stop()
	}
}

// Of two that read one stream for one store, only one applies a command.
func TestPositionGuards(t *testing.T) {
	t.Parallel()
	for name, eng := range engines(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer closeEngine(t, eng)
			s := newSite(t, eng)
			defer s.stop()
			at := keyspace.Position{ID: strings.Repeat("a", 40), Offset: 10}
			if _, err := s.x.DoExclusively(func(tx *keyspace.Tx) { tx.SetPosition(&at) }); err != nil {
				t.Fatal(err)
			}
			before := at.AppendTo(nil)
			at.Offset = 20
			after := at.AppendTo(nil)
			args := [][]byte{[]byte("incr"), []byte("n")}
			call := func(before, after []byte) *executor.Call {
				c := &executor.Call{Cmd: s.table.Find(args), Args: args, Reply: new(wire.Writer), Row: positionRow, Before: before, After: after}
				if _, err := s.x.Apply([]*executor.Call{c}); err != nil {
					t.Fatal(err)
				}
				return c
			}
			if c := call(before, after); c.Err != nil {
				t.Error(c.Err)
			}
			if c := call(before, after); !errors.Is(c.Err, executor.ErrMoved) {
				t.Errorf("the second: %v", c.Err)
			}
			s.want("get n", bulk("1"))
		})
	}
}
