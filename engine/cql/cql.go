// Package cql is the engine that keeps its rows in a table of Apache Cassandra, or of another
// store that speaks CQL and has light-weight transactions. How rows become partitions, and
// commits become conditional changes of them, is engine/partition; this package has the
// statements.
//
// Files: cql.go opens, schema.go makes the table and says what is in it, statement.go has the
// reads and changes, errors.go tells refusals, failures and lost answers apart.
package cql

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"redoubt/engine"
	"redoubt/engine/partition"
)

// Options say how to open a store. Hosts and Keyspace are required.
type Options struct {
	// Context ends the attempt to open the store.
	Context context.Context
	// Hosts are addresses of nodes, host:port or host.
	Hosts []string
	// Keyspace is where the table is; it is made with Replication if it does not exist: a
	// number of replicas, or dc:number for each data centre, with commas.
	Keyspace    string
	Replication string
	// Prefix tells the stores apart that share a table.
	Prefix string
	// Width is how many slots a partition of a new store has.
	Width int
	// Existing: a store that does not exist is not made, but refused.
	Existing bool
	// Apart begins further partitions: see partition.NewLayout.
	Slots int
	Apart []uint16

	User, Password string
	// CA, Cert and Key are files; TLS is used if there is a CA.
	CA, Cert, Key string
	// Datacenter is the one whose nodes are asked; empty: any.
	Datacenter string
	// Serial is serial or local_serial, Commit is quorum, local_quorum or each_quorum, and
	// Single, the level of reads of one row, is serial, quorum, local_quorum or one.
	Serial, Commit, Single string

	Timeout     time.Duration
	OpenTimeout time.Duration
	MaxViews    int
	Logger      *slog.Logger
}

var (
	levels = map[string]gocql.Consistency{
		"serial": gocql.Serial, "local_serial": gocql.LocalSerial, "quorum": gocql.Quorum,
		"local_quorum": gocql.LocalQuorum, "each_quorum": gocql.EachQuorum, "one": gocql.LocalOne,
	}
	identifier = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)
)

func (o *Options) fill() error {
	if o.Context == nil {
		o.Context = context.Background()
	}
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.OpenTimeout = cmp.Or(o.OpenTimeout, 30*time.Second)
	o.Width, o.Slots = cmp.Or(o.Width, 64), cmp.Or(o.Slots, 0x4000)
	o.Prefix, o.Replication = cmp.Or(o.Prefix, "redoubt"), cmp.Or(o.Replication, "1")
	o.Serial, o.Commit = cmp.Or(o.Serial, "serial"), cmp.Or(o.Commit, "quorum")
	o.Single = cmp.Or(o.Single, "serial")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case len(o.Hosts) == 0:
		return errors.New("no address of a node is given (cql-hosts)")
	case !identifier.MatchString(o.Keyspace):
		return fmt.Errorf("the keyspace %q is not a name of small letters, digits and _ (cql-keyspace)", o.Keyspace)
	case len(o.Prefix) > 64:
		return errors.New("the prefix has more than 64 bytes (cql-prefix)")
	case (o.Cert == "") != (o.Key == ""):
		return errors.New("a certificate for CQL needs its key, and a key its certificate (cql-cert, cql-key)")
	case o.CA == "" && o.Cert != "":
		return errors.New("a certificate for CQL is given, but no authority's certificate (cql-ca)")
	}
	for what, level := range map[string]string{"cql-serial": o.Serial, "cql-commit": o.Commit, "cql-read": o.Single} {
		if _, ok := levels[level]; !ok {
			return fmt.Errorf("%s: there is no consistency level %q", what, level)
		}
	}
	return nil
}

// Open opens the store, and makes it if it does not exist.
func Open(o Options) (*partition.Engine, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(o.Context, o.OpenTimeout)
	defer cancel()
	for {
		e, err := open(ctx, o)
		switch {
		case err == nil:
			return e, nil
		case errors.Is(err, errRefused), ctx.Err() == nil && errors.Is(err, engine.ErrCorrupt):
			return nil, fmt.Errorf("CQL at %s: %w", strings.Join(o.Hosts, ","), err)
		}
		o.Logger.Info("the store cannot be opened yet", "err", brief(err))
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("CQL at %s: %w: %s. Tried for %s; is the cluster up, and are these its nodes (cql-hosts)?",
				strings.Join(o.Hosts, ","), engine.ErrUnavailable, brief(err), time.Since(begun).Round(100*time.Millisecond))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// errRefused: the store is there, and must not be opened so.
var errRefused = errors.New("the store cannot be opened")

func open(ctx context.Context, o Options) (*partition.Engine, error) {
	session, err := connect(o)
	if err != nil {
		return nil, err
	}
	s := newStore(session, o)
	layout, err := s.prepare(ctx)
	if err != nil {
		session.Close()
		return nil, err
	}
	return partition.Open(partition.Options{Store: s, Layout: layout, Timeout: o.Timeout, MaxViews: o.MaxViews, Logger: o.Logger})
}

func connect(o Options) (*gocql.Session, error) {
	c := gocql.NewCluster(o.Hosts...)
	c.Consistency, c.SerialConsistency = levels[o.Commit], levels[o.Serial]
	c.Timeout, c.ConnectTimeout = max(o.Timeout, time.Second), min(o.OpenTimeout, 5*time.Second)
	c.DefaultTimestamp = false // ballots are the timestamps
	c.RetryPolicy = nil        // what a lost answer means is decided by the engine
	c.ReconnectInterval = time.Second
	c.WriteCoalesceWaitTime = 0
	c.NumConns = 4
	c.Metadata.CacheMode = gocql.KeyspaceOnly
	c.Logger = logger{o.Logger}
	var fallback gocql.HostSelectionPolicy = gocql.RoundRobinHostPolicy()
	if o.Datacenter != "" {
		fallback = gocql.DCAwareRoundRobinPolicy(o.Datacenter)
	}
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(fallback)
	if o.User != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: o.User, Password: o.Password}
	}
	if o.CA != "" {
		config, err := secure(o)
		if err != nil {
			return nil, err
		}
		c.SslOpts = &gocql.SslOptions{Config: config, EnableHostVerification: true}
	}
	return c.CreateSession()
}

func secure(o Options) (*tls.Config, error) {
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fmt.Errorf("%w: TLS: %w", errRefused, err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w: %s has no certificate (cql-ca)", errRefused, o.CA)
	}
	if o.Cert != "" {
		cert, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: TLS: %w", errRefused, err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// logger gives the driver's messages to a slog.Logger: they tell of single connections, so
// none is above the level Debug.
type logger struct{ to *slog.Logger }

func (l logger) Error(msg string, f ...gocql.LogField)   { l.log(msg, f) }
func (l logger) Warning(msg string, f ...gocql.LogField) { l.log(msg, f) }
func (l logger) Info(msg string, f ...gocql.LogField)    { l.log(msg, f) }
func (l logger) Debug(string, ...gocql.LogField)         {}

func (l logger) log(msg string, fields []gocql.LogField) {
	if !l.to.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	args := make([]any, 0, 2*len(fields))
	for _, f := range fields {
		args = append(args, f.Name, f.Value.String())
	}
	l.to.Debug("driver: "+msg, args...)
}
