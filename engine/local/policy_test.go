package local

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/journal"
)

// afterPowerCut is how many commits a power cut would leave now.
func (v *voyage) afterPowerCut() engine.Ticket {
	v.t.Helper()
	n, err := newVoyage(v.t, v.fs.crash(0, nil), v.fsync, 0).look(v.ledger, 0)
	if err != nil {
		v.t.Fatal(err)
	}
	return n
}

func (v *voyage) commits(e *Engine, n int) engine.Ticket {
	v.t.Helper()
	for range n {
		if err := v.ledger.commit(e, true, v.load.commit()); err != nil {
			v.t.Fatal(err)
		}
	}
	await(v.t, "durability", func() bool { return e.Durable() == e.Committed() })
	return e.Committed()
}

// roomy has no rounds, which would sync.
func roomy(o *Options) { o.Memory, o.SegmentBytes, o.JournalBytes = 16<<20, 1<<20, 1<<30 }

// The sync of each second: what is a second old outlives a power cut.
func TestEverySecSyncs(t *testing.T) {
	t.Parallel()
	v := newVoyage(t, vfs.NewCrashableMem(), journal.EverySec, enginetest.Seed(t))
	v.change = roomy
	e := v.open()
	defer v.close(e)
	n := v.commits(e, 5)
	await(t, "the sync of the second", func() bool { return engine.Ticket(e.journal.(*journal.Journal).Synced()) == n })
	if got := v.afterPowerCut(); got != n {
		t.Errorf("%d commits outlive a power cut, not %d", got, n)
	}
}

// The policy can change at any time; from then on the new one holds.
func TestSetFsync(t *testing.T) {
	t.Parallel()
	v := newVoyage(t, vfs.NewCrashableMem(), journal.No, enginetest.Seed(t))
	v.change = roomy
	e := v.open()
	defer v.close(e)
	survive := func(when string, want engine.Ticket) {
		t.Helper()
		if got := v.afterPowerCut(); got != want {
			t.Errorf("%s: %d commits outlive a power cut, not %d", when, got, want)
		}
	}
	first := v.commits(e, 5)
	survive("no", 0)
	if err := e.SetFsync(journal.Always); err != nil {
		t.Fatal(err)
	}
	survive("after the change", first) // what the old policy left is synced, too
	second := v.commits(e, 5)
	survive("always", second)
	if err := e.SetFsync(journal.No); err != nil {
		t.Fatal(err)
	}
	v.commits(e, 5)
	survive("no again", second)
}

// A store whose disk takes no writes refuses to open, or opens for reading; when
// the disk works again nothing is lost.
func TestOpenOnBrokenDisk(t *testing.T) {
	t.Parallel()
	v := newVoyage(t, vfs.NewCrashableMem(), journal.Always, enginetest.Seed(t))
	v.sail(30)
	for _, part := range []string{".sst", "MANIFEST", ".jnl", "store/store$", "journal$", "rounds", ""} {
		for _, err := range []error{syscall.ENOSPC, syscall.EIO} {
			v.fs.failOn(err, part, "create", "write", "sync")
			for range 2 { // the second finds what the first left
				within(t, "opening without "+part, func() {
					o := Options{Logger: quiet}
					v.options(&o)
					e, err := Open(o)
					if err != nil {
						return
					}
					v.ledger.mustCheck(t, e, v.ledger.written)
					_ = e.Close()
				})
			}
			v.fs.heal()
			n, err := v.look(v.ledger, v.ledger.written)
			if err != nil {
				t.Fatalf("after a disk without %q: %v", part, err)
			}
			v.ledger = v.ledger.fork(n)
		}
	}
}

// The restart tells how far it is, and the figures are there.
func TestProgressAndStats(t *testing.T) {
	t.Parallel()
	v := newVoyage(t, vfs.NewCrashableMem(), journal.Always, enginetest.Seed(t))
	v.change = roomy
	e := v.open()
	v.commits(e, 200)
	v.close(e)
	var last, total int64
	v.change = func(o *Options) {
		roomy(o)
		o.Progress = func(done, all int64) {
			if done < last || done > all {
				t.Errorf("progress %d of %d after %d", done, all, last)
			}
			last, total = done, all
		}
	}
	e = v.open()
	defer v.close(e)
	if last == 0 || last != total {
		t.Errorf("the last progress was %d of %d", last, total)
	}
	mustRound(t, e)
	s := e.Stats()
	detail := map[string]int64{}
	for _, d := range s.Detail {
		detail[d.Name] = d.Value
	}
	if s.MemoryBytes == 0 || s.DiskBytes == 0 || detail["replayed_commits"] != 200 || detail["writeback_rounds"] != 1 || detail["resident_rows"] == 0 {
		t.Errorf("figures: %+v", s)
	}
}
