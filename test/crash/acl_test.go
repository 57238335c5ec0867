package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// Users survive kill -9 as in Redis: as the last ACL SAVE has left them. A save that
// is cut off leaves the users of before or after it, never a file that cannot be read.
func TestSavedUsersSurviveKill(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 5))
	dir := t.TempDir()
	file := filepath.Join(dir, "users.acl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	saved := 0 // acknowledged
	for range 5 {
		p := testserver.StartProcess(t, program, dir, "--aclfile", "users.acl")
		c, err := respclient.Dial(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		do := asker(t, c)
		if saved > 0 {
			v, err := do("ACL", "GETUSER", "alice")
			if err != nil {
				t.Fatal(err)
			}
			got := v.Elems[7].Str
			switch {
			case strings.Contains(got, fmt.Sprintf("~key%d ", saved+1)): // it was saved, only its reply was not
				saved++
			case !strings.Contains(got, fmt.Sprintf("~key%d ", saved)):
				t.Fatalf("the last save was %d, the keys are %.20s", saved, got)
			}
		}
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(1+rng.IntN(300))*time.Millisecond, func() { p.Kill(); close(killed) })
		for {
			n := saved + 1
			if _, err = do("ACL", "SETUSER", "alice", "reset", "on", ">pw", fmt.Sprintf("~key%d", n), "~"+strings.Repeat("x", 1000), "+@read"); err != nil {
				break
			}
			if _, err = do("ACL", "SAVE"); err != nil {
				break
			}
			saved = n
			// This one is not saved, and so is gone.
			if _, err = do("ACL", "SETUSER", "alice", "resetkeys"); err != nil {
				break
			}
		}
		<-killed
		c.Close()
	}
	t.Logf("%d saves", saved)
}
