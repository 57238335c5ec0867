// Package testtikv gives tests a TiKV cluster: a real PD, and unistore as the
// store (test/tikv/store). Tests that any TiKV can pass use Shared, and run
// unchanged on a cluster that REDOUBT_TIKV_PD names. Tests that inject faults start a
// cluster of their own. Without REDOUBT_TIKV=1 or REDOUBT_TIKV_PD all of them are skipped,
// since a fresh machine would build for minutes.
package testtikv

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
)

// Shared is the PD address of the cluster that all tests of a package share.
// Each test keeps to a Prefix of its own. The package's TestMain calls Main.
func Shared(t testing.TB) string {
	t.Helper()
	if pd := os.Getenv("REDOUBT_TIKV_PD"); pd != "" {
		return pd
	}
	skipUnlessOwn(t, "TiKV: run `make test-tikv`, or set REDOUBT_TIKV_PD to the address of a PD")
	c, err := shared()
	if err != nil {
		t.Fatalf("start the TiKV cluster: %v", err)
	}
	return c.PD()
}

// Prefix returns a new random key prefix. Keys that a test leaves under it are not removed.
// All prefixes have the same first byte, because unistore keeps data about a key under that
// byte plus one.
func Prefix(testing.TB) string {
	return fmt.Sprintf("redoubt-test-%016x:", rand.Uint64())
}

// Main is the whole body of a package's TestMain.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main without the exit, for a TestMain that has more to do.
func Run(m *testing.M) (code int) {
	code = m.Run()
	if sharedDir != "" {
		c, err := shared()
		if code != 0 && c != nil {
			fmt.Fprint(os.Stderr, c.logs())
		}
		if err == nil {
			err = c.kill()
		}
		if err == nil {
			err = os.RemoveAll(sharedDir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "stop the TiKV cluster:", err)
		}
	}
	return code
}

// sharedDir is where the shared cluster is, once there is one.
var sharedDir string

var shared = sync.OnceValues(func() (*cluster, error) {
	bin, err := Find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redoubt-tikv-")
	if err != nil {
		return nil, err
	}
	sharedDir = dir
	a, err := freeAddresses()
	if err != nil {
		return nil, err
	}
	c := &cluster{addresses: a, dir: dir, bin: bin, attr: dependent}
	return c, c.start()
})

func skipUnlessOwn(t testing.TB, needs string) {
	t.Helper()
	if os.Getenv("REDOUBT_TIKV") != "1" {
		t.Skip("needs " + needs)
	}
}

// Cluster is a cluster that belongs to one test. Its methods are not safe for concurrent
// use; their failures fail the test.
type Cluster struct {
	c *cluster
	t testing.TB
}

// Start starts a cluster, and kills it at the end of the test.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	skipUnlessOwn(t, "a TiKV cluster of its own: run `make test-tikv`")
	bin, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	a, err := freeAddresses()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{&cluster{addresses: a, dir: t.TempDir(), bin: bin, attr: dependent}, t}
	for _, o := range opts {
		o(&c.c.options)
	}
	t.Cleanup(func() {
		if err := c.c.kill(); err != nil {
			t.Errorf("stop the TiKV cluster: %v", err)
		}
		if t.Failed() {
			t.Log(c.c.logs())
		}
	})
	c.must("start the cluster", c.c.start())
	return c
}

func (c *Cluster) must(what string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// PD is the address of PD for clients.
func (c *Cluster) PD() string { return c.c.PD() }

// KillStore ends the store as kill -9 does.
func (c *Cluster) KillStore() { c.t.Helper(); c.must("kill the store", c.c.store.kill()) }

// StartStore starts a store that was killed again, with its data and on its
// port, and waits until it serves. It needs PD.
func (c *Cluster) StartStore() { c.t.Helper(); c.must("start the store", c.c.startStore()) }

// PauseStore stops the store until ResumeStore; its connections stay.
func (c *Cluster) PauseStore() { c.t.Helper(); c.must("pause the store", c.c.store.pause()) }

// ResumeStore lets a paused store go on.
func (c *Cluster) ResumeStore() {
	c.t.Helper()
	c.must("resume the store", c.c.store.signal(sigResume))
}

// KillPD ends PD as kill -9 does.
func (c *Cluster) KillPD() { c.t.Helper(); c.must("kill PD", c.c.pd.kill()) }

// StartPD starts a PD that was killed again and waits until it leads.
func (c *Cluster) StartPD() { c.t.Helper(); c.must("start PD", c.c.startPD()) }

// PausePD stops PD until ResumePD; its connections stay.
func (c *Cluster) PausePD() { c.t.Helper(); c.must("pause PD", c.c.pd.pause()) }

// ResumePD lets a paused PD go on.
func (c *Cluster) ResumePD() { c.t.Helper(); c.must("resume PD", c.c.pd.signal(sigResume)) }

// StoreLink returns the link between clients and the store, if the cluster is Linked.
func (c *Cluster) StoreLink() *Link { return c.c.storeLink }

// PDLink returns the link between clients and PD, if the cluster is Linked.
func (c *Cluster) PDLink() *Link { return c.c.pdLink }
