package cluster

import (
	"fmt"
	"testing"
	"time"

	"redoubt/config"
	"redoubt/fleet"
	"redoubt/server/admin"
	"redoubt/wire"
)

// linked is a server with two connections to another front end.
type linked struct{ peer fleet.ID }

func (linked) Config() *config.Config                    { return config.New() }
func (linked) Now() time.Time                            { return time.Time{} }
func (linked) PeerTraffic() (sent, received, drop int64) { return 0, 0, 0 }
func (l linked) PeerLinks() []Link {
	return []Link{{Peer: l.peer, Since: time.UnixMilli(5)}, {Inbound: true, Peer: l.peer, Since: time.UnixMilli(6), Queued: 48}}
}

// caller is a client of which nothing is known but how it came.
type caller struct{ admin.Client }

func (caller) Reached() (host string, tls bool) { return "", false }

// The connections are told in the form of Redis: which way, since when, and what is queued.
func TestLinks(t *testing.T) {
	t.Parallel()
	peer := fleet.ID{0xab}
	var c Cluster
	c.Init(linked{peer})
	c.SetSolo(fleet.Member{ID: fleet.ID{1}})
	w := &wire.Writer{Proto: 3}
	if err := c.view(&admin.Call{Reply: w, Client: caller{}}).writeLinks(); err != nil {
		t.Fatal(err)
	}
	link := func(direction string, since int, events string, queued int) string {
		return fmt.Sprintf("%%6\r\n$9\r\ndirection\r\n$%d\r\n%s\r\n$4\r\nnode\r\n$40\r\n%s\r\n$11\r\ncreate-time\r\n:%d\r\n$6\r\nevents\r\n$%d\r\n%s\r\n"+
			"$21\r\nsend-buffer-allocated\r\n:%d\r\n$16\r\nsend-buffer-used\r\n:%d\r\n", len(direction), direction, peer, since, len(events), events, queued, queued)
	}
	if got, want := string(w.Buf), "*2\r\n"+link("to", 5, "r", 0)+link("from", 6, "rw", 48); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
