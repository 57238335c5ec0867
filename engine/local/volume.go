package local

// Full disks.
//
// A store that has no room refuses commits that add rows (Engine.Full), still reads,
// accepts commits that free space, and resumes by itself when there is room again. Four
// parts do that:
//
//  1. A goroutine checks the free space once a second. Below a minimum the store is
//     full, before a write has failed.
//  2. A write that fails for lack of space makes the store full at once. It is retried
//     as long as it may take from the reserve (reserve.go, reserve_fs.go).
//  3. A write of Pebble's MANIFEST that fails even so waits for space (disk.go). Only
//     the round or compaction that it belongs to waits with it.
//  4. While the store is full, commits wait for rounds only beyond twice the limit of
//     dirty rows (awaitRoom), and rounds are made soon: tombstones free space only when
//     the store has them.
//
// The store is full until its reserve is whole again and the minimum is free or, where
// only an attempt can tell (quotas), can be allocated.

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

// volume is a file system that the store writes to.
type volume struct {
	fs      vfs.FS
	dir     string // a directory on it
	reserve *reserve
	next    func() int64 // bytes that the next round and compaction, or the next segments, may need
	free    atomic.Int64 // bytes, as last measured
	total   atomic.Int64 // 0 if the file system does not tell
	low     atomic.Bool  // free is below the warning
}

func openVolume(fs vfs.FS, dir string, next func() int64) (*volume, error) {
	v := &volume{fs: fs, dir: dir, next: next}
	v.measure()
	var err error
	v.reserve, err = openReserve(fs, fs.PathJoin(dir, reserveDir), v.total.Load())
	return v, err
}

// openVolumes finds the file systems that the store writes to, and fills their reserves.
func (e *Engine) openVolumes(o Options, journal string) error {
	e.SetDiskWarning(o.DiskWarning)
	v, err := openVolume(o.FS, o.Dir, func() int64 {
		return min(e.dirtyLimit.Load(), e.journalBytes) + min(e.tableBytes.Load()/2, mostCompacted)
	})
	if err != nil {
		return err
	}
	e.volumes = []*volume{v}
	if !sameDevice(o.FS, o.Dir, journal) {
		if v, err = openVolume(o.FS, journal, func() int64 { return 2 * o.SegmentBytes }); err != nil {
			return err
		}
		e.volumes = append(e.volumes, v)
	}
	for _, v := range e.volumes {
		if err := v.check(false); err != nil {
			_ = e.noRoom(v, err)
			e.deleted.add(nil, reserved) // keys deleted before the start are not known
		}
	}
	return nil
}

// sameDevice reports whether two paths are on one file system, or this is not known.
func sameDevice(fs vfs.FS, a, b string) bool {
	number := func(string) (uint64, bool) { return 0, false }
	if fs == vfs.Default {
		number = device
	} else if d, ok := fs.(interface {
		Device(path string) (uint64, bool)
	}); ok {
		number = d.Device
	}
	x, knowX := number(a)
	y, knowY := number(b)
	return !knowX || !knowY || x == y
}

// reserveDir is the directory of a volume's reserve, inside of the store's or of the
// journal's.
const reserveDir = "reserve"

// measure asks the file system for its free space.
func (v *volume) measure() {
	u, err := v.fs.GetDiskUsage(v.dir)
	if err != nil {
		u = vfs.DiskUsage{} // not every file system tells; a write will fail
	}
	v.free.Store(int64(u.AvailBytes))
	v.total.Store(int64(u.TotalBytes))
}

// mostCompacted is about how many bytes a compaction writes before it frees space. A small
// store is compacted as a whole.
const mostCompacted = 128 << 20

// least is how many bytes must be free besides the reserve: those that next says, and as
// many as the reserve has; at most an eighth of the file system.
func (v *volume) least() int64 {
	least := v.next() + v.reserve.bytes()
	if total := v.total.Load(); total > 0 {
		least = min(least, total/8)
	}
	return least
}

// check returns an error if there is no room for writes, else it fills the reserve. full is
// whether the store is full now: a quarter more is then needed, so that the store is not
// full again at once.
func (v *volume) check(full bool) error {
	v.measure()
	least, missing := v.least(), v.reserve.missing()
	need := least + missing
	if full {
		need += least / 4
	}
	if free := v.free.Load(); v.total.Load() > 0 && free < need {
		return fmt.Errorf("%d MB are free, %d MB are needed", free>>20, need>>20+1)
	}
	if full {
		if err := v.reserve.probe(least); err != nil {
			return err
		}
	}
	return v.reserve.fill()
}

// plentyFree is the free space from which on the size of the tables does not matter.
const plentyFree = 4 << 30

// checkPause is the time between two checks of the free space.
const checkPause = time.Second

// volumeLoop checks the free space periodically.
func (e *Engine) volumeLoop() {
	ticker := time.NewTicker(checkPause)
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case now := <-ticker.C:
			e.checkSpace(now)
		}
	}
}

// checkSpace decides whether the store is full, and logs that at the beginning, once a minute,
// and at the end.
func (e *Engine) checkSpace(now time.Time) {
	was := e.full.Load()
	room := true
	if e.volumes[0].free.Load() < plentyFree {
		e.tableBytes.Store(int64(e.metrics().DiskSpaceUsage()))
	}
	for _, v := range e.volumes {
		if err := v.check(was != nil); err != nil {
			_ = e.noRoom(v, err)
			room = false
		}
		e.warn(v)
	}
	switch {
	case was == nil:
	case room && e.disk.waiting.Load() == 0 && e.full.CompareAndSwap(was, nil):
		e.cleared.Store(now.UnixNano())
		if e.fullLogged.Swap(false) {
			e.log.Info("there is space on the disk again, writes go on", "dir", e.dir)
		}
		e.disk.retryNow()
		if p := e.roundErr.Load(); p != nil && isFull(*p) {
			e.roundErr.CompareAndSwap(p, nil) // the next round finds space
		}
		wake(e.writeback)
	default:
		e.logFull(*was, now)
		if e.applied.Load() != e.checkpoint.Load() {
			wake(e.writeback)
		}
		wake(e.reclaim)
	}
}

// noRoom makes the store full, and returns the error for refused commits.
func (e *Engine) noRoom(v *volume, cause error) error {
	full := fmt.Errorf("%w: the disk of %s is full (%w): free space there or delete keys (DEL, UNLINK and FLUSHALL work), then writes go on by themselves",
		engine.ErrReadOnly, v.dir, cause)
	if e.full.Swap(&full) == nil {
		e.logFull(full, time.Now())
	}
	return full
}

// clearPause is how long the disk must have had room before a full disk is logged at once.
const clearPause = 10 * time.Second

func (e *Engine) logFull(full error, now time.Time) {
	last := e.fullLoggedAt.Load()
	again := !e.fullLogged.Load() && now.UnixNano()-e.cleared.Load() > int64(clearPause)
	if (last == 0 || again || now.UnixNano()-last > int64(logPause)) && e.fullLoggedAt.CompareAndSwap(last, now.UnixNano()) {
		e.fullLogged.Store(true)
		e.log.Error("the disk is full, writes are refused", "dir", e.dir, "err", full.Error())
	}
}

// Full implements engine.Engine.
func (e *Engine) Full() error {
	if full := e.full.Load(); full != nil {
		return *full
	}
	return nil
}

// SetDiskWarning sets the share of a file system, in percent, below which a warning of low
// free space is logged. 0: never.
func (e *Engine) SetDiskWarning(percent int) { e.diskWarning.Store(int64(percent)) }

// warn logs once that space is low: below the share of SetDiskWarning, or below twice the
// minimum, which is more on a small file system.
func (e *Engine) warn(v *volume) {
	total, free := v.total.Load(), v.free.Load()
	limit := total / 100 * e.diskWarning.Load()
	if limit > 0 {
		limit = max(limit, 2*v.least())
	}
	switch {
	case free < limit && !v.low.Swap(true):
		e.log.Warn("the disk is nearly full; free space on it, or writes will be refused", "dir", v.dir, "free_mb", free>>20, "of_mb", total>>20, "disk-free-warning", e.diskWarning.Load())
	case free > limit+limit/8:
		v.low.Store(false)
	}
}
