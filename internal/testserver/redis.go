package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
)

// Oracle skips a test that needs a real Redis unless the environment has REDOUBT_ORACLE=1.
// With it, a missing redis-server fails the test and does not skip it.
func Oracle(t testing.TB) {
	t.Helper()
	if os.Getenv("REDOUBT_ORACLE") == "" {
		t.Skip("asks a real Redis: set REDOUBT_ORACLE=1 (make oracle)")
	}
}

// Redis is a real redis-server.
type Redis struct {
	Addr    string
	Version string

	cmd    *exec.Cmd
	exited chan struct{}
	log    *bytes.Buffer
}

// StartRedis starts the redis-server that REDIS_SERVER names, or else the one
// in PATH, without persistence, and stops it at the end of the test.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	return keepRedis(t, append([]string{"--save", "", "--appendonly", "no", "--enable-debug-command", "yes"}, args...))
}

// StartRedisFile is StartRedis with a configuration file, which alone says how it
// is to be, but for its address and its directory.
func StartRedisFile(t testing.TB, file string) *Redis {
	t.Helper()
	return keepRedis(t, nil, file)
}

// StartRedisIn is StartRedisFile with its data in a directory, where it may find a file to
// load.
func StartRedisIn(t testing.TB, dir, file string) *Redis {
	t.Helper()
	r, err := startRedis(dir, []string{file}, nil)
	if err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	t.Cleanup(r.stop)
	return r
}

func keepRedis(t testing.TB, args []string, file ...string) *Redis {
	t.Helper()
	r, err := startRedis(t.TempDir(), file, args)
	if err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	t.Cleanup(r.stop)
	return r
}

func startRedis(dir string, file, args []string) (*Redis, error) {
	path := os.Getenv("REDIS_SERVER")
	if path == "" {
		var err error
		if path, err = exec.LookPath("redis-server"); err != nil {
			return nil, fmt.Errorf("no redis-server: set REDIS_SERVER to its path: %w", err)
		}
	}
	// Redis cannot report a port that it chose, so one is chosen here, and another if a
	// different process took it first.
	var last error
	for range 10 {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		r := &Redis{Addr: "127.0.0.1:" + port, log: new(bytes.Buffer), exited: make(chan struct{})}
		all := append(slices.Clone(file), "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no")
		r.cmd = exec.Command(path, append(all, args...)...)
		r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
		if err := r.cmd.Start(); err != nil {
			return nil, err
		}
		go func() {
			_ = r.cmd.Wait() // how it ended is in its log
			close(r.exited)
		}()
		if last = r.ready(); last == nil {
			return r, nil
		}
		r.stop()
	}
	return nil, last
}

// ready waits until the server answers INFO, which also tells its version.
func (r *Redis) ready() error {
	for deadline := time.Now().Add(20 * time.Second); ; {
		version, err := RedisVersion(r.Addr, strconv.Itoa(r.cmd.Process.Pid))
		if err == nil {
			r.Version = version
			return nil
		}
		select {
		case <-r.exited:
			return fmt.Errorf("redis-server exited: %s", r.log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// Needs skips the test if the server is none of some versions, 7.2 say: the test
// compares what changes from one to the next.
func (r *Redis) Needs(t testing.TB, versions ...string) {
	t.Helper()
	if !slices.ContainsFunc(versions, func(v string) bool { return strings.HasPrefix(r.Version, v+".") }) {
		t.Skipf("compares with Redis %s, this is %s", strings.Join(versions, " and "), r.Version)
	}
}

// Kill ends the server as kill -9 does, and waits until it is gone.
func (r *Redis) Kill() { r.stop() }

func (r *Redis) stop() {
	_ = r.cmd.Process.Kill() // fails only if it has exited
	<-r.exited
}

// ErrRedoubt: the server that was to be a real Redis is Redoubt.
var ErrRedoubt = errors.New("the server is Redoubt, not Redis")

// RedisVersion asks a server for its version. With a pid, the server must be
// that process.
func RedisVersion(addr, pid string) (string, error) {
	c, err := respclient.Dial(addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	v, err := c.Do("INFO", "server")
	if err != nil {
		return "", err
	}
	info := make(map[string]string)
	for line := range strings.Lines(v.Str) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	switch {
	case info["redoubt_version"] != "":
		return "", ErrRedoubt
	case info["redis_version"] == "":
		return "", fmt.Errorf("INFO names no redis_version: %s", v)
	case pid != "" && info["process_id"] != pid:
		return "", fmt.Errorf("another server answers at %s", addr)
	}
	return info["redis_version"], nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
