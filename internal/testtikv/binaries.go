package testtikv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Binaries are the programs of a cluster. To build them takes minutes, so they
// are kept in the user's cache directory, under a name made of their sources.
type Binaries struct{ PD, Store string }

// Find finds binaries that were built before.
func Find() (Binaries, error) {
	_, dir, err := places()
	if err != nil {
		return Binaries{}, err
	}
	b := in(dir)
	for _, path := range []string{b.PD, b.Store} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return Binaries{}, fmt.Errorf("the programs of the TiKV test cluster are not built: run `make tikv-build` (%w)", err)
		} else if err != nil {
			return Binaries{}, err
		}
	}
	return b, nil
}

// Build builds the binaries unless they exist.
func Build(progress io.Writer) (Binaries, error) {
	if b, err := Find(); err == nil {
		return b, nil
	}
	sources, dir, err := places()
	if err != nil {
		return Binaries{}, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Binaries{}, err
	}
	// A rename puts them into place, so binaries in place are complete.
	half, err := os.MkdirTemp(filepath.Dir(dir), "half-")
	if err != nil {
		return Binaries{}, err
	}
	defer os.RemoveAll(half)
	b := in(half)
	fmt.Fprintln(progress, "building the two programs of the TiKV test cluster, some 740 packages each; the first time takes minutes")
	for _, p := range []struct {
		module, out, pkg string
		flags            []string
	}{
		{"pd", b.PD, "github.com/tikv/pd/cmd/pd-server", []string{"-tags", "without_dashboard"}},
		{"store", b.Store, ".", nil},
	} {
		args := append([]string{"build", "-v", "-ldflags", "-s -w", "-o", p.out}, p.flags...)
		cmd := exec.Command("go", append(args, p.pkg)...)
		cmd.Dir = filepath.Join(sources, p.module)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out := newBuildLog(progress, p.module)
		cmd.Stdout, cmd.Stderr = out, out
		err := cmd.Run()
		out.end()
		if err != nil {
			return Binaries{}, fmt.Errorf("build %s: %w", p.pkg, err)
		}
	}
	if err := os.Rename(half, dir); err != nil {
		// Somebody else may have been faster.
		if b, found := Find(); found == nil {
			return b, nil
		}
		return Binaries{}, err
	}
	prune(filepath.Dir(dir))
	return Find()
}

// prune removes programs older than 30 days: each change of their sources makes new ones.
// Failures do no harm.
func prune(cache string) {
	list, _ := os.ReadDir(cache)
	for _, e := range list {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 30*24*time.Hour {
			_ = os.RemoveAll(filepath.Join(cache, e.Name()))
		}
	}
}

func in(dir string) Binaries {
	return Binaries{PD: filepath.Join(dir, "pd-server"), Store: filepath.Join(dir, "store")}
}

// places returns the directory of the two modules and that of their programs.
func places() (sources, dir string, err error) {
	at, err := os.Getwd() // a test runs in the directory of its package
	if err != nil {
		return "", "", err
	}
	for {
		sources = filepath.Join(at, "test", "tikv")
		if _, err := os.Stat(filepath.Join(sources, "store", "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(at)
		if up == at {
			return "", "", errors.New("the directory test/tikv is not above the current one")
		}
		at = up
	}
	key, err := hash(sources)
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	return sources, filepath.Join(cache, "redoubt-test", key), nil
}

// hash returns a digest of the sources of the two modules.
func hash(sources string) (string, error) {
	var files []string
	for _, pattern := range []string{"pd/go.*", "store/go.*", "store/*.go"} {
		found, err := filepath.Glob(filepath.Join(sources, filepath.FromSlash(pattern)))
		if err != nil {
			return "", err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	h := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(name), len(text))
		h.Write(text)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}
