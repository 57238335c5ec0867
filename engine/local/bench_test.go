package local

import (
	"encoding/binary"
	"testing"

	"redoubt/engine"
	"redoubt/journal"
)

// benchKey is a key of 24 bytes; the keys of a benchmark lie in all slots.
func benchKey(b []byte, n uint64) []byte {
	n *= 0x9e3779b97f4a7c15
	b = append(b[:0], make([]byte, 24)...)
	binary.BigEndian.PutUint16(b, uint16(n>>48)&0x3fff)
	b[2] = 1
	binary.BigEndian.PutUint64(b[16:], n)
	return b
}

// What one turn costs: a view, and a read, a walk over a few rows, or a commit of one row.
func BenchmarkTurn(b *testing.B) {
	const keys = 100_000
	e := opened(b, func(o *Options) { o.Dir, o.FS, o.Memory, o.Fsync = b.TempDir(), nil, 1<<30, journal.No })
	defer func() { must(b, e.Close()) }()
	value := make([]byte, 100)
	var key []byte
	var batch engine.Batch
	for n := range uint64(keys) {
		if key = benchKey(key, n); n%1000 == 0 && n > 0 {
			must(b, commitOne(e, &batch))
		}
		batch.Put(key, value)
	}
	must(b, commitOne(e, &batch))
	must(b, e.Round())
	for name, turn := range map[string]func(v engine.View, n uint64) error{
		"get": func(v engine.View, n uint64) (err error) {
			key = benchKey(key, n%keys)
			value, _, err = v.Get(key, value[:0])
			return err
		},
		"walk": func(v engine.View, n uint64) error {
			key = benchKey(key, n%keys)
			it := v.Iter(key[:3], append(key[:2:2], 2), false)
			for it.Next() {
			}
			return it.Close()
		},
		"commit": func(v engine.View, n uint64) error {
			key = benchKey(key, n%keys)
			batch.Reset()
			batch.Put(key, value)
			_, err := v.Commit(&batch)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := uint64(0); b.Loop(); n++ {
				v, err := e.Begin(engine.ViewOptions{})
				if err == nil {
					err = turn(v, n)
					v.Close()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func commitOne(e *Engine, batch *engine.Batch) error {
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		return err
	}
	defer v.Close()
	defer batch.Reset()
	_, err = v.Commit(batch)
	return err
}

// How long memory takes to go back, by the number of keys in the store and of bytes in the log
// since the last round. REDOUBT_KEYS and REDOUBT_JOURNAL_BYTES say other numbers.
func BenchmarkRewind(b *testing.B) {
	keys, bytes := uint64(scale(b, "REDOUBT_KEYS", 1_000_000)), int64(scale(b, "REDOUBT_JOURNAL_BYTES", 32<<20))
	s := &scripted{at: atOnce}
	e := opened(b, func(o *Options) {
		o.Dir, o.FS, o.Memory, o.Fsync, o.JournalBytes, o.Log = b.TempDir(), nil, 8<<30, journal.No, 1<<40, s.opener
	})
	defer func() { must(b, e.Close()) }()
	lead := func() {
		_, err := s.lead(e)
		must(b, err)
	}
	lead()
	value := make([]byte, 100)
	var key []byte
	var batch engine.Batch
	write := func(n uint64) {
		for range 32 {
			key = benchKey(key, n)
			batch.Put(key, value)
			n++
		}
		must(b, commitOne(e, &batch))
	}
	for n := uint64(0); n < keys; n += 32 {
		write(n)
	}
	must(b, e.Round())
	since := e.appended.Load()
	for n := uint64(0); e.appended.Load()-since < bytes; n += 32 {
		write(n)
	}
	agreed := uint64(e.Committed())
	s.mu.Lock()
	s.at = byScript
	s.mu.Unlock()
	b.SetBytes(e.appended.Load() - since)
	b.ReportMetric(float64(e.set().Mapped()>>20), "MB-before")
	for b.Loop() {
		b.StopTimer()
		write(0)
		s.depose()
		must(b, s.takeBack(agreed))
		b.StartTimer()
		must(b, e.Rewind(agreed, agreed, s.records))
		b.StopTimer()
		lead()
		agreed = uint64(e.Committed())
		b.StartTimer()
	}
}
