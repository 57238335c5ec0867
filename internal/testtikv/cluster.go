package testtikv

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// cluster is a PD and a store on this machine. Its methods are not safe for concurrent use.
type cluster struct {
	options
	addresses
	dir  string
	bin  Binaries
	attr func() *syscall.SysProcAttr

	secure            string   // where PD listens for clients with TLS
	pd, store         *process // nil if it was never started
	pdLink, storeLink *Link    // nil unless asked for
}

type options struct {
	regionSize int
	linked     bool
	tls        []string // flags of PD and of the store
}

// An Option changes the cluster that Start starts.
type Option func(*options)

// RegionSize makes regions split from so many bytes on. Unistore checks every five seconds.
func RegionSize(bytes int) Option { return func(o *options) { o.regionSize = bytes } }

// TLS demands from clients a certificate of the authority ca; cert and key are the cluster's
// own. All are files. The store still talks to PD without TLS, since unistore supports none
// there.
func TLS(ca, cert, key string) Option {
	return func(o *options) { o.tls = []string{"--cacert", ca, "--cert", cert, "--key", key} }
}

// Linked puts a Link in front of PD and of the store.
func Linked() Option { return func(o *options) { o.linked = true } }

// addresses are the addresses on which a cluster listens. They are as permanent as its data.
type addresses struct {
	PD    string `json:"pd"`
	Peer  string `json:"peer"` // of PD, for other PDs
	Store string `json:"store"`
}

// freeAddresses picks addresses for a cluster.
func freeAddresses() (a addresses, err error) {
	for _, p := range []*string{&a.PD, &a.Peer, &a.Store} {
		for *p == "" || *p == a.PD && p != &a.PD || *p == a.Peer && p != &a.Peer {
			if *p, err = freeAddress(); err != nil {
				return a, err
			}
		}
	}
	return a, nil
}

// freeAddress picks a port below those that systems give to outgoing
// connections, so that no connection gets a program's port while the program is down.
func freeAddress() (string, error) {
	var err error
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(21000+rand.IntN(11000)))
		var ln net.Listener
		if ln, err = net.Listen("tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// start starts PD and the store.
func (c *cluster) start() error {
	if c.linked {
		var err error
		if c.pdLink, err = newLink(c.addresses.PD); err != nil {
			return err
		}
		if c.storeLink, err = newLink(c.addresses.Store); err != nil {
			return err
		}
	}
	if c.tls != nil {
		var err error
		if c.secure, err = freeAddress(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if err := c.startPD(); err != nil {
		return err
	}
	return c.startStore()
}

// PD's defaults are for distant machines: with them, electing a leader takes seconds even
// without peers.
const pdConfig = `tick-interval = "100ms"
election-interval = "1s"
lease = 2
`

func (c *cluster) startPD() error {
	config := filepath.Join(c.dir, "pd.toml")
	if err := os.WriteFile(config, []byte(pdConfig), 0o644); err != nil {
		return err
	}
	at, peer := "http://"+c.addresses.PD, "http://"+c.Peer
	listen, advertise := at, "http://"+c.PD()
	if c.secure != "" {
		listen += ",https://" + c.secure
		advertise = listen
	}
	p, err := launch("PD", filepath.Join(c.dir, "pd.log"), c.attr(), c.bin.PD, append([]string{
		"--name", "pd", "--config", config, "--data-dir", filepath.Join(c.dir, "pd"), "-L", "warn",
		"--client-urls", listen, "--advertise-client-urls", advertise,
		"--peer-urls", peer, "--advertise-peer-urls", peer, "--initial-cluster", "pd=" + peer}, c.tls...)...)
	if err != nil {
		return err
	}
	c.pd = p
	return p.await(func() error { return leads(at) })
}

// leads asks whether a PD is the leader.
func leads(url string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url + "/pd/api/v1/leader")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(r.Body, 200))
		return fmt.Errorf("%s: %s", r.Status, text)
	}
	return nil
}

// startStore starts the store; PD must run.
func (c *cluster) startStore() error {
	advertise := c.addresses.Store
	if c.storeLink != nil {
		advertise = c.storeLink.Addr()
	}
	args := []string{"--pd", c.addresses.PD, "--addr", c.addresses.Store, "--advertise", advertise, "--dir", filepath.Join(c.dir, "store")}
	if c.regionSize > 0 {
		args = append(args, "--region-size", strconv.Itoa(c.regionSize))
	}
	p, err := launch("store", filepath.Join(c.dir, "store.log"), c.attr(), c.bin.Store, append(args, c.tls...)...)
	if err != nil {
		return err
	}
	c.store = p
	return p.await(func() error { return p.said("listening ") })
}

// PD is the address for clients.
func (c *cluster) PD() string {
	switch {
	case c.secure != "":
		return c.secure
	case c.pdLink != nil:
		return c.pdLink.Addr()
	}
	return c.addresses.PD
}

// kill ends PD, the store and the links.
func (c *cluster) kill() error {
	var all []error
	for _, p := range []*process{c.store, c.pd} {
		if p != nil && !p.ended() {
			all = append(all, p.kill())
		}
	}
	for _, l := range []*Link{c.pdLink, c.storeLink} {
		if l != nil {
			l.close()
		}
	}
	return errors.Join(all...)
}

// logs returns the ends of the logs.
func (c *cluster) logs() string {
	text := ""
	for _, p := range []*process{c.pd, c.store} {
		if p != nil {
			text += p.tail() + "\n"
		}
	}
	return text
}
