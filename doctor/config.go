package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// configuration looks at directives that do not go together.
func (e *examination) configuration() {
	const area = "config"
	cfg := e.cfg
	source := "defaults and the command line"
	if cfg.File() != "" {
		source = cfg.File()
	}
	e.ok(area, "the configuration can be read (%s)", source)
	var idle []string
	for _, d := range cfg.Directives() {
		if d.NoEffect() && cfg.Changed(d.Name) {
			idle = append(idle, d.Name)
		}
	}
	if len(idle) > 0 {
		e.add(area, Advice, "these directives are set and have no effect here: "+strings.Join(idle, ", "),
			"they are read so that files and tools of Redis work; who relies on them is mistaken", "take them out, or leave them for a way back to Redis")
	}
	switch cfg.Enum("engine") {
	case "memory":
		e.add(area, Warning, "engine is memory", "everything is lost when the process ends", "set engine local unless the data is of no worth")
	case "tikv":
		if cfg.Str("tikv-pd") == "" {
			e.add(area, Fault, "engine is tikv and tikv-pd is not set", "the server does not know its cluster", "set tikv-pd to the addresses of the placement drivers")
		}
	case "cql":
		if cfg.Str("cql-hosts") == "" {
			e.add(area, Fault, "engine is cql and cql-hosts is not set", "the server does not know its cluster", "set cql-hosts to the addresses of some nodes")
		}
	case "local":
		if cfg.Enum("appendfsync") == "no" {
			e.add(area, Advice, "appendfsync is no", "a power cut loses what the system had not written by itself, half a minute of writes say", "set appendfsync everysec, or always")
		}
		e.nodes()
	}
}

// leastSecret is how many bytes a cluster's secret has at the least.
const leastSecret = 16

// nodes looks at raft-peers.
func (e *examination) nodes() {
	const area = "config"
	list := e.cfg.Str("raft-peers")
	if list == "" {
		return
	}
	peers := strings.Split(list, ",")
	if n := len(peers); n != 3 && n != 5 && n != 7 {
		e.add(area, Fault, fmt.Sprintf("raft-peers has %d nodes", n), "a majority needs 3, 5 or 7", "name 3, 5 or 7 nodes, the same on each")
	}
	path := e.cfg.Str("cluster-secret-file")
	if path == "" {
		for _, p := range peers {
			host, _, _ := net.SplitHostPort(strings.TrimSpace(p))
			if ip := net.ParseIP(host); !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
				e.add(area, Fault, "raft-peers names nodes on other machines and cluster-secret-file is not set", "everybody who reaches the port could take part",
					"make a file with `openssl rand -hex 32`, give it to all nodes, and set cluster-secret-file")
				return
			}
		}
		return
	}
	text, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	switch err := errors.Join(err, statErr); {
	case err != nil:
		e.add(area, Fault, "cluster-secret-file cannot be read: "+err.Error(), "the node does not start without it", "give the file to the user that the server runs as")
	case len(strings.TrimSpace(string(text))) < leastSecret:
		e.add(area, Fault, fmt.Sprintf("the secret in %s is shorter than %d bytes", path, leastSecret), "the node does not start with it", "make one with `openssl rand -hex 32`")
	case info.Mode().Perm()&0o077 != 0:
		e.add(area, Warning, fmt.Sprintf("%s can be read by others (%s)", path, info.Mode().Perm()), "who has the secret can take part in the cluster", "chmod 600 "+path)
	}
}

// certificate looks at the certificate of TLS.
func (e *examination) certificate() {
	const area = "tls"
	if e.cfg.Int("tls-port") == 0 && !e.cfg.Bool("http-tls") {
		return
	}
	path, key := e.cfg.Str("tls-cert-file"), e.cfg.Str("tls-key-file")
	if path == "" || key == "" {
		e.add(area, Fault, "TLS is on (tls-port or http-tls) and tls-cert-file or tls-key-file is not set", "the server does not start without a certificate", "set both; docs/tls.md shows how to make them")
		return
	}
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = os.Stat(key)
	}
	if err != nil {
		e.add(area, Fault, "the certificate or its key cannot be read: "+err.Error(), "the server does not start without them", "correct tls-cert-file and tls-key-file")
		return
	}
	block, _ := pem.Decode(text)
	if block == nil {
		e.add(area, Fault, path+" has no certificate", "the server does not start with it", "correct tls-cert-file: it is a PEM file")
		return
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		e.add(area, Fault, path+": "+err.Error(), "the server does not start with it", "correct tls-cert-file")
		return
	}
	const soon = 30 * 24 * time.Hour
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02") }
	switch now := e.Now(); {
	case now.After(cert.NotAfter):
		e.add(area, Fault, "the certificate has expired on "+day(cert.NotAfter), "clients refuse it", "renew it; CONFIG SET tls-cert-file has it read again")
	case now.Before(cert.NotBefore):
		e.add(area, Fault, "the certificate is valid from "+day(cert.NotBefore)+" on", "clients refuse it until then", "see to the clock, or to the certificate")
	case cert.NotAfter.Sub(now) < soon:
		e.add(area, Warning, "the certificate expires on "+day(cert.NotAfter), "clients refuse it from then on", "renew it; CONFIG SET tls-cert-file has it read again")
	default:
		e.ok(area, "the certificate is valid until %s", day(cert.NotAfter))
	}
}
