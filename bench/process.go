//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/rss"
)

// server is how a server under test is started.
type server struct {
	name, binary string
	dir          string // of its data, made if it is not there
	args         []string
	env          []string
	stderr       io.Writer // os.Stderr if nil
	port         int       // chosen by start if 0
}

// process is a server that runs.
type process struct {
	server
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// startLimit is how long a server with an empty directory may take to answer.
const startLimit = 10 * time.Second

// start runs a server on a free port and waits until it answers.
func (s server) start() (*process, error) {
	p, err := s.spawn()
	if err != nil {
		return nil, err
	}
	if err := p.await(startLimit, p.ping); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// spawn runs a server and does not wait for it.
func (s server) spawn() (*process, error) {
	if s.port == 0 {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		s.port = addr.Port
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command(s.binary, append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir}, s.args...)...)
	cmd.Env = append(os.Environ(), s.env...)
	if cmd.Stderr = os.Stderr; s.stderr != nil {
		cmd.Stderr = s.stderr
	}
	// A group of its own, so that Redis's children are stopped with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	p := &process{s, cmd, make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	atEnd(p.kill)
	return p, nil
}

// freeAddr is an address of this machine that nobody listens on.
func freeAddr() (*net.TCPAddr, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr), nil
}

// await tries again until there is no error.
func (p *process) await(limit time.Duration, try func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		err := try()
		if err == nil {
			return nil
		}
		if p.ended() {
			return fmt.Errorf("%s has ended: %w", p.name, err)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
}

// ask sends one command on a connection of its own.
func (p *process) ask(args ...string) (string, error) {
	c, err := respclient.Dial(fmt.Sprintf("127.0.0.1:%d", p.port))
	if err != nil {
		return "", err
	}
	defer c.Close()
	v, err := c.Do(args...)
	if err == nil && v.IsError() {
		err = errors.New(v.Str)
	}
	if err != nil {
		return "", fmt.Errorf("%s on %s: %w", args[0], p.name, err)
	}
	return v.Str, nil
}

func (p *process) ping() error {
	if s, err := p.ask("PING"); err != nil || s != "PONG" {
		return fmt.Errorf("PING answered %q: %w", s, err)
	}
	return nil
}

// number asks for something that is a number.
func (p *process) number(args ...string) (int, error) {
	s, err := p.ask(args...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(s)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends to the server and its children.
func (p *process) signal(s syscall.Signal) error {
	if p.ended() { // its number may be another process's by now
		return fmt.Errorf("%s has ended", p.name)
	}
	return syscall.Kill(-p.cmd.Process.Pid, s)
}

// kill ends the server as a crash would.
func (p *process) kill() {
	if p.signal(syscall.SIGKILL) == nil {
		<-p.done
	}
}

// pause stops the server until resume; it keeps its memory and connections.
func (p *process) pause() error { return p.signal(syscall.SIGSTOP) }

// resume lets the server go on and waits until it does.
func (p *process) resume() error {
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	return p.await(startLimit, p.ping)
}

// cpu is the processor time that the process has used, all threads.
func (p *process) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The fields behind the name in parentheses: utime and stime are the 12th
	// and 13th of them, in ticks of a hundredth of a second.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	u, err1 := strconv.Atoi(f[11])
	s, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("cannot read the CPU time of %s", p.name)
	}
	return time.Duration(u+s) * 10 * time.Millisecond, nil
}

// memory is the resident memory in bytes, now and at its highest.
func (p *process) memory() (now, peak int, err error) {
	n, most, err := rss.Of(p.cmd.Process.Pid)
	return int(n), int(most), err
}

// openFiles is how many descriptors the process has, sockets included.
func (p *process) openFiles() (int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	return len(list), err
}

// disk is what the data directory takes: the blocks that its files occupy, as
// du counts them, and how many files there are. Files that go meanwhile are
// passed over.
func (p *process) disk() (size, files int, err error) {
	err = filepath.WalkDir(p.dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		files++
		size += int(info.Sys().(*syscall.Stat_t).Blocks) * 512
		return nil
	})
	return size, files, err
}

// info is a section of INFO by the names of its figures.
func (p *process) info(section string) (map[string]string, error) {
	text, err := p.ask("INFO", section)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all, nil
}

// settle waits until the server has come to rest: for a while its files keep
// their size, it uses less than a twentieth of a processor, and has nothing to
// write back, if it is one that says so. It says how long that took, the while
// included, and whether it came to rest at all.
func (p *process) settle() (took time.Duration, rest bool, err error) { return p.settleFor(calm()) }

// settleFor is settle with a while of its own.
func (p *process) settleFor(calm time.Duration) (took time.Duration, rest bool, err error) {
	const interval = time.Second
	limit := 10 * time.Minute
	if *quick {
		limit = 15 * time.Second
	}
	begin, lastSize, lastCPU := time.Now(), -1, time.Duration(0)
	for quiet := time.Duration(0); quiet < calm; {
		if time.Since(begin) > limit {
			return time.Since(begin), false, nil
		}
		size, _, err := p.disk()
		if err != nil {
			return 0, false, err
		}
		cpu, err := p.cpu()
		if err != nil {
			return 0, false, err
		}
		figures, err := p.info("redoubt") // Redis answers with nothing
		if err != nil {
			return 0, false, err
		}
		dirty := figures["engine_dirty_bytes"]
		if size == lastSize && cpu-lastCPU < interval/20 && (dirty == "" || dirty == "0") {
			quiet += interval
		} else {
			quiet = 0
		}
		lastSize, lastCPU = size, cpu
		time.Sleep(interval)
	}
	return time.Since(begin), true, nil
}

// calm is how long a server must be at rest to count as settled.
func calm() time.Duration {
	if *quick {
		return 3 * time.Second
	}
	return 10 * time.Second
}
