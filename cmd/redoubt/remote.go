package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"redoubt/copier"
	"redoubt/engine"
	"redoubt/engine/cql"
	"redoubt/engine/tikv"
	"redoubt/keyspace"
)

// Stores on clusters, as tools name them: tikv://host:port,.../prefix and
// cql://user:password@host:port,.../keyspace/prefix?directive=value.

const anyStore = "a server's directory, tikv://host:port,.../prefix or cql://host:port,.../keyspace/prefix"

// remote is how a shared store is reached.
type remote struct {
	pd            []string
	prefix        string
	ca, cert, key string // files
	reader        bool   // no rows are written, but they may be removed
}

const (
	remoteScheme  = "tikv://"
	cqlScheme     = "cql://"
	defaultPrefix = "redoubt:"
)

// memberTime is how long member rows are watched: front ends write theirs every second.
const memberTime = 2500 * time.Millisecond

// isRemote reports whether a store is on a cluster.
func isRemote(name string) bool {
	return strings.HasPrefix(name, remoteScheme) || strings.HasPrefix(name, cqlScheme)
}

// withoutLogin is the name of a store as it may be shown and kept.
func withoutLogin(name string) string {
	scheme, rest, _ := strings.Cut(name, "://")
	if hosts, _, _ := strings.Cut(rest, "/"); strings.Contains(hosts, "@") {
		rest = rest[strings.LastIndex(hosts, "@")+1:]
	}
	return scheme + "://" + rest
}

// openRemote opens a shared store that no front end uses.
func openRemote(ctx context.Context, name string, tls remote) (engine.Engine, error) {
	eng, err := openCluster(ctx, name, tls)
	if err != nil {
		return nil, err
	}
	if err := copier.InUse(ctx, eng, memberTime); err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return eng, nil
}

func openCluster(ctx context.Context, name string, tls remote) (engine.Engine, error) {
	if strings.HasPrefix(name, cqlScheme) {
		o, err := parseCQL(name)
		if err != nil {
			return nil, err
		}
		o.Context, o.Existing = ctx, tls.reader
		return openCQL(o)
	}
	at, err := parseRemote(name)
	if err != nil {
		return nil, err
	}
	at.ca, at.cert, at.key, at.reader = tls.ca, tls.cert, tls.key, tls.reader
	return openTiKV(ctx, at)
}

// parseRemote reads tikv://host:port,host:port/prefix. The prefix may have the escapes of
// URLs; if it is empty, it is the server's default prefix.
func parseRemote(name string) (at remote, err error) {
	hosts, prefix, _ := strings.Cut(strings.TrimPrefix(name, remoteScheme), "/")
	if at.prefix, err = url.PathUnescape(prefix); err != nil {
		return at, fmt.Errorf("%s: %w", name, err)
	}
	if at.prefix == "" {
		at.prefix = defaultPrefix
	}
	for _, host := range strings.Split(hosts, ",") {
		if !strings.Contains(host, ":") {
			return at, fmt.Errorf("%s: %q is not host:port", name, host)
		}
		at.pd = append(at.pd, host)
	}
	return at, nil
}

// openTiKV opens a store in a cluster. Tests replace it.
var openTiKV = func(ctx context.Context, at remote) (engine.Engine, error) {
	eng, err := tikv.Open(tikv.Options{
		Context: ctx, PD: at.pd, Prefix: at.prefix, Unused: keyspace.Unused(), Reader: at.reader, CA: at.ca, Cert: at.cert, Key: at.key,
		Timeout: copyTimeout, MaxTransactions: copyTransactions,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, err // and not an interface that holds a nil *tikv.Engine
	}
	return eng, nil
}

// parseCQL reads cql://user:password@host:port,host:port/keyspace/prefix. Parts may have the
// escapes of URLs. Behind a question mark come directives without their "cql-", as in
// ?replication=dc1:3&ca=ca.pem. What is left out is as the server's defaults are.
func parseCQL(name string) (o cql.Options, err error) {
	rest, query, _ := strings.Cut(strings.TrimPrefix(name, cqlScheme), "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		user, password, _ := strings.Cut(hosts[:at], ":")
		o.User, o.Password, hosts = user, password, hosts[at+1:]
	}
	o.Keyspace, o.Prefix, _ = strings.Cut(path, "/")
	for _, part := range []*string{&o.User, &o.Password, &o.Keyspace, &o.Prefix} {
		if *part, err = url.PathUnescape(*part); err != nil {
			return o, fmt.Errorf("%s: %w", withoutLogin(name), err)
		}
	}
	o.Keyspace = cmp.Or(o.Keyspace, "redoubt")
	if o.Hosts = strings.FieldsFunc(hosts, func(r rune) bool { return r == ',' }); len(o.Hosts) == 0 {
		return o, fmt.Errorf("%s names no host", withoutLogin(name))
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return o, fmt.Errorf("%s: %w", withoutLogin(name), err)
	}
	directives := map[string]*string{
		"replication": &o.Replication, "ca": &o.CA, "cert": &o.Cert, "key": &o.Key, "datacenter": &o.Datacenter, "serial": &o.Serial, "commit": &o.Commit,
	}
	for directive, value := range values {
		if to := directives[directive]; to != nil {
			*to = value[0]
		} else if directive != "width" {
			return o, fmt.Errorf("%s: there is no directive cql-%s for a tool", withoutLogin(name), directive)
		} else if o.Width, err = strconv.Atoi(value[0]); err != nil {
			return o, fmt.Errorf("%s: cql-width is %q, and must be a number", withoutLogin(name), value[0])
		}
	}
	return o, nil
}

// openCQL opens a store in a cluster. Tests replace it.
var openCQL = func(o cql.Options) (engine.Engine, error) {
	o.Slots, o.Apart, o.Timeout, o.MaxViews = keyspace.Slots, keyspace.Apart(), copyTimeout, copyTransactions
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	eng, err := cql.Open(o)
	if err != nil {
		return nil, err // and not an interface that holds a nil engine
	}
	return eng, nil
}

const (
	copyTimeout      = 30 * time.Second // after which a batch is retried
	copyTransactions = 64
)
