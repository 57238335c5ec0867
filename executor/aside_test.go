package executor

import (
	"fmt"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

// cheap reports that range deletes are cheap, as on the store that users have.
type cheap struct{ engine.Engine }

func (c cheap) Capabilities() engine.Capabilities {
	caps := c.Engine.Capabilities()
	caps.CheapRangeDelete = true
	return caps
}

// A copy of a large value is several commits, and there at once or not at all.
func TestALargeCopy(t *testing.T) {
	t.Parallel()
	const garbage = 6 // the kind of its rows
	// Three portions, and the commit of the command.
	for _, failing := range []int64{0, 1, 3, 4} {
		j := &journal{Engine: cheap{mem.New()}}
		f := open(t, j)
		for _, field := range strings.Fields("a b c d e f g h i j k l") {
			f.worker(0, "hset k "+field+" "+strings.Repeat("v", 1<<20))
		}
		commits := f.x.Stats.Commits.Load()
		before := f.rows()
		j.failIn.Store(failing)
		got := f.worker(0, "copy k copy")
		rows := f.rows()
		if failing > 0 {
			if !strings.Contains(got, "injected") {
				t.Errorf("commit %d fails: %s", failing, got)
			}
			f.want("exists", f.worker(0, "exists copy"), "0")
			equal(t, "rows", fmt.Sprint(rows), fmt.Sprint(before))
			continue
		}
		f.want("reply", got, "1")
		f.want("content", f.worker(0, "hget copy l"), strings.Repeat("v", 1<<20))
		equal(t, "commits that are counted", f.x.Stats.Commits.Load()-commits, 1)
		equal(t, "garbage rows", rows[garbage], 0)
	}
}
