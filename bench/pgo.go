//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// makeProfile records what a loaded server spends its time on, for the compiler:
// cmd/redoubt/default.pgo is used by every go build of that command. See
// docs/adr/0007.
func makeProfile(out string) error {
	dir, err := os.MkdirTemp("", "redoubt-pgo-")
	if err != nil {
		return err
	}
	atEnd(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "redoubt")
	if text, err := exec.Command("env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-pgo=off", "-o", binary, "./cmd/redoubt").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, text)
	}
	metrics, err := freeAddr()
	if err != nil {
		return err
	}
	p, err := server{
		name: "redoubt", binary: binary, dir: filepath.Join(dir, "data"),
		args: []string{"--loglevel", "warning", "--metrics-addr", metrics.String(), "--metrics-pprof", "yes"},
	}.start()
	if err != nil {
		return err
	}
	if err := p.prefill(); err != nil {
		return err
	}
	profile := make(chan error, 1)
	var raw []byte
	const seconds = 90
	go func() {
		r, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", metrics, seconds))
		if err == nil {
			raw, err = io.ReadAll(r.Body)
			r.Body.Close()
		}
		profile <- err
	}()
	all := cases()
	for _, c := range typeCases { // they share their keys: what one adds another one reads or takes
		all = append(all, benchCase{c.name, 16, c.words(c.cmd, 0)})
	}
	for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
		for _, c := range all {
			if _, err := p.redisBenchmark(c); err != nil {
				return err
			}
		}
	}
	if err := <-profile; err != nil {
		return fmt.Errorf("fetch the profile: %w", err)
	}
	clean, err := withoutPath(raw, binary)
	if err != nil {
		return err
	}
	return os.WriteFile(out, clean, 0o644)
}

// withoutPath replaces the binary's path, which says something of this machine
// only, by as many other letters.
func withoutPath(profile []byte, path string) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(profile))
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte(path), []byte(strings.Repeat("x", len(path))))
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
