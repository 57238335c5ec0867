package local

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine/enginetest"
)

// Memory that went back is what a store has that is opened then: the same rows, the same
// counters, whatever happened before. REDOUBT_REWINDS says how many histories.
func TestRewoundIsReopened(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	for i := range scale(t, "REDOUBT_REWINDS", 8) {
		m := newMember(t, vfs.NewCrashableMem(), seed+uint64(i), busy)
		m.open()
		within(t, fmt.Sprintf("history %d", i), func() { m.history(t, 150) })
		m.close()
		if t.Failed() {
			return
		}
		if m.rewound == 0 {
			t.Log("nothing was taken back")
		}
	}
}

// history makes steps, and compares memory after each time it went back.
func (m *member) history(t *testing.T, steps int) {
	if err := m.lead(); err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		before := m.rewound
		if err := m.step(); err != nil {
			t.Errorf("step %d: %v", i, err)
			return
		}
		if m.rewound == before && m.rng.IntN(40) > 0 {
			continue
		}
		c, err := m.reopened()
		if err == nil && uint64(m.e.Committed()) <= m.log.Durable() {
			if got, want := dump(t, m.e), dump(t, c.e); got != want {
				t.Errorf("step %d: memory and a store that was opened differ: %s", i, difference(got, want))
			}
		}
		if err != nil {
			t.Errorf("step %d: the store opened again: %v", i, err)
		}
		if c != nil && c.e != nil {
			c.close()
		}
		if t.Failed() {
			return
		}
	}
}
