package server

import (
	"encoding/hex"

	"redoubt/fleet"
)

// What is told about the exchange with other front ends.

// infoPeers writes the lines of INFO about other front ends, if there may be any.
func infoPeers(t *infoText) {
	p := t.srv.peers.Load()
	if p == nil {
		return
	}
	in, out := p.follower.Stats(), p.hub.Stats()
	t.nums("cluster_peers", in.Peers, "cluster_peers_connected", in.Connected, "cluster_followers", out.Followers,
		"bus_frames_in", in.Frames, "bus_bytes_in", in.Bytes, "bus_frames_out", out.Frames, "bus_bytes_out", out.Bytes,
		"bus_bytes_queued", out.Queued, "bus_connections_lost", in.Lost, "bus_connections_refused", out.Refused,
		"bus_followers_dropped", out.Drops, "bus_wanted", p.raised.Load().Interest, "bus_wanted_by_others", p.hub.Interest())
}

func (c *collector) peers(send sender) {
	p := c.srv.peers.Load()
	if p == nil {
		return
	}
	in, out := p.follower.Stats(), p.hub.Stats()
	send(mPeers, float64(in.Connected), "connected")
	send(mPeers, float64(in.Peers-in.Connected), "unreachable")
	send(mFollowers, float64(out.Followers))
	send(mPeerIO, float64(in.Bytes), "in")
	send(mPeerIO, float64(out.Bytes), "out")
	send(mPeerFrame, float64(in.Frames), "in")
	send(mPeerFrame, float64(out.Frames), "out")
	send(mPeerLost, float64(in.Lost))
	send(mPeerDrop, float64(out.Drops))
}

// peerTraffic counts what the bus has sent and received, and the connections that were
// closed since the other side took too little.
func (srv *Server) peerTraffic() (sent, received, dropped int64) {
	p := srv.peers.Load()
	if p == nil {
		return 0, 0, 0
	}
	in, out := p.follower.Stats(), p.hub.Stats()
	return in.Sent + out.Sent, in.Received + out.Received, out.Drops
}

// PeerLinks are the connections to and from other front ends.
func (srv *Server) PeerLinks() (links []FleetLink) {
	p := srv.peers.Load()
	if p == nil {
		return nil
	}
	for _, to := range p.follower.Peers() {
		if id, ok := memberID(to.ID); ok && to.Connected {
			links = append(links, FleetLink{Peer: id, Since: to.Since})
		}
	}
	for _, from := range p.hub.Listeners() {
		if id, ok := memberID(from.ID); ok {
			links = append(links, FleetLink{Inbound: true, Peer: id, Since: from.Since, Queued: from.Queued})
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
