package pebble

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// kill -9 for real: the test runs itself as a writer that prints what it was
// promised, kills it, and looks for it on the disk.
func TestKill9(t *testing.T) {
	if dir := os.Getenv("REDOUBT_KILL_DIR"); dir != "" {
		e, err := Open(Options{Dir: dir, Memory: minMemory, Fsync: EverySec, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		for l, w := (&ledger{}), 0; ; w = (w + 1) % writers {
			if err := l.commit(e, w, 2000); err != nil {
				t.Fatal(err)
			}
			acked := l.acknowledged(e)
			fmt.Println("acked", acked[0], acked[1], acked[2])
		}
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill9$")
	cmd.Env = append(os.Environ(), "REDOUBT_KILL_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var acked [writers]int
	killed := false
	// What the writer said before it died counts, though read after.
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "acked %d %d %d", &acked[0], &acked[1], &acked[2]); err == nil && acked[0] > 200 && !killed {
			killed = true
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if !killed {
		t.Fatal("the writer ended by itself")
	}
	e := mustOpen(t, Options{Dir: dir, Memory: minMemory})
	defer e.Close()
	(&ledger{}).check(t, e, acked)
}
