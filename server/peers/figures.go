package peers

import (
	"encoding/hex"

	"redoubt/bus"
	"redoubt/fleet"
	"redoubt/server/cluster"
)

// Traffic returns the numbers of messages that the bus has sent and received, and of
// connections closed because the other side read too slowly.
func (p *Exchange) Traffic() (sent, received, dropped int64) {
	in, out := p.follower.Stats(), p.hub.Stats()
	return in.Sent + out.Sent, in.Received + out.Received, out.Drops
}

// Stats returns the figures of receiving and of sending.
func (p *Exchange) Stats() (in bus.FollowStats, out bus.HubStats) {
	return p.follower.Stats(), p.hub.Stats()
}

// Wanted returns the interest that the others were asked for.
func (p *Exchange) Wanted() bus.Interest { return p.raised.Load().Interest }

// Links returns the connections to and from other front ends.
func (p *Exchange) Links() (links []cluster.Link) {
	for _, to := range p.follower.Peers() {
		if id, ok := memberID(to.ID); ok && to.Connected {
			links = append(links, cluster.Link{Peer: id, Since: to.Since})
		}
	}
	for _, from := range p.hub.Listeners() {
		if id, ok := memberID(from.ID); ok {
			links = append(links, cluster.Link{Inbound: true, Peer: id, Since: from.Since, Queued: from.Queued})
		}
	}
	return links
}

func memberID(text string) (id fleet.ID, ok bool) {
	if len(text) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil
}
