package observe

import "redoubt/server/admin"

// Commands returns LATENCY and SLOWLOG.
func (o *Observer) Commands() []*admin.Command {
	return append(o.slowlogCommands(), o.latencyCommands()...)
}
