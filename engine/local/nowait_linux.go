package local

import (
	"errors"

	"golang.org/x/sys/unix"
)

func threadID() int32 { return int32(unix.Gettid()) }

// readCached reads from the page cache only.
func readCached(fd uintptr, p []byte, at int64) (int, error) {
	for {
		n, err := unix.Preadv2(int(fd), [][]byte{p}, at, unix.RWF_NOWAIT)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// isAgain reports whether a read would have had to wait.
func isAgain(err error) bool { return errors.Is(err, unix.EAGAIN) }

const canReadNoWait = true
