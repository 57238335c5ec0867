package server

import "redoubt/command"

// feedMonitors sends a command to every session that monitors.
func (srv *Server) feedMonitors(s *session, cmd *command.Command, args [][]byte) {}

// dropMonitor forgets a monitor. Its mu is held.
func (srv *Server) dropMonitor(s *session) {}
