package testtikv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a program of a cluster.
type process struct {
	name string
	log  string // the file of its output
	from int64  // where its output begins, since a program may be started several times
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// patience is how long a program may take to be ready. A machine that runs all
// tests at once is slow.
const patience = 90 * time.Second

// launch starts a program and does not wait for it.
func launch(name, log string, attr *syscall.SysProcAttr, path string, args ...string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, log: log, from: info.Size(), done: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	p.cmd.SysProcAttr = attr
	if err := onLastingThread(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // its log shows how it ended
		close(p.done)
	}()
	return p, nil
}

// starts returns the channel of a thread that lives as long as the process and starts
// children: Pdeathsig kills a child when the thread that started it ends.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

func onLastingThread(f func() error) error {
	result := make(chan error)
	starts() <- func() { result <- f() }
	return <-result
}

// await retries until there is no error, the program ends or patience is over.
func (p *process) await(try func() error) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := try()
		switch {
		case err == nil:
			return nil
		case p.ended():
			return fmt.Errorf("%s has ended: %w\n%s", p.name, err, p.tail())
		case time.Now().After(end):
			return fmt.Errorf("%s is not ready: %w\n%s", p.name, err, p.tail())
		}
	}
}

// said returns nil if a line of the program's log begins with these words.
func (p *process) said(words string) error {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	text = text[min(int(p.from), len(text)):]
	if bytes.HasPrefix(text, []byte(words)) || bytes.Contains(text, []byte("\n"+words)) {
		return nil
	}
	return fmt.Errorf("it has not said %q", words)
}

// tail returns the end of the log.
func (p *process) tail() string {
	const most = 8 << 10
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("log of %s:\n%s", p.name, text[max(0, len(text)-most):])
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(s os.Signal) error {
	if p.ended() {
		return fmt.Errorf("%s has ended", p.name)
	}
	return p.cmd.Process.Signal(s)
}

// kill ends the program as a crash would.
func (p *process) kill() error {
	if err := p.signal(os.Kill); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// pause stops the program, and returns when all of its threads have stopped.
func (p *process) pause() error {
	if err := p.signal(sigPause); err != nil {
		return err
	}
	return p.await(func() error { return stands(p.cmd.Process.Pid) })
}
