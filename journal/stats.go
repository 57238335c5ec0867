package journal

import "time"

// Stats are figures of a journal since it was opened.
type Stats struct {
	Segments      int
	Bytes         int64 // of all segments
	Records       int64
	Writes        int64 // records and marks
	WrittenBytes  int64
	Unsynced      int64 // records
	UnsyncedBytes int64
	Syncs         int64
	SyncNanos     int64         // sum
	SyncMax       time.Duration // of the last ten to twenty seconds
	SyncAge       time.Duration // since the last one ended
}

// figures are counted for Stats; Journal.mu guards all of them.
type figures struct {
	records, writes, syncs int64
	written, syncedBytes   int64
	syncTime               time.Duration
	worst, worstBefore     time.Duration
	ticks                  int
	syncedAt               time.Time
}

func (f *figures) sync(now time.Time, took time.Duration, written int64) {
	f.syncs++
	f.syncTime += took
	f.worst = max(f.worst, took)
	f.syncedAt, f.syncedBytes = now, written
}

func (f *figures) tick() {
	if f.ticks++; f.ticks%10 == 0 {
		f.worst, f.worstBefore = 0, f.worst
	}
}

// Stats returns the figures.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := &j.figures
	s := Stats{
		Unsynced: int64(j.last.Load() - j.synced.Load()),
		Segments: len(j.old) + 1, Bytes: j.active.end,
		Records: f.records, Writes: f.writes, WrittenBytes: f.written, UnsyncedBytes: f.written - f.syncedBytes,
		Syncs: f.syncs, SyncNanos: f.syncTime.Nanoseconds(), SyncMax: max(f.worst, f.worstBefore), SyncAge: j.o.Now().Sub(f.syncedAt),
	}
	for _, o := range j.old {
		s.Bytes += o.bytes
	}
	return s
}
