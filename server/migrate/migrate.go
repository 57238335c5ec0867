// Package migrate implements MIGRATE: it moves keys to another server, a Redis or a Redoubt,
// by RESTORE, and deletes the keys that the other server has confirmed.
//
// The keys are latched from before the first is read until the last is deleted, so no write
// to them can get lost meanwhile; only commands on these keys wait. Connecting, AUTH and
// SELECT are done before the keys are latched. Connections are kept for a while for the next
// call.
package migrate

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/server/admin"
)

// Migrator runs MIGRATE, and keeps connections between calls. The zero value is ready but
// for Log.
type Migrator struct {
	Log     *slog.Logger
	targets targets
}

// Connections returns how many connections are kept.
func (g *Migrator) Connections() int { return g.targets.count() }

// Close closes the connections that are kept.
func (g *Migrator) Close() { g.targets.close() }

// Commands returns MIGRATE.
func (g *Migrator) Commands() []*admin.Command {
	const flags = command.RW | command.Access | command.Delete
	return []*admin.Command{{Command: &command.Command{
		Name: "migrate", Group: command.Generic, Since: "2.6.0", Arity: -6,
		Flags: command.Write | command.MovableKeys, Categories: command.CatDangerous,
		Tips: []string{"nondeterministic_output"},
		Keys: []command.KeySpec{
			{Flags: flags, Begin: command.Begin{Index: 3}, Find: command.Find{Step: 1}, Search: func(args [][]byte, visit func(int)) {
				if len(args) > 3 && (len(args[3]) > 0 || keysFrom(args) == 0) {
					visit(3)
				}
			}},
			{Flags: flags | command.Incomplete, Begin: command.Begin{Keyword: "KEYS", From: -2}, Find: command.Find{Last: -1, Step: 1},
				Search: func(args [][]byte, visit func(int)) {
					if i := keysFrom(args); i > 0 {
						for ; i < len(args); i++ {
							visit(i)
						}
					}
				}},
		},
		Syntax: `host port:integer key-selector=<key|empty-string=""> destination-db:integer timeout:integer [COPY@3.0.0] [REPLACE@3.0.0] ` +
			`[authentication=<AUTH auth'password'@4.0.7|AUTH2 auth2=(username password)@6.0.0>] [KEYS keys:key'key'#1@3.0.6...]`,
		Summary: "Moves keys to another server.",
	}, Run: g.migrate, Worker: true}}
}

// keysFrom returns the index of the first key after KEYS, or 0.
func keysFrom(args [][]byte) int {
	for i := 6; i < len(args); i++ {
		switch {
		case admin.IsWord(args[i], "auth"):
			i++
		case admin.IsWord(args[i], "auth2"):
			i += 2
		case admin.IsWord(args[i], "keys"):
			return i + 1
		}
	}
	return 0
}

const (
	errKeys    = command.Error("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string")
	errConnect = command.Error("IOERR error or timeout connecting to the client")
	errWrite   = command.Error("IOERR error or timeout writing to target instance")
	errRead    = command.Error("IOERR error or timeout reading to target instance")
)

func refusedBy(reply string) command.Error {
	return command.Error("ERR Target instance replied with error: " + reply)
}

// migration is one call of MIGRATE.
type migration struct {
	addr           string
	db             int64
	timeout        time.Duration
	copy, replace  bool
	auth, named    bool   // AUTH or AUTH2 was given; it was AUTH2
	user, password []byte // of AUTH or AUTH2
	keys           [][]byte

	by   *Migrator
	to   *target // nil between two tries
	used bool    // the connection is one kept from an earlier migration
	// taken are the keys that the target has from a try that was not committed.
	taken map[string]bool
}

func (g *Migrator) migrate(c *admin.Call) error {
	m, err := parseMigration(c.Args)
	if err != nil {
		return err
	}
	m.by = g
	m.addr = net.JoinHostPort(string(c.Args[1]), string(c.Args[2]))
	// Check that a key exists before the target is contacted.
	some, start := false, len(c.Reply.Buf)
	err = c.Client.Execute(&command.Command{
		Name: "migrate", Flags: command.ReadOnly, Keys: command.KeyRange(0, -1, 1, command.RO), Run: func(x *command.Ctx) error {
			some = false
			for _, key := range m.keys {
				held := x.Tx.Held()
				some = some || x.Tx.Find(key).Exists()
				x.Tx.Release(held)
			}
			return nil
		},
	}, m.keys)
	if err != nil || len(c.Reply.Buf) > start { // an error was written
		return err
	}
	if !some {
		c.Reply.Status("NOKEY")
		return nil
	}
	if err := m.connect(); err != nil {
		return err
	}
	return c.Client.Execute(&command.Command{
		Name: "migrate", Flags: command.Write, Keys: command.KeyRange(0, -1, 1, command.RW), Run: m.run,
	}, m.keys)
}

func parseMigration(args [][]byte) (m migration, err error) {
	m.keys = args[3:4]
	for i := 6; i < len(args); i++ {
		more := len(args) - 1 - i
		switch {
		case admin.IsWord(args[i], "copy"):
			m.copy = true
		case admin.IsWord(args[i], "replace"):
			m.replace = true
		case admin.IsWord(args[i], "auth") && more >= 1:
			m.auth, m.password = true, args[i+1]
			i++
		case admin.IsWord(args[i], "auth2") && more >= 2:
			m.auth, m.named, m.user, m.password = true, true, args[i+1], args[i+2]
			i += 2
		case admin.IsWord(args[i], "keys"):
			if len(args[3]) != 0 {
				return m, errKeys
			}
			m.keys, i = args[i+1:], len(args)
		default:
			return m, command.ErrSyntax
		}
	}
	timeout, ok := number.ParseInt(args[5])
	if !ok {
		return m, command.ErrNotInteger
	}
	if m.db, ok = number.ParseInt(args[4]); !ok {
		return m, command.ErrNotInteger
	}
	if timeout <= 0 {
		timeout = 1000
	}
	m.timeout = time.Duration(min(timeout, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
	return m, nil
}

// connect takes a kept connection to the target, or opens one, and prepares it by greet.
func (m *migration) connect() error {
	if m.to = m.by.targets.take(m.addr); m.to != nil {
		m.used = true
		if err := m.greet(); err == nil || !errors.Is(err, errRead) && !errors.Is(err, errWrite) {
			return err
		}
	}
	return m.reconnect()
}

// reconnect is connect with a new connection.
func (m *migration) reconnect() error {
	m.used = false
	conn, err := net.DialTimeout("tcp", m.addr, m.timeout)
	if err != nil {
		m.by.Log.Debug("MIGRATE cannot connect", "to", m.addr, "err", err)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return errWrite // Redis notices a refused connection when it writes
		}
		return errConnect
	}
	m.to = newTarget(conn, m.timeout)
	return m.greet()
}

// greet authenticates and selects the database.
func (m *migration) greet() error {
	m.to.timeout = m.timeout
	if m.auth {
		call := [][]byte{[]byte("AUTH"), m.password}
		if m.named {
			call = [][]byte{[]byte("AUTH"), m.user, m.password}
		}
		if err := m.ask(call); err != nil {
			return err
		}
	}
	if m.to.db == m.db {
		return nil
	}
	if err := m.ask([][]byte{[]byte("SELECT"), strconv.AppendInt(nil, m.db, 10)}); err != nil {
		return err
	}
	m.to.db = m.db
	return nil
}

// ask makes a call on the target. An error, also one in the reply, closes the connection.
func (m *migration) ask(call [][]byte) error {
	m.to.begin(len(call))
	for _, arg := range call {
		m.to.arg(arg)
	}
	err := m.to.flush()
	if err == nil {
		var reply string
		if reply, err = m.to.line(); err == nil && reply[0] == '-' {
			err = refusedBy(reply[1:])
		}
	}
	if err != nil {
		m.to.close()
	}
	return err
}

// run transfers and deletes the keys in one execution. It is run once, since it never ends
// with a detour; on a shared store it is retried after each conflict. Keys that the target
// has taken are deleted whatever comes then, so an error of the target is a reply and does
// not roll back.
func (m *migration) run(x *command.Ctx) error {
	if m.to == nil {
		if err := m.connect(); err != nil {
			return err
		}
	}
	defer func() { m.to = nil }()
	sent, acked, err := m.transfer(x)
	if err != nil && m.used && acked == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		// The other side may have closed a kept connection.
		m.to.close()
		if err = m.reconnect(); err == nil {
			sent, acked, err = m.transfer(x)
		}
	}
	var refused error
	for i, reply := range acked {
		switch {
		case reply[0] == '-':
			if refused == nil {
				refused = refusedBy(reply[1:])
			}
		default:
			if m.taken == nil {
				m.taken = make(map[string]bool)
			}
			m.taken[string(sent[i])] = true
			if m.copy {
				break
			}
			if old := x.Tx.Find(sent[i]); old.Exists() {
				x.Tx.Remove(sent[i], old)
				x.Tx.Changed(keyspace.Generic, "del", sent[i])
			}
		}
	}
	var text command.Error
	switch {
	case x.Tx.Err() != nil:
		m.to.close()
		return x.Tx.Err()
	case err == nil:
		m.by.targets.keep(m.addr, m.to)
	default:
		m.to.close()
	}
	switch {
	case refused != nil:
		x.Reply.Error(refused.Error())
	case err != nil && !errors.As(err, &text):
		x.Reply.Error(errRead.Error())
	case err != nil:
		x.Reply.Error(text.Error())
	case len(sent) == 0:
		x.Reply.Status("NOKEY") // the keys were deleted after the check
	default:
		x.Reply.OK()
	}
	return nil
}

// transfer sends the keys that exist, and returns them with the replies received so far.
func (m *migration) transfer(x *command.Ctx) (sent [][]byte, acked []string, err error) {
	t, tx := m.to, x.Tx
	var payload []byte
	for _, key := range m.keys {
		held := tx.Held()
		old := tx.Read(key)
		if !old.Exists() {
			tx.Release(held)
			continue
		}
		ttl := int64(0)
		if old.Expire != 0 {
			ttl = max(1, old.Expire-tx.Now)
		}
		payload = command.AppendDump(tx, payload[:0], key, old)
		tx.Release(held)
		if err := tx.Err(); err != nil {
			return nil, nil, err
		}
		replace := m.replace || m.taken[string(key)]
		if replace {
			t.begin(5)
		} else {
			t.begin(4)
		}
		t.arg([]byte("RESTORE"))
		t.arg(key)
		t.arg(strconv.AppendInt(nil, ttl, 10))
		t.arg(payload)
		if replace {
			t.arg([]byte("REPLACE"))
		}
		if t.err != nil {
			break
		}
		sent = append(sent, key)
	}
	if err := t.flush(); err != nil {
		return sent, nil, err
	}
	for range sent {
		reply, err := t.line()
		if err != nil {
			return sent, acked, err
		}
		acked = append(acked, reply)
	}
	return sent, acked, nil
}
