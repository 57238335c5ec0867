//go:build !unix

package testserver

import "errors"

// Pause and Resume are not supported on this system.
func (p *Process) Pause() error  { return errors.ErrUnsupported }
func (p *Process) Resume() error { return errors.ErrUnsupported }
