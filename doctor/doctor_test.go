package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"redoubt/client"
	"redoubt/config"
)

// now is the time of the tests.
var now = time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)

// healthy is a machine with which nothing is wrong.
func healthy() (Machine, fstest.MapFS) {
	root := fstest.MapFS{}
	for path, text := range map[string]string{
		"proc/sys/vm/overcommit_memory": "1\n", "proc/sys/vm/swappiness": "60\n", "proc/swaps": "Filename Type\n", "proc/sys/net/core/somaxconn": "4096\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                      "always [madvise] never\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
	} {
		root[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return Machine{
		Root: root, Now: func() time.Time { return now }, OpenFiles: func() (uint64, bool) { return 1 << 20, true },
		Volume: func(string) (Volume, error) { return Volume{"ext4", 50 << 30, 100 << 30}, nil },
		Fsync: func(string, time.Duration) (p50, p99, most time.Duration, err error) {
			return time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, nil
		},
		ClockSynced: func() (bool, bool) { return true, true }, User: 1000, Owner: func(fs.FileInfo) (int, bool) { return 1000, true },
		Store: func(string) (string, bool, error) { return "the store is well", false, nil }, Memory: 64 << 30,
	}, root
}

// freePort returns a port on which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// answering is a server that answers each line that ends a request with a text.
func answering(t *testing.T, reply string) *client.Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if n, err := conn.Read(make([]byte, 1<<10)); n > 0 && err == nil {
					fmt.Fprint(conn, reply)
				}
			}()
		}
	}()
	return &client.Server{Addr: ln.Addr().String()}
}

// info is a reply to INFO.
func info(fields string) string {
	text := "# Server\r\nredis_version:7.4.1\r\nredoubt_version:0\r\n" + strings.ReplaceAll(fields, " ", "\r\n") + "\r\n"
	return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
}

// certificate writes a certificate that is valid between two times, relative to now.
func certificate(t *testing.T, dir string, from, until time.Duration) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(from), NotAfter: now.Add(until)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "cert.pem")
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o600)
	return []string{"--tls-port", "1", "--tls-cert-file", path, "--tls-key-file", path}
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// visit is an examination with everything in order; a case makes one thing wrong.
type visit struct {
	Machine
	root   fstest.MapFS
	dir    string
	args   []string
	server *client.Server
}

func (v *visit) file(path, text string) { v.root[path] = &fstest.MapFile{Data: []byte(text)} }

func newVisit(t *testing.T) *visit {
	t.Helper()
	m, root := healthy()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	v := &visit{Machine: m, root: root, dir: dir}
	v.args = []string{"--dir", dir, "--bind", "127.0.0.1", "--port", freePort(t), "--maxmemory", "1gb"}
	return v
}

func (v *visit) examine(t *testing.T) (list []Finding) {
	t.Helper()
	p := Patient{Config: config.New(), Version: "0", Server: v.server}
	p.Mistake = p.Config.Args(v.args)
	Examine(t.Context(), p, v.Machine, func(f Finding) { list = append(list, f) })
	return list
}

// Nothing is found where nothing is wrong: with no store yet, with one, with a server.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"nothing", "a store", "a server", "no directory"} {
		v := newVisit(t)
		switch with {
		case "a store":
			if err := os.MkdirAll(filepath.Join(v.dir, "local"), 0o700); err != nil {
				t.Fatal(err)
			}
		case "a server":
			v.server = answering(t, info("engine:local"))
		case "no directory":
			v.args = append(v.args, "--dir", filepath.Join(v.dir, "new", "er"))
		}
		list := v.examine(t)
		for _, f := range list {
			if f.Grade != OK || f.What == "" {
				t.Errorf("%s: %s: %+v", with, f.Grade, f)
			}
		}
		if len(list) < 12 {
			t.Errorf("%s: %d findings", with, len(list))
		}
	}
}

// Each thing that can be wrong is found, with a reason and a remedy, and nothing else is.
func TestFindings(t *testing.T) {
	t.Parallel()
	raft := "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
	arg := func(args ...string) func(*testing.T, *visit) {
		return func(_ *testing.T, v *visit) { v.args = append(v.args, args...) }
	}
	file := func(path, text string) func(*testing.T, *visit) {
		return func(_ *testing.T, v *visit) { v.file(path, text) }
	}
	gone := func(path string) func(*testing.T, *visit) {
		return func(_ *testing.T, v *visit) { delete(v.root, path) }
	}
	on := func(kind string, free uint64) func(*testing.T, *visit) {
		return func(_ *testing.T, v *visit) {
			v.Volume = func(string) (Volume, error) { return Volume{kind, free, 100 << 30}, nil }
		}
	}
	slow := func(args ...string) func(*testing.T, *visit) {
		return func(_ *testing.T, v *visit) {
			v.args = append(v.args, args...)
			v.Fsync = func(string, time.Duration) (p50, p99, most time.Duration, err error) {
				return time.Millisecond, time.Second, time.Second, nil
			}
		}
	}
	cert := func(from, until time.Duration) func(*testing.T, *visit) {
		return func(t *testing.T, v *visit) {
			v.args = append(v.args, certificate(t, v.dir, from, until)...)
			v.args[5] = "0" // port: with it, tls-port alone is tried, which needs no right below 1024 here
			v.args = append(v.args, "--tls-port", freePort(t))
		}
	}
	says := func(fields string) func(*testing.T, *visit) {
		return func(t *testing.T, v *visit) { v.server = answering(t, info(fields)) }
	}
	store := func(locked bool, err error) func(*testing.T, *visit) {
		return func(t *testing.T, v *visit) {
			if err := os.Mkdir(filepath.Join(v.dir, "local"), 0o700); err != nil {
				t.Fatal(err)
			}
			v.Store = func(string) (string, bool, error) { return "", locked, err }
		}
	}
	secret := func(text string, mode fs.FileMode) func(*testing.T, *visit) {
		return func(t *testing.T, v *visit) {
			path := filepath.Join(v.dir, "secret")
			if text != "" {
				write(t, path, text, mode)
			}
			v.args = append(v.args, "--raft-peers", raft, "--cluster-secret-file", path)
		}
	}
	for _, c := range []struct {
		grade  Grade
		what   string
		change func(*testing.T, *visit)
	}{
		{Fault, "Bad directive", arg("--nonsense", "1")},
		{Advice, "have no effect here: activerehashing", arg("--activerehashing", "no")},
		{Warning, "engine is memory", arg("--engine", "memory")},
		{Fault, "tikv-pd is not set", arg("--engine", "tikv")},
		{Fault, "cql-hosts is not set", arg("--engine", "cql")},
		{Advice, "appendfsync is no", arg("--appendfsync", "no")},
		{Fault, "raft-peers has 2 nodes", arg("--raft-peers", "127.0.0.1:1,127.0.0.1:2")},
		{Fault, "cluster-secret-file is not set", arg("--raft-peers", "10.0.0.1:1,10.0.0.2:1,10.0.0.3:1")},
		{Fault, "cluster-secret-file cannot be read", secret("", 0)},
		{Fault, "is shorter than 16 bytes", secret("short", 0o600)},
		{Warning, "can be read by others", secret("0123456789abcdef", 0o644)},
		{Fault, "tls-cert-file or tls-key-file is not set", func(t *testing.T, v *visit) { v.args = append(v.args, "--tls-port", freePort(t)) }},
		{Fault, "the certificate or its key cannot be read", arg("--http-tls", "yes", "--tls-cert-file", "/nonexistent", "--tls-key-file", "/nonexistent")},
		{Fault, "has no certificate", arg("--http-tls", "yes", "--tls-cert-file", "doctor.go", "--tls-key-file", "doctor.go")},
		{Fault, "the certificate has expired on 2026-11-18", cert(-48*time.Hour, -24*time.Hour)},
		{Fault, "valid from 2026-11-20 on", cert(24*time.Hour, 999*time.Hour)},
		{Warning, "the certificate expires on 2026-11-20", cert(-time.Hour, 24*time.Hour)},
		{OK, "the certificate is valid until 2026-12-31", cert(-time.Hour, 42*24*time.Hour)},
		{Warning, "the limit on open files is 1024; maxclients and http-max-connections need 10160", func(_ *testing.T, v *visit) {
			v.OpenFiles = func() (uint64, bool) { return 1024, true }
		}},
		{Unknown, "the limit on open files", func(_ *testing.T, v *visit) { v.OpenFiles = func() (uint64, bool) { return 0, false } }},
		{Warning, "vm.overcommit_memory is 2", file("proc/sys/vm/overcommit_memory", "2\n")},
		{Unknown, "vm.overcommit_memory", gone("proc/sys/vm/overcommit_memory")},
		{Advice, "transparent huge pages are always used", file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")},
		{Unknown, "transparent huge pages", gone("sys/kernel/mm/transparent_hugepage/enabled")},
		{Advice, "net.core.somaxconn is 128", file("proc/sys/net/core/somaxconn", "128\n")},
		{Warning, "maxmemory is 0", arg("--maxmemory", "0")},
		{Warning, "maxmemory is 61440 MiB", arg("--maxmemory", "60gb")},
		{Advice, "vm.swappiness is 60", file("proc/swaps", "Filename Type\n/dev/sda2 partition\n")},
		{Unknown, "whether there is swap", gone("proc/swaps")},
		{Warning, "is on nfs", on("nfs", 50<<30)},
		{Warning, "is on tmpfs", on("tmpfs", 50<<30)},
		{Warning, "is on an overlay file system", on("overlay", 50<<30)},
		{Warning, "1024 MiB of 102400 MiB are free", on("ext4", 1<<30)},
		{Unknown, "was not measured", func(_ *testing.T, v *visit) {
			v.Volume = func(string) (Volume, error) { return Volume{"ext4", 1 << 20, 2 << 20}, nil }
		}},
		{Unknown, "the file system of", func(_ *testing.T, v *visit) {
			v.Volume = func(string) (Volume, error) { return Volume{}, errors.New("no") }
		}},
		{Warning, "fsync takes p50 1ms, p99 1s", slow("--appendfsync", "always")},
		{Advice, "fsync takes p50 1ms, p99 1s", slow()},
		{Fault, "cannot be written to", func(_ *testing.T, v *visit) {
			v.Fsync = func(string, time.Duration) (p50, p99, most time.Duration, err error) {
				return 0, 0, 0, fs.ErrPermission
			}
		}},
		{Fault, "the clock says 1970-01-01", func(_ *testing.T, v *visit) { v.Now = func() time.Time { return time.Unix(0, 0) } }},
		{Warning, "later than now", func(t *testing.T, v *visit) {
			journal := filepath.Join(v.dir, "local", "journal")
			if err := errors.Join(os.MkdirAll(journal, 0o700), os.Chtimes(journal, now, now.Add(time.Hour))); err != nil {
				t.Fatal(err)
			}
		}},
		{Advice, "does not say that its clock is kept by NTP", func(_ *testing.T, v *visit) { v.ClockSynced = func() (bool, bool) { return false, true } }},
		{Unknown, "whether the clock is kept", func(_ *testing.T, v *visit) { v.ClockSynced = func() (bool, bool) { return false, false } }},
		{Advice, "the clock source is hpet", file("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")},
		{Warning, "can be used by others (-rwxr-xr-x)", func(t *testing.T, v *visit) {
			if err := os.Chmod(v.dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{Warning, "belongs to user 7, and this is user 1000", func(_ *testing.T, v *visit) { v.Owner = func(fs.FileInfo) (int, bool) { return 7, true } }},
		{Fault, "is no directory", func(t *testing.T, v *visit) {
			write(t, filepath.Join(v.dir, "file"), "", 0o600)
			v.args = append(v.args, "--dir", filepath.Join(v.dir, "file"))
		}},
		{Fault, "dir: stat ", func(t *testing.T, v *visit) {
			write(t, filepath.Join(v.dir, "file"), "", 0o600)
			v.args = append(v.args, "--dir", filepath.Join(v.dir, "file", "below"))
		}},
		{Warning, "a process has the store open", store(true, errors.New("locked"))},
		{Fault, "the store: broken", store(false, errors.New("broken"))},
		{Advice, "so only this machine is served", arg("--bind", "*")},
		{Fault, "protected-mode is no", arg("--bind", "*", "--protected-mode", "no")},
		{Advice, "requirepass is shorter", arg("--requirepass", "secret")},
		{Warning, "metrics-password is not set", arg("--metrics-addr", ":9121")},
		{Advice, "http-tls is no", arg("--http-addr", "0.0.0.0:80")},
		{Fault, "the server cannot listen (bind, tls-port)", func(t *testing.T, v *visit) {
			v.args = append(v.args, certificate(t, v.dir, -time.Hour, 999*time.Hour)...)
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { taken.Close() })
			_, port, _ := net.SplitHostPort(taken.Addr().String())
			v.args = append(v.args, "--tls-port", port)
		}},
		{Fault, "no server answers at", func(t *testing.T, v *visit) { v.server = &client.Server{Addr: "127.0.0.1:" + freePort(t)} }},
		{Warning, "NOAUTH Authentication required", func(t *testing.T, v *visit) { v.server = answering(t, "-NOAUTH Authentication required.\r\n") }},
		{Warning, "does not tell about itself: the reply is not one of Redis", func(t *testing.T, v *visit) { v.server = answering(t, "HTTP/1.1 400\r\n") }},
		{Advice, "it is version 9, and this program is 0", says("redoubt_version:9")},
		{Advice, "it is loading its data", says("loading:1")},
		{Fault, "it refuses writes: the-disk", says("store_error:the-disk")},
		{Fault, "its last write to disk failed", says("aof_last_write_status:err")},
		{Warning, "its disk is almost full", says("engine_disk_low:1")},
		{Warning, "its link to its master is down: refused", says("master_link_status:down master_link_error:refused")},
		{Warning, "3 connections were refused", says("rejected_connections:3")},
		{Warning, "3 clients were closed", says("evicted_clients:1 client_query_buffer_limit_disconnections:1 client_output_buffer_limit_disconnections:1")},
		{Advice, "50 of 100 commits had to wait", says("commits:100 engine_commits_waited:50")},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			v := newVisit(t)
			c.change(t, v)
			found := 0
			for _, f := range v.examine(t) {
				if f.Grade == c.grade && strings.Contains(f.What, c.what) {
					found++
				} else if f.Grade > Unknown {
					t.Errorf("besides: %s: %s", f.Grade, f.What)
				}
				if f.Grade > Unknown && (f.Why == "" || f.Do == "") {
					t.Errorf("no reason or no remedy: %+v", f)
				}
			}
			if found != 1 {
				t.Errorf("it is found %d times", found)
			}
		})
	}
}

// This machine can be measured, and nothing is left behind.
func TestHere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := Here()
	p50, p99, most, err := m.Fsync(dir, 20*time.Millisecond)
	if err != nil || p50 <= 0 || p99 < p50 || most < p99 {
		t.Errorf("%s, %s, %s, %v", p50, p99, most, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if _, _, _, err := m.Fsync(filepath.Join(dir, "none"), time.Millisecond); err == nil {
		t.Error("a directory that is not there can be written to")
	}
	if m.Memory < 64<<20 {
		t.Errorf("%d bytes of memory", m.Memory)
	}
}
