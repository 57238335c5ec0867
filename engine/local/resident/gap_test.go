package resident

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"redoubt/engine/enginetest"
)

// However rows come and go, no gap has a row in it that lives, and gaps neither
// touch nor become too many.
func TestGaps(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(enginetest.Seed(t), 5))
	p := new(part)
	alive := map[string]bool{}
	key := func() string { return fmt.Sprintf("aa%03d", rng.IntN(400)) }
	for step := range 20_000 {
		k := key()
		switch n := rng.IntN(10); {
		case n < 3:
			p.noteInsert([]byte(k))
			alive[k] = true
		case n < 7:
			delete(alive, k)
			if len(p.gaps) > 0 {
				p.noteDelete([]byte(k))
			}
		default: // a walk finds the first one from a place on
			lo, first := k, "aa999"
			for a := range alive {
				if a >= lo && a < first {
					first = a
				}
			}
			p.addGap(gap{lo: []byte(lo), hi: []byte(first), weight: rng.IntN(50)})
		}
		if len(p.gaps) > mostGaps {
			t.Fatalf("step %d: %d gaps", step, len(p.gaps))
		}
		for i, g := range p.gaps {
			if string(g.lo) >= string(g.hi) {
				t.Fatalf("step %d: gap from %q to %q", step, g.lo, g.hi)
			}
			for _, o := range p.gaps[:i] {
				if string(o.lo) <= string(g.hi) && string(g.lo) <= string(o.hi) {
					t.Fatalf("step %d: gaps from %q to %q and from %q to %q", step, g.lo, g.hi, o.lo, o.hi)
				}
			}
			for a := range alive {
				if a >= string(g.lo) && a < string(g.hi) {
					t.Fatalf("step %d: %q lives in the gap from %q to %q", step, a, g.lo, g.hi)
				}
			}
		}
	}
}
