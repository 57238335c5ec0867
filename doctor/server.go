package doctor

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"redoubt/client"
)

// answer is what a server said to INFO.
type answer struct {
	addr string
	info map[string]string
	err  error // something answers, but does not tell
}

// patience is how long a server may take for its answer.
const patience = 3 * time.Second

// ask asks the server, if one answers.
func (e *examination) ask(ctx context.Context) *answer {
	s := client.Server{Password: e.cfg.Str("requirepass")}
	if e.Server != nil {
		s = *e.Server
	} else if port := e.cfg.Int("port"); port != 0 {
		s.Addr = net.JoinHostPort(e.host(), strconv.FormatInt(port, 10))
	} else {
		return nil
	}
	s.Patience = patience
	a := &answer{addr: s.Addr}
	probe, err := net.DialTimeout("tcp", s.Addr, patience)
	if err != nil {
		return nil
	}
	probe.Close()
	c, err := client.Dial(ctx, s)
	if err != nil {
		a.err = err
		return a
	}
	defer c.Close()
	v, err := c.Do("INFO", "everything")
	if err != nil {
		a.err = err
		return a
	}
	a.info = client.ParseInfo(v.Text)
	if a.info["redis_version"] == "" {
		a.err = client.ErrReply
	}
	return a
}

// host is an address of the configuration at which this machine reaches the server.
func (e *examination) host() string {
	for _, w := range strings.Fields(e.cfg.Str("bind")) {
		if w = strings.TrimPrefix(w, "-"); w != "*" && w != "::*" && net.ParseIP(w) != nil && !net.ParseIP(w).IsUnspecified() {
			return w
		}
	}
	return "127.0.0.1"
}

// open reports whether other machines reach an address of a list.
func open(words ...string) bool {
	for _, w := range words {
		if ip := net.ParseIP(strings.TrimPrefix(w, "-")); ip == nil || !ip.IsLoopback() {
			return true
		}
	}
	return false
}

// leastPassword is how long a password is that cannot be guessed at the speed of a network.
const leastPassword = 16

// access looks at who can connect.
func (e *examination) access() {
	const area = "access"
	cfg := e.cfg
	password := cfg.Str("requirepass")
	users := len(cfg.Users()) > 0 || cfg.Str("aclfile") != ""
	reach := open(strings.Fields(cfg.Str("bind"))...)
	switch {
	case users || !reach && password == "":
		e.ok(area, "who can connect: %s", map[bool]string{true: "users of the ACL", false: "this machine only (bind)"}[users])
	case password == "" && cfg.Bool("protected-mode"):
		e.add(area, Advice, "there is no password, so only this machine is served (protected mode)", "clients on other machines are refused", "set requirepass, or users of the ACL, if others are to connect; else bind 127.0.0.1")
	case password == "":
		e.add(area, Fault, "there is no password, protected-mode is no, and bind has addresses that other machines reach", "everybody who reaches the port has all data, and more", "set requirepass, or bind 127.0.0.1, or protected-mode yes")
	case len(password) < leastPassword:
		e.add(area, Advice, fmt.Sprintf("requirepass is shorter than %d characters", leastPassword), "a password can be tried many times a second from many addresses", "set one from a generator: openssl rand -hex 24")
	default:
		e.ok(area, "there is a password")
	}
	if at := cfg.Str("metrics-addr"); at != "" && cfg.Str("metrics-password") == "" {
		if host, _, err := net.SplitHostPort(at); err != nil || open(host) {
			e.add(area, Warning, "metrics-addr can be reached from other machines and metrics-password is not set", "names of commands, figures and, with metrics-pprof, memory are open to all", "set metrics-password, or bind metrics-addr to 127.0.0.1")
		}
	}
	if at := cfg.Str("http-addr"); at != "" && !cfg.Bool("http-tls") {
		if host, _, err := net.SplitHostPort(at); err != nil || open(host) {
			e.add(area, Advice, "http-addr can be reached from other machines and http-tls is no", "passwords of the console and tokens go over the network as they are", "set http-tls yes, or put a proxy with TLS before it")
		}
	}
	if e.answer != nil || e.Server != nil {
		return
	}
	for _, directive := range []string{"port", "tls-port"} {
		port := cfg.Int(directive)
		if port == 0 {
			continue
		}
		ln, err := net.Listen("tcp", net.JoinHostPort(e.host(), strconv.FormatInt(port, 10)))
		if err != nil {
			e.add(area, Fault, fmt.Sprintf("the server cannot listen (bind, %s): %v", directive, err), "it does not start", "stop what has the port, or correct bind and "+directive)
			continue
		}
		ln.Close()
	}
}

// running looks at the server that answers.
func (e *examination) running() {
	const area = "server"
	a := e.answer
	switch {
	case a == nil && e.Server != nil:
		e.add(area, Fault, "no server answers at "+e.Server.Addr, "clients cannot connect", "start it, or see to address and firewall")
		return
	case a == nil:
		e.ok(area, "no server runs with this configuration")
		return
	case a.err != nil:
		e.add(area, Warning, fmt.Sprintf("what answers at %s does not tell about itself: %v", a.addr, a.err), "its state cannot be looked at", "redoubt doctor --server redis://user:password@host:port with a user who may run INFO; or stop what has the port")
		return
	}
	get := func(name string) int64 { n, _ := strconv.ParseInt(a.info[name], 10, 64); return n }
	version := a.info["redoubt_version"]
	if version == "" {
		e.ok(area, "a Redis %s answers at %s", a.info["redis_version"], a.addr)
	} else {
		e.ok(area, "Redoubt %s answers at %s, engine %s, up for %s", version, a.addr, a.info["engine"], time.Duration(get("uptime_in_seconds"))*time.Second)
		if version != e.Version {
			e.add(area, Advice, fmt.Sprintf("it is version %s, and this program is %s", version, e.Version), "advice may be about another version", "use the doctor of the version that runs")
		}
	}
	if get("loading") != 0 {
		e.add(area, Advice, "it is loading its data", "commands are answered with LOADING until it has", "wait; the log shows how far it is")
	}
	if text := a.info["store_error"]; text != "" {
		e.add(area, Fault, "it refuses writes: "+text, "the disk is full or has failed", "docs/operations.md: a full disk; after an I/O error it needs a restart")
	} else if a.info["aof_last_write_status"] == "err" {
		e.add(area, Fault, "its last write to disk failed", "it refuses writes", "see to its disk and its log")
	} else if get("engine_disk_low") == 1 {
		e.add(area, Warning, "its disk is almost full", "writes are refused with MISCONF when it is", "make room")
	}
	if a.info["master_link_status"] == "down" {
		e.add(area, Warning, "its link to its master is down: "+a.info["master_link_error"], "its data is older than the master's", "see to the master, masterauth and the network")
	}
	if n := get("rejected_connections"); n > 0 {
		e.add(area, Warning, fmt.Sprintf("%d connections were refused", n), "maxclients was reached, or clients came without a password in protected mode", "raise maxclients, or see which clients leave connections open: CLIENT LIST")
	}
	if n := get("evicted_clients") + get("client_query_buffer_limit_disconnections") + get("client_output_buffer_limit_disconnections"); n > 0 {
		e.add(area, Warning, fmt.Sprintf("%d clients were closed for the memory that they took", n), "they send too much at once, or do not read their replies", "see CLIENT LIST (tot-mem), maxmemory-clients and client-output-buffer-limit")
	}
	if n := get("engine_commits_waited"); n > 0 && n > get("commits")/100 {
		e.add(area, Advice, fmt.Sprintf("%d of %d commits had to wait for the disk", n, get("commits")), "it writes more than its disk takes", "a faster disk, or more maxmemory, which lets it write in larger pieces")
	}
}
