//go:build !unix

package testserver

import "errors"

// Pause and Resume are not to be had here.
func (p *Process) Pause() error  { return errors.ErrUnsupported }
func (p *Process) Resume() error { return errors.ErrUnsupported }
