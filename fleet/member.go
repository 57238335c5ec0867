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

// ID identifies a member: random bytes, new at each start.
type ID [keyspace.MemberIDSize]byte

// NewID makes an id.
func NewID() (id ID) {
	rand.Read(id[:])
	return id
}

// String returns the id in the form of Redis's node ids: 40 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Member is a front end, as it describes itself in its row. The row is JSON: during an
// upgrade members have different versions, and unknown fields are ignored.
type Member struct {
	ID ID `json:"-"` // in the row's key
	// Host is the address under which the others and the clients reach the member.
	Host string `json:"host"`
	// Hostname is the name that the member also announces, or empty.
	Hostname string `json:"hostname,omitempty"`
	// Port, TLSPort and BusPort are the announced ports, 0 if there is none.
	Port    int `json:"port"`
	TLSPort int `json:"tls-port,omitempty"`
	BusPort int `json:"bus-port,omitempty"`
	// Away: the member is not ready yet, and takes no clients and has no slots.
	Away bool `json:"away,omitempty"`
	// Started is when the member joined.
	Started engine.Stamp `json:"started"`
	// Beat counts how often the row was written, so that each write changes the row.
	Beat uint64 `json:"beat"`
	// At is when the row was written, in the store's time: Unix milliseconds, 0 if the
	// writer's version lacks the field.
	At int64 `json:"at,omitempty"`
	// Work changes whenever the member has stored rows for background work: see
	// Fleet.SetWork. 0 means that the member does not count them.
	Work uint64 `json:"work,omitempty"`
	// Oldest is the oldest moment that the member was reading when it wrote the row.
	Oldest engine.Stamp `json:"oldest"`
	// Version is the version of the program.
	Version string `json:"version"`
	// Seen is when the row was first read with this content, in the store's time.
	Seen time.Time `json:"-"`
}

// Bus returns the address of the member's bus.
func (m Member) Bus() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.BusPort)) }

func encode(m Member) ([]byte, error) { return json.Marshal(m) }

func decode(id ID, value []byte) (m Member, err error) {
	if err := json.Unmarshal(value, &m); err != nil {
		return m, fmt.Errorf("%w: row of member %s: %w", engine.ErrCorrupt, id, err)
	}
	m.ID = id
	return m, nil
}

// alike reports whether two descriptions of a member differ only in what changes by beats.
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
// the slots: member i of n has the slots from i*16384/n on, up to those of the next
// member. A Division is immutable.
type Division struct {
	Members []Member // by age: the first is the leader. This process is always among them
	Self    int      // the index of this process in Members
	Epoch   uint64   // grows with each change that this process sees

	// Led: the members are replicas of each other, and one of them, Master, has all slots; -1
	// if it is not known which.
	Led    bool
	Master int

	all []Member // Members, and those that take no clients
}

// Slots returns the range of slots of a member: from lo up to, but not including, hi.
func (d *Division) Slots(i int) (lo, hi int) {
	switch {
	case !d.Led:
		return Slots(i, len(d.Members))
	case i == d.Master:
		return 0, keyspace.Slots
	}
	return 0, 0
}

// Owner returns the index of the member that has a slot.
func (d *Division) Owner(slot int) int {
	if d.Led {
		return d.Master
	}
	return Owner(slot, len(d.Members))
}

// Slots returns the range of slots of member i of n.
func Slots(i, n int) (lo, hi int) { return i * keyspace.Slots / n, (i + 1) * keyspace.Slots / n }

// Owner returns which of n members has a slot.
func Owner(slot, n int) int { return ((slot+1)*n - 1) / keyspace.Slots }
