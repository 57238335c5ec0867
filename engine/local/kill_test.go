package local

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/journal"
)

// killLoad is what the writer commits: the same in every process.
func killLoad() load { return load{rng: rand.New(rand.NewPCG(1, 9)), big: 6} }

func killOptions(dir string) func(*Options) {
	return func(o *Options) {
		o.Dir, o.FS = dir, nil
		o.Memory, o.SegmentBytes, o.JournalBytes = tight, 64<<10, 128<<10
	}
}

// writeUntilKilled commits, and prints what it was promised.
func writeUntilKilled(t *testing.T, dir string) {
	e := opened(t, killOptions(dir))
	if err := e.SetFsync(journal.EverySec); err != nil {
		t.Fatal(err)
	}
	l := killLoad()
	for range e.Committed() {
		l.commit()
	}
	for v := newLedger(); ; {
		if err := v.commit(e, true, l.commit()); err != nil {
			t.Fatal(err)
		}
		fmt.Println("durable", e.Durable())
	}
}

// kill -9 for real: the test runs itself as a writer, kills it, looks for what
// it was promised, and has it go on. REDOUBT_KILLS says how often.
func TestKill9(t *testing.T) {
	if dir := os.Getenv("REDOUBT_KILL_DIR"); dir != "" {
		writeUntilKilled(t, dir)
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	total := engine.Ticket(0)
	for range scale(t, "REDOUBT_KILLS", 3) {
		promised := killWriter(t, dir, total+300)
		e := opened(t, killOptions(dir))
		if total = e.Committed(); total < promised {
			t.Fatalf("%d commits are left of %d", total, promised)
		}
		w, l := newWorld(), killLoad()
		for range total {
			w.apply(l.commit())
		}
		if err := errors.Join(w.check(e), e.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// killWriter starts a writer, kills it after some commits and returns what it
// was promised.
func killWriter(t *testing.T, dir string, after engine.Ticket) (promised engine.Ticket) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill9$")
	cmd.Env = append(os.Environ(), "REDOUBT_KILL_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	killed := false
	// What the writer said before it died counts, though read after.
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "durable %d", &promised); err == nil && promised > after && !killed {
			killed = true
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if !killed {
		t.Fatal("the writer ended by itself")
	}
	return promised
}
