//go:build !linux

package server

import (
	"errors"
	"net"
	"time"
)

// haveLoops is false on other systems than Linux: pipes carry every connection.
const haveLoops = false

type loop struct{}

func (srv *Server) startLoops(int) error { return nil }
func (srv *Server) drainLoops()          {}
func (srv *Server) equipLoops()          {}
func (srv *Server) notifyLoops()         {}
func (srv *Server) stopLoops(time.Time)  {}

func (srv *Server) adopt(net.Conn, *listener) error { return errors.ErrUnsupported }
