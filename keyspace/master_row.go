package keyspace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"redoubt/engine"
)

// The rows of a store that is a replica of a Redis: of which master (Role), and up to where
// the stream of that master is applied (Position). The role is a part of the catalog, so all
// processes of a shared store see a change of it at the same moment. The position is written by
// each commit that applies a part of the stream: what is applied and the position are never
// apart.

// Role says of which master a store is a replica.
type Role struct {
	// Master is the host and the port of the master with a space between them; empty: the
	// store is no replica.
	Master string `json:"master"`
	// Directive is the directive replicaof at the time when Master was decided.
	Directive string `json:"directive"`
}

// Replica reports whether the store is a replica.
func (r Role) Replica() bool { return r.Master != "" }

// Role returns the role in use.
func (s *Space) Role() (r Role) {
	if p := s.role.Load(); p != nil {
		r = *p
	}
	return r
}

// SetRole changes the role. The whole keyspace must be latched.
func (t *Tx) SetRole(r Role) {
	if !t.writable() || !t.Space.store.changesCatalog(t) {
		return
	}
	v, err := json.Marshal(r)
	if err != nil {
		t.Fail(err)
		return
	}
	t.Rows.Batch.Put(sysKey(sysRole), v)
	t.FX.role = &r
}

func readRole(r engine.Reader) (role Role, err error) {
	v, found, err := r.Get(sysKey(sysRole), nil)
	if err != nil || !found {
		return role, err
	}
	if err := json.Unmarshal(v, &role); err != nil {
		return role, fmt.Errorf("%w: the row of the role: %w", engine.ErrCorrupt, err)
	}
	return role, nil
}

// useRole makes a role the one in use.
func (s *Space) useRole(r Role) {
	old := s.role.Swap(&r)
	if old != nil && *old == r {
		return
	}
	if !r.Replica() { // nobody has expired the keys of a replica
		s.store.unswept()
	}
	if s.OnRole != nil {
		s.OnRole(r)
	}
}

// Position is a place in the stream of a master.
type Position struct {
	ID     string // the replication id of the stream, 40 characters
	Offset int64  // of the last byte that is applied
	DB     int    // the database that is selected there
}

const positionSize = 40 + 8 + 4

// ErrPosition: the position of a store is not the expected one, since another process has
// applied more of the stream, or the store is no replica any more.
var ErrPosition = errors.New("the place in the stream of the master was changed by another process or command")

// PositionRow returns the key of the row of the position.
func PositionRow() []byte { return sysKey(sysPosition) }

// AppendTo appends the position as the row has it.
func (p Position) AppendTo(b []byte) []byte {
	b = append(b, p.ID...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Offset))
	return binary.BigEndian.AppendUint32(b, uint32(p.DB))
}

func parsePosition(v []byte) (p Position, err error) {
	if len(v) != positionSize {
		return p, fmt.Errorf("%w: the row of a position has %d bytes", engine.ErrCorrupt, len(v))
	}
	p.ID, p.Offset = string(v[:40]), int64(binary.BigEndian.Uint64(v[40:]))
	p.DB = int(binary.BigEndian.Uint32(v[48:]))
	if p.Offset < 0 || p.DB < 0 {
		return p, fmt.Errorf("%w: a position at %d in database %d", engine.ErrCorrupt, p.Offset, p.DB)
	}
	return p, nil
}

// SetPosition stores the position, or deletes it if p is nil. The whole keyspace must be
// latched.
func (t *Tx) SetPosition(p *Position) {
	switch {
	case !t.writable():
	case p == nil:
		t.Rows.Batch.Delete(PositionRow())
	default:
		t.Rows.Batch.Put(PositionRow(), p.AppendTo(nil))
	}
}

// Position reads the position. found is false if there is none.
func (s *Space) Position() (p Position, found bool, err error) {
	view, err := s.eng.Begin(engine.ViewOptions{})
	if err != nil {
		return p, false, fmt.Errorf("read the place in the master's stream: %w", err)
	}
	defer view.Close()
	v, found, err := view.Get(PositionRow(), nil)
	if err == nil && found {
		p, err = parsePosition(v)
	}
	if err != nil {
		return p, false, fmt.Errorf("read the place in the master's stream: %w", err)
	}
	return p, found, nil
}

// isMaster reports whether a row is that of the role or of the position.
func isMaster(row []byte) bool {
	return len(row) == 2 && row[0] == system && (row[1] == sysRole || row[1] == sysPosition)
}

func masterKey(row []byte) string {
	if row[1] == sysRole {
		return "role"
	}
	return "place in the master's stream"
}

// masterValue describes the value of such a row.
func masterValue(row, value []byte) string {
	if row[1] == sysRole {
		return quote(value)
	}
	p, err := parsePosition(value)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("offset %d of %s, database %d", p.Offset, p.ID, p.DB)
}

// checkMaster returns what is wrong with such a row, or "".
func checkMaster(row, value []byte) string {
	var err error
	if row[1] == sysRole {
		err = json.Unmarshal(value, new(Role))
	} else {
		_, err = parsePosition(value)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
