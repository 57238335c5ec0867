package doctor

import (
	"errors"
	"os"
	"time"

	"redoubt/config"
	"redoubt/histogram"
)

// Here returns this machine. Store has to be set.
func Here() Machine {
	return Machine{
		Root: os.DirFS("/"), Now: time.Now, OpenFiles: openFiles, Volume: volume, Fsync: fsync, FsyncFor: time.Second,
		ClockSynced: clockSynced, User: os.Getuid(), Owner: owner, Memory: config.MachineMemory(),
	}
}

// fsync measures how long it takes to have four kilobytes on disk, as the journal does it.
func fsync(dir string, d time.Duration) (p50, p99, most time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".redoubt-doctor-*")
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var h histogram.Histogram
	block := make([]byte, 4<<10)
	for end := time.Now().Add(d); h.Count() == 0 || time.Now().Before(end); {
		if _, err := f.Write(block); err != nil {
			return 0, 0, 0, err
		}
		begin := time.Now()
		if err := f.Sync(); err != nil {
			return 0, 0, 0, err
		}
		h.Add(time.Since(begin))
		if h.Count()%1024 == 0 { // it stays small
			if _, err := f.Seek(0, 0); err != nil {
				return 0, 0, 0, err
			}
		}
	}
	return h.At(0.5), h.At(0.99), h.Most(), nil
}
