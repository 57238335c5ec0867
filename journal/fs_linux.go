package journal

import (
	"errors"
	"syscall"
)

// Sync leaves out what nobody needs to read the data back (the file's times),
// which saves the file system's own journal a commit when space was there.
func (f osFile) Sync() error {
	return retry(func() error { return syscall.Fdatasync(int(f.Fd())) })
}

func (f osFile) Allocate(size int64) error {
	err := retry(func() error { return syscall.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return nil
	}
	return err
}

func retry(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}
