package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"redoubt/bus"
	"redoubt/config"
	"redoubt/engine"
	"redoubt/executor/background"
	"redoubt/fleet"
	"redoubt/version"
)

// Membership is this server's membership among the front ends of its store. A front end
// opens its bus, writes its row into the store (Join), opens the keyspace, follows the other
// front ends, and accepts clients when all living ones follow it (Meet). The zero value, with
// its exported fields set, has no fleet.
type Membership struct {
	Config *config.Config
	Log    *slog.Logger
	Beat   time.Duration // heartbeat interval; 0 is fleet's default
	// Port returns the port for clients, with or without TLS, 0 if there is none.
	Port func(tls bool) int

	fleet *fleet.Fleet
	bus   net.Listener
}

// Join makes the server a member. It does nothing for a store of its own.
func (m *Membership) Join(ctx context.Context, eng engine.Engine) error {
	shared, ok := eng.(engine.Shared)
	if !ok || !eng.Capabilities().Shared {
		return nil
	}
	self, err := m.describe(shared)
	if err != nil {
		return fmt.Errorf("join the front ends: %w", err)
	}
	f, err := fleet.Join(ctx, fleet.Options{Engine: shared, Self: self, Beat: m.Beat, Lease: 4 * m.Beat, Log: m.Log})
	if err != nil {
		return errors.Join(err, m.bus.Close())
	}
	m.fleet = f
	return nil
}

// describe opens the bus and returns this front end's entry for the others.
func (m *Membership) describe(eng engine.Shared) (self fleet.Member, err error) {
	host := ""
	if bind := strings.Fields(m.Config.Str("bind")); len(bind) > 0 {
		if host = strings.TrimPrefix(bind[0], "-"); host == "*" || host == "::*" {
			host = ""
		}
	}
	if m.bus, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(m.busPort()))); err != nil {
		return self, err
	}
	self.Version = version.Redoubt
	self.Away = true // until Meet
	if err := m.Locate(&self, eng); err != nil {
		return self, errors.Join(err, m.bus.Close())
	}
	return self, nil
}

// busPort returns the configured port of the bus, 0 if any will do.
func (m *Membership) busPort() int {
	n := int(m.Config.Int("cluster-port"))
	if own := int(m.Config.Int("port")); n == 0 && own != 0 && own+10000 < 1<<16 {
		n = own + 10000
	}
	return n
}

// Locate fills in the addresses and ports of this front end.
func (m *Membership) Locate(self *fleet.Member, eng engine.Engine) (err error) {
	store := ""
	if a, ok := eng.(interface{ Address() string }); ok {
		store = a.Address()
	}
	self.Hostname = m.Config.Str("cluster-announce-hostname")
	announced := func(directive string, own int) int {
		if n := m.Config.Int(directive); n != 0 {
			return int(n)
		}
		return own
	}
	self.Port = announced("cluster-announce-port", m.Port(false))
	self.TLSPort = announced("cluster-announce-tls-port", m.Port(true))
	own := m.busPort()
	if m.bus != nil {
		own = PortOf(m.bus.Addr())
	}
	self.BusPort = announced("cluster-announce-bus-port", own)
	if !eng.Capabilities().Shared {
		self.Host = m.Config.Str("cluster-announce-ip") // else where each client has found it: package cluster fills it in
		return nil
	}
	self.Host, err = fleet.Address(m.Config.Str("cluster-announce-ip"), strings.Fields(m.Config.Str("bind")), store)
	return err
}

// PortOf returns the port of a TCP address, 0 for any other.
func PortOf(a net.Addr) int {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

// Background adds the fleet's hooks to the options of the background work, if there is a
// fleet.
func (m *Membership) Background(o background.Options) background.Options {
	f := m.fleet
	if f == nil {
		return o
	}
	o.Leads, o.News = f.Leader, f.News
	var deaths uint64
	o.RecountDue = func() bool { // a killed front end may not have stored its counts
		was := deaths
		deaths = f.Deaths()
		return deaths != was
	}
	return o
}

// Fleet returns the fleet of which the server is a member, nil if there is none.
func (m *Membership) Fleet() *fleet.Fleet { return m.fleet }

// Leads reports whether this server does the work that one of all front ends does: there is
// no fleet, or it is the leader.
func (m *Membership) Leads() bool { return m.fleet == nil || m.fleet.Leader() }

// Options returns the options of an exchange with the other members.
func (m *Membership) Options() Options {
	f := m.fleet
	return Options{Self: f.Self().ID.String(), Secret: f.Secret(), Source: members{f}, Listener: m.bus}
}

// Meet waits until all others follow this front end, and announces it to clients. A front
// end that does not answer within its lease is dead.
func (m *Membership) Meet(ctx context.Context, x *Exchange) {
	ctx, cancel := context.WithTimeout(ctx, m.fleet.Lease()+2*time.Second)
	defer cancel()
	if err := x.Ready(ctx); err != nil {
		m.Log.Warn("not all other front ends follow this one; what they miss they look for themselves", "err", err)
	}
	m.fleet.Announce(func(self *fleet.Member) { self.Away = false })
}

// Leave ends the membership, if there is one.
func (m *Membership) Leave(ctx context.Context) {
	if m.fleet == nil {
		return
	}
	if err := m.fleet.Leave(ctx); err != nil {
		m.Log.Warn("the others will notice later that this front end has left", "err", err)
	}
}

// members are the other members of a fleet.
type members struct{ *fleet.Fleet }

func (s members) Peers() (list []bus.Peer) {
	self := s.Self().ID
	for _, m := range s.Members() {
		if m.ID != self {
			list = append(list, bus.Peer{ID: m.ID.String(), Addr: m.Bus()})
		}
	}
	return list
}

// Came has the rows of members read at once if an unknown one has connected: it waits to be
// followed before it accepts clients.
func (s members) Came(id string) {
	known := slices.ContainsFunc(s.Peers(), func(p bus.Peer) bool { return p.ID == id })
	if !known {
		s.Refresh()
	}
}

func (s members) Reached(id string) {
	if id, ok := memberID(id); ok {
		s.Fleet.Reached(id)
	}
}

func (s members) Refused(id string) {
	if id, ok := memberID(id); ok {
		s.Fleet.Refused(id)
	}
}
