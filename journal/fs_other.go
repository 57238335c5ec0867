//go:build !linux

package journal

// Allocate does nothing: files grow as they are written.
func (f osFile) Allocate(int64) error { return nil }
