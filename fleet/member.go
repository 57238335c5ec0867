package fleet

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// ID names a member: random bytes, new at each start.
type ID [keyspace.MemberIDSize]byte

// NewID makes an id.
func NewID() (id ID) {
	rand.Read(id[:])
	return id
}

// String is the id as Redis writes those of nodes: 40 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Member is a front end, as it describes itself in its row. The row is JSON: members
// of different versions meet while a fleet is upgraded, and fields that one does not
// know are passed over.
type Member struct {
	ID ID `json:"-"` // in the row's key
	// Host is the address under which the others and the clients reach it.
	Host string `json:"host"`
	// Hostname is the name that it announces besides, or empty.
	Hostname string `json:"hostname,omitempty"`
	// Port, TLSPort and BusPort are those that it announces, 0 if there is none.
	Port    int `json:"port"`
	TLSPort int `json:"tls-port,omitempty"`
	BusPort int `json:"bus-port,omitempty"`
	// Away: it takes no clients now, since it is not ready yet. It has no slots then.
	Away bool `json:"away,omitempty"`
	// Started is when it joined.
	Started engine.Stamp `json:"started"`
	// Beat counts how often the row was written. It is what lives in it.
	Beat uint64 `json:"beat"`
	// At is when the row was written, in the store's time: Unix milliseconds, 0 if the
	// writer's version does not tell.
	At int64 `json:"at,omitempty"`
	// Work changes whenever the member has stored rows that background work looks for:
	// see Fleet.SetWork. 0 means that the member does not tell.
	Work uint64 `json:"work,omitempty"`
	// Oldest is the oldest moment that it read when it wrote the row.
	Oldest engine.Stamp `json:"oldest"`
	// Version is the program's.
	Version string `json:"version"`
	// Seen is when the row was first seen as it is, in the store's time.
	Seen time.Time `json:"-"`
}

// Bus is where the member listens to others of the fleet.
func (m Member) Bus() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.BusPort)) }

func encode(m Member) ([]byte, error) { return json.Marshal(m) }

func decode(id ID, value []byte) (m Member, err error) {
	if err := json.Unmarshal(value, &m); err != nil {
		return m, fmt.Errorf("%w: row of member %s: %w", engine.ErrCorrupt, id, err)
	}
	m.ID = id
	return m, nil
}

// alike says whether two descriptions of a member tell the same to a client.
func alike(a, b Member) bool {
	a.Beat, a.At, a.Work, a.Oldest, a.Seen = b.Beat, b.At, b.Work, b.Oldest, b.Seen
	return a == b
}

// byAge sorts members by their age, the oldest first.
func byAge(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), bytes.Compare(a.ID[:], b.ID[:]))
	})
}

// Division is the living members that take clients, at some time, and how they divide
// the slots: the member of number i of n has those from i*16384/n on, up to those of
// the next one. It is not changed any more.
type Division struct {
	Members []Member // by age: the first one leads. This process is always among them
	Self    int      // which of them this process is
	Epoch   uint64   // grows with each change that this process sees

	all []Member // those that take no clients, too
}

// Slots is the range of slots of a member: from lo up to, but not including, hi.
func (d *Division) Slots(i int) (lo, hi int) { return Slots(i, len(d.Members)) }

// Owner is the number of the member that has a slot.
func (d *Division) Owner(slot int) int { return Owner(slot, len(d.Members)) }

// Slots is the range of slots of member i of n.
func Slots(i, n int) (lo, hi int) { return i * keyspace.Slots / n, (i + 1) * keyspace.Slots / n }

// Owner is which of n members has a slot.
func Owner(slot, n int) int { return ((slot+1)*n - 1) / keyspace.Slots }
