package local

import "syscall"

// device returns the number of the file system that a path is on. It returns false if unknown.
func device(path string) (uint64, bool) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0, false
	}
	return uint64(st.Dev), true
}
