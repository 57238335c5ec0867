package tikv_test

import (
	"path/filepath"
	"testing"
	"time"

	"redoubt/internal/testserver"
	"redoubt/internal/testserver/ontikv"
	"redoubt/test/script"
)

// TestScripts runs the command scripts.
func TestScripts(t *testing.T) {
	t.Parallel()
	ontikv.Options(t) // or skip
	paths, err := script.Find(filepath.Join("..", "script", "testdata"), "")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d scripts, %v", len(paths), err)
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := script.ParseFile(name, path)
			if err != nil {
				t.Fatal(err)
			}
			clock := testserver.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			o := ontikv.Options(t)
			o.Clock = clock
			o.Args = []string{"--enable-debug-command", "yes"}
			proto := 2 + len(name)%2
			target := &script.Target{
				Addr: testserver.Start(t, o).Addr, Proto: proto, Now: clock.Now, Advance: clock.Advance, Timeout: time.Minute,
				Cases: []string{"redoubt", "tikv", []string{"resp2", "resp3"}[proto-2], "plain"},
			}
			if err := f.Run(target); err != nil {
				t.Error(err)
			}
		})
	}
}
