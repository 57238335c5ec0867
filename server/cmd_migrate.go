package server

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/number"
)

// MIGRATE moves keys to another server, a Redis or a Redoubt: it sends each of them
// by RESTORE, and deletes those here for which the other server said OK.
//
// The keys are latched from the moment when the first is read until the last is
// deleted, so nothing that is written to them meanwhile can get lost. Others wait for
// these keys alone. What can be done before is: connecting, AUTH and SELECT.

func migrateCommands() []*local {
	const flags = command.RW | command.Access | command.Delete
	return []*local{{Command: &command.Command{
		Name: "migrate", Group: command.Generic, Since: "2.6.0", Arity: -6,
		Flags: command.Write | command.MovableKeys, Categories: command.CatDangerous,
		Tips: []string{"nondeterministic_output"},
		Keys: []command.KeySpec{
			{Flags: flags, Begin: command.Begin{Index: 3}, Find: command.Find{Step: 1}, Search: func(args [][]byte, visit func(int)) {
				if len(args) > 3 && (len(args[3]) > 0 || migrateKeys(args) == 0) {
					visit(3)
				}
			}},
			{Flags: flags | command.Incomplete, Begin: command.Begin{Keyword: "KEYS", From: -2}, Find: command.Find{Last: -1, Step: 1},
				Search: func(args [][]byte, visit func(int)) {
					if i := migrateKeys(args); i > 0 {
						for ; i < len(args); i++ {
							visit(i)
						}
					}
				}},
		},
		Syntax: `host port:integer key-selector=<key|empty-string=""> destination-db:integer timeout:integer [COPY@3.0.0] [REPLACE@3.0.0] ` +
			`[authentication=<AUTH auth'password'@4.0.7|AUTH2 auth2=(username password)@6.0.0>] [KEYS keys:key'key'#1@3.0.6...]`,
		Summary: "Moves keys to another server.",
	}, run: migrate, worker: true}}
}

// migrateKeys is where the keys behind KEYS begin, or 0.
func migrateKeys(args [][]byte) int {
	for i := 6; i < len(args); i++ {
		switch {
		case isWord(args[i], "auth"):
			i++
		case isWord(args[i], "auth2"):
			i += 2
		case isWord(args[i], "keys"):
			return i + 1
		}
	}
	return 0
}

const (
	errMigrateKeys    = command.Error("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string")
	errMigrateConnect = command.Error("IOERR error or timeout connecting to the client")
	errMigrateWrite   = command.Error("IOERR error or timeout writing to target instance")
	errMigrateRead    = command.Error("IOERR error or timeout reading to target instance")
)

func migrateRefused(reply string) command.Error {
	return command.Error("ERR Target instance replied with error: " + reply)
}

// migration is one call of MIGRATE.
type migration struct {
	addr           string
	db             int64
	timeout        time.Duration
	copy, replace  bool
	auth, named    bool   // AUTH or AUTH2, and which
	user, password []byte // of it
	keys           [][]byte

	srv  *Server
	to   *target // nil between two tries
	used bool    // the target is a connection of a migration before
	// taken are the keys that the target has from a try that was not committed.
	taken map[string]bool
}

func migrate(c *localCall) error {
	m, err := parseMigration(c.args)
	if err != nil {
		return err
	}
	m.srv = c.srv
	m.addr = net.JoinHostPort(string(c.args[1]), string(c.args[2]))
	// Whether there is anything to do is known before the target is asked.
	some, start := false, len(c.w.Buf)
	err = c.internal(&command.Command{
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
	if err != nil || len(c.w.Buf) > start { // an error was written
		return err
	}
	if !some {
		c.w.Status("NOKEY")
		return nil
	}
	if err := m.connect(); err != nil {
		return err
	}
	return c.internal(&command.Command{
		Name: "migrate", Flags: command.Write, Keys: command.KeyRange(0, -1, 1, command.RW), Run: m.run,
	}, m.keys)
}

func parseMigration(args [][]byte) (m migration, err error) {
	m.keys = args[3:4]
	for i := 6; i < len(args); i++ {
		more := len(args) - 1 - i
		switch {
		case isWord(args[i], "copy"):
			m.copy = true
		case isWord(args[i], "replace"):
			m.replace = true
		case isWord(args[i], "auth") && more >= 1:
			m.auth, m.password = true, args[i+1]
			i++
		case isWord(args[i], "auth2") && more >= 2:
			m.auth, m.named, m.user, m.password = true, true, args[i+1], args[i+2]
			i += 2
		case isWord(args[i], "keys"):
			if len(args[3]) != 0 {
				return m, errMigrateKeys
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

// connect gets a connection to the target on which the keys can be sent.
func (m *migration) connect() error {
	if m.to = m.srv.migrations.take(m.addr); m.to != nil {
		m.used = true
		if err := m.greet(); err == nil || !errors.Is(err, errMigrateRead) && !errors.Is(err, errMigrateWrite) {
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
		m.srv.log.Debug("MIGRATE cannot connect", "to", m.addr, "err", err)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return errMigrateWrite // Redis notices it then
		}
		return errMigrateConnect
	}
	m.to = newTarget(conn, m.timeout)
	return m.greet()
}

// greet says who we are, and which database is meant.
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

// ask makes a call that must be answered by OK. If it is not, the connection is
// closed.
func (m *migration) ask(call [][]byte) error {
	m.to.begin(len(call))
	for _, arg := range call {
		m.to.arg(arg)
	}
	err := m.to.flush()
	if err == nil {
		var reply string
		if reply, err = m.to.line(); err == nil && reply[0] == '-' {
			err = migrateRefused(reply[1:])
		}
	}
	if err != nil {
		m.to.close()
	}
	return err
}

// run is the part that is one execution. It is run once: it writes and may wait, so
// nothing sends it elsewhere; but on a store that others use as well, once more after
// each conflict. What the target has taken is deleted whatever comes
// then, so an error of the target's is a reply and not a failure.
func (m *migration) run(x *command.Ctx) error {
	if m.to == nil {
		if err := m.connect(); err != nil {
			return err
		}
	}
	defer func() { m.to = nil }()
	sent, acked, err := m.transfer(x)
	if err != nil && m.used && acked == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		// A connection that was kept may have been closed by the other side.
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
				refused = migrateRefused(reply[1:])
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
		m.srv.migrations.keep(m.addr, m.to)
	default:
		m.to.close()
	}
	switch {
	case refused != nil:
		x.Reply.Error(refused.Error())
	case err != nil && !errors.As(err, &text):
		x.Reply.Error(errMigrateRead.Error())
	case err != nil:
		x.Reply.Error(text.Error())
	case len(sent) == 0:
		x.Reply.Status("NOKEY") // they were deleted since we looked
	default:
		x.Reply.OK()
	}
	return nil
}

// transfer sends the keys that exist and returns the replies, as far as they came.
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
