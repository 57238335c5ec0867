package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// Functions survive kill -9: those that were acknowledged are there, and those that
// were deleted are not.
func TestFunctionsSurviveKill(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 6))
	dir := t.TempDir()
	version := 0 // acknowledged
	for range 4 {
		p := testserver.StartProcess(t, program, dir)
		c, err := respclient.Dial(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		do := asker(t, c)
		if version > 0 {
			v, err := do("FCALL", "version", "0")
			if err != nil {
				t.Fatal(err)
			}
			if got := int(v.Int()); got != version && got != version+1 {
				t.Fatalf("version %d was acknowledged, %d is there", version, got)
			} else {
				version = got
			}
			if v, err = do("FUNCTION", "LIST"); err != nil || len(v.Elems) > 2 || strings.Contains(v.String(), "old") {
				t.Fatal(v, err)
			}
		}
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(50+rng.IntN(300))*time.Millisecond, func() { p.Kill(); close(killed) })
		if _, err = do("FLUSHALL"); err == nil {
			_, err = do("FUNCTION", "LOAD", "REPLACE", "#!lua name=old\nredis.register_function('old', function() end)")
		}
		if err == nil {
			_, err = do("FUNCTION", "DELETE", "old")
		}
		for err == nil {
			source := fmt.Sprintf("#!lua name=lib\nlocal filler = '%s'\nredis.register_function('version', function() return %d end)",
				strings.Repeat("x", rng.IntN(5000)), version+1)
			if _, err = do("FUNCTION", "LOAD", "REPLACE", source); err == nil {
				version++
			}
		}
		<-killed
		c.Close()
	}
	t.Logf("%d versions", version)
}
