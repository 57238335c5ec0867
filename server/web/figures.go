package web

import (
	"cmp"
	"slices"

	"redoubt/server/info"
)

// Figures returns the figures for INFO and the metrics.
func (w *Web) Figures() (f info.Channels) {
	f.Watched, f.Backlog, f.Oldest = w.backlog.sum()
	h := &w.hooks.Figures
	f.Hooks = info.Webhooks{
		Leads: w.Hooked() && w.o.Host.Leads(), Tasks: w.hooks.Tasks(),
		Delivered: h.Delivered.Load(), Failed: h.Failed.Load(), Retried: h.Retried.Load(),
		GivenUp: h.GivenUp.Load(), DeadLettered: h.DeadLettered.Load(),
	}
	if w.gateway == nil {
		return f
	}
	g := &w.gateway.Figures
	f.HTTP = &info.HTTP{
		Waiting: w.gateway.Waiting(), Published: g.Published.Load(), Delivered: g.Delivered.Load(), Acknowledged: g.Acknowledged.Load(),
		Streams: g.Streams.Load(), Rejected: g.Rejected.Load(), Limited: g.Limited.Load(), Left: g.Left.Load(),
	}
	f.HTTP.Connections, f.HTTP.Parked, f.HTTP.Refused = w.gateway.Connections()
	upTo, sum := g.Polls.Sum()
	f.HTTP.Polls, f.HTTP.PollTime = upTo[:], sum
	for outcome, n := range g.Requests() {
		f.HTTP.Requests = append(f.HTTP.Requests, info.Requests{Endpoint: outcome.Endpoint, Status: outcome.Status, Count: n})
	}
	slices.SortFunc(f.HTTP.Requests, func(a, b info.Requests) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Status, b.Status))
	})
	return f
}
