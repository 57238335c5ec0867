package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"redoubt/budget"
	"redoubt/config"
	"redoubt/engine"
	"redoubt/replica/member"
	"redoubt/replica/state"
	"redoubt/server"
)

// A node of a replicated cluster: raft-peers.

// leastSecret is how many bytes the secret of a cluster has at the least.
const leastSecret = 16

// replicatedOpener opens the local engine on a log that is agreed upon with the other nodes.
// restart has the process end and start again.
func replicatedOpener(cfg *config.Config, held *budget.Budget, log *slog.Logger, restart func()) server.OpenFunc {
	open := openLocal(cfg, held, log)
	return func(ctx context.Context, progress func(done, total int64)) (engine.Engine, error) {
		if cfg.Get("replicaof") != "" {
			return nil, errors.New("raft-peers and replicaof exclude each other: remove one of them")
		}
		m, err := newMember(cfg, log, restart)
		if err != nil {
			return nil, err
		}
		fail := func(err error) (engine.Engine, error) { return nil, errors.Join(err, m.Close()) }
		if err := m.Found(ctx); err != nil {
			return fail(err)
		}
		store, err := m.Open(ctx, progress, func() (member.Rows, error) {
			rows, err := open(ctx, progress, m.OpenLog)
			if err != nil {
				return nil, err // and not an interface that holds a nil engine
			}
			return rows, nil
		})
		if err != nil {
			return fail(err)
		}
		return store, nil
	}
}

func newMember(cfg *config.Config, log *slog.Logger, restart func()) (*member.Member, error) {
	peers := addresses(cfg.Str("raft-peers"))
	secret, err := clusterSecret(cfg, peers)
	if err != nil {
		return nil, err
	}
	port := int(cfg.Int("cluster-port"))
	if own := int(cfg.Int("port")); port == 0 && own != 0 && own+10000 < 1<<16 {
		port = own + 10000
	}
	if port == 0 {
		return nil, errors.New("raft-peers needs the port of this node: set cluster-port, or a port below 55536, to which 10000 is added")
	}
	host := ""
	if allLoopback(peers) {
		host = "127.0.0.1"
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for the other nodes: %w", err)
	}
	m, err := member.New(member.Options{
		Dir: filepath.Join(cfg.Str("dir"), "raft"), Peers: peers, Listener: ln, Secret: secret, Boot: state.Boot(), Logger: log,
		StoreDir: storeDir(cfg), Restart: restart,
		Contact: func() member.Contact {
			announced := func(directive string, own int64) int {
				if n := cfg.Int(directive); n != 0 {
					return int(n)
				}
				return int(own)
			}
			return member.Contact{
				Host: cfg.Str("cluster-announce-ip"), Port: announced("cluster-announce-port", cfg.Int("port")),
				TLSPort: announced("cluster-announce-tls-port", cfg.Int("tls-port")),
			}
		},
		Empty: func() (bool, error) {
			_, err := os.Stat(storeDir(cfg))
			if errors.Is(err, os.ErrNotExist) {
				return true, nil
			}
			return false, err
		},
	})
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return m, nil
}

// clusterSecret returns the secret of the nodes. Without a file all nodes are on this machine.
func clusterSecret(cfg *config.Config, peers []string) (secret [32]byte, err error) {
	path := cfg.Str("cluster-secret-file")
	if path == "" {
		if !allLoopback(peers) {
			return secret, errors.New("raft-peers names nodes on other machines: give all nodes the same cluster-secret-file, so that nobody else can take part")
		}
		return sha256.Sum256([]byte("nodes on one machine")), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return secret, fmt.Errorf("cluster-secret-file: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) < leastSecret {
		return secret, fmt.Errorf("cluster-secret-file: %s has %d bytes: a secret has %d or more, such as the output of openssl rand -hex 32", path, len(text), leastSecret)
	}
	return sha256.Sum256(text), nil
}

func allLoopback(peers []string) bool {
	for _, p := range peers {
		host, _, err := net.SplitHostPort(p)
		ip := net.ParseIP(host)
		if err != nil || !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
