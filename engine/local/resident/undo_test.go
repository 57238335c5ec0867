package resident

import (
	"fmt"
	"testing"

	"redoubt/engine"
)

// What is saved for snapshots is gone with the last snapshot that needs it, in whatever
// order they are closed, and whether they are closed or revoked.
func TestUndoIsForgotten(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *Set, open []Snapshot){
		"oldest first": func(s *Set, open []Snapshot) {
			for _, o := range open {
				s.CloseSnapshot(o)
			}
		},
		"newest first": func(s *Set, open []Snapshot) {
			for i := range open {
				s.CloseSnapshot(open[len(open)-1-i])
			}
		},
		"revoked": func(s *Set, open []Snapshot) {
			for range open {
				s.Revoke()
			}
		},
		"revoked, then closed": func(s *Set, open []Snapshot) {
			s.Revoke()
			for _, o := range open {
				s.CloseSnapshot(o)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSet(t, false) // rows that are not here may be in the store
			key := func(i int) []byte { return fmt.Appendf(nil, "%c%crow%d", i%5, i%3, i) }
			seq := uint64(0)
			write := func(value string) {
				seq++
				apply(t, s, seq, func(b *engine.Batch) {
					for i := range 100 {
						b.Put(key(i), []byte(value))
					}
					b.Delete(key(int(seq)))
					b.Delete(fmt.Appendf(nil, "%cunknown%d", seq, seq))
				})
			}
			write("a")
			var open []Snapshot
			for range 3 {
				open = append(open, s.OpenSnapshot(func() uint64 { return seq }))
				write("b")
				write("c")
			}
			if s.UndoBytes() < 3*100*versionSize {
				t.Fatalf("%d bytes are saved for three snapshots", s.UndoBytes())
			}
			end(s, open)
			if n := s.UndoBytes(); n != 0 || s.snapshots.trail != nil || len(s.snapshots.open) != 0 {
				t.Errorf("%d bytes, a trail of %d, %d snapshots are left", n, len(s.snapshots.trail), len(s.snapshots.open))
			}
			for no := range s.parts {
				if p := s.parts[no].Load(); p != nil && (p.undo != nil || p.cold != 0) {
					t.Errorf("part %x keeps %d rows, %d of them cold", no, len(p.undo), p.cold)
				}
			}
			write("d")
			if s.UndoBytes() != 0 {
				t.Error("something is saved for no snapshot")
			}
			check(t, s)
		})
	}
}
