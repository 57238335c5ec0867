package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// errForbidden marks an address that no webhook may reach.
var errForbidden = errors.New("webhooks may not reach this address: set webhook-private-addresses to yes if they should")

// Forbidden reports whether an address is loopback, private, link-local or not unicast. An
// IPv6 address that embeds an IPv4 address counts as the latter.
func Forbidden(a netip.Addr) bool {
	a = a.Unmap()
	if b := a.As16(); a.Is6() {
		switch {
		case nat64.Contains(a):
			return Forbidden(netip.AddrFrom4([4]byte(b[12:16])))
		case sixToFour.Contains(a):
			return Forbidden(netip.AddrFrom4([4]byte(b[2:6])))
		}
	}
	if a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || !a.IsGlobalUnicast() {
		return true
	}
	for _, p := range special {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	// special are further ranges that are not globally reachable (RFC 6890).
	special = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b:1::/48"),
		netip.MustParsePrefix("fec0::/10"),
	}
)

// clients are the HTTP clients, one for each target.
type clients struct {
	allowPrivate func() bool
	mu           sync.Mutex
	made         map[*Target]*http.Client
}

func (c *clients) of(t *Target) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made := c.made[t]; made != nil {
		return made
	}
	if c.made == nil {
		c.made = make(map[*Target]*http.Client)
	}
	// The address is checked when it is dialled, after its name was resolved, so neither a
	// name server nor a redirect can lead to a forbidden one. A proxy could, so none is used.
	dialer := &net.Dialer{Timeout: t.Timeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if Forbidden(at.Addr()) && !c.allowPrivate() {
			return fmt.Errorf("%s: %w", at.Addr(), errForbidden)
		}
		return nil
	}}
	made := &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, MaxConnsPerHost: t.MaxConns, MaxIdleConnsPerHost: min(t.MaxConns, defaultWorkers), MaxIdleConns: 2 * defaultWorkers,
			IdleConnTimeout: t.IdleTime, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
		// A redirect is followed only to the same host, since headers may hold secrets, with the
		// same method, and never from https to http.
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > t.MaxRedirects || req.URL.Host != via[0].URL.Host || req.Method != via[0].Method || via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	c.made[t] = made
	return made
}

// close closes the idle connections and forgets the clients.
func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.made {
		made.CloseIdleConnections()
	}
	clear(c.made)
}
