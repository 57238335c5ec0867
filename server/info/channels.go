package info

import (
	"time"

	"redoubt/server/admin"
)

// Channels are figures of durable channels and their HTTP side.
type Channels struct {
	// Watched is the number of channels with recent messages, Backlog the number of messages
	// that their subscribers have not acknowledged, Oldest the age of the oldest of those.
	Watched int
	Backlog int64
	Oldest  time.Duration
	HTTP    *HTTP // nil: http-addr is not set
	Hooks   Webhooks
}

// HTTP are the figures of http-addr.
type HTTP struct {
	Connections, Parked, Waiting                int
	Refused                                     int64 // connections
	Published, Delivered, Acknowledged, Streams int64
	Rejected, Limited, Left                     int64
	Requests                                    []Requests
	// Polls[i] is the number of waiting polls that took up to 2^i milliseconds, and PollTime
	// the sum of their times.
	Polls    []uint64
	PollTime time.Duration
}

// Requests counts the requests of one endpoint with one status.
type Requests struct {
	Endpoint string
	Status   int
	Count    int64
}

// Webhooks are the figures of deliveries. Only one of the front ends of a store delivers.
type Webhooks struct {
	Leads                                             bool // this process delivers, and there are webhooks
	Tasks                                             int  // pairs of channel and webhook in progress
	Delivered, Failed, Retried, GivenUp, DeadLettered int64
}

func writeChannels(t *text) {
	c := t.r.Channels()
	t.nums("channels_watched", c.Watched, "channels_backlog", c.Backlog, "channels_oldest_unacknowledged_ms", c.Oldest.Milliseconds())
	if h := c.HTTP; h != nil {
		requests := int64(0)
		for _, r := range h.Requests {
			requests += r.Count
		}
		t.nums("http_connections", h.Connections, "http_connections_parked", h.Parked, "http_connections_refused", h.Refused,
			"http_waiting", h.Waiting, "http_requests", requests, "http_requests_rejected", h.Rejected, "http_requests_limited", h.Limited,
			"http_published", h.Published, "http_delivered", h.Delivered, "http_acknowledged", h.Acknowledged,
			"http_streams", h.Streams, "http_polls_left", h.Left)
	}
	w := c.Hooks
	t.nums("webhooks_leader", admin.BoolInt(w.Leads), "webhooks_tasks", w.Tasks, "webhooks_delivered", w.Delivered, "webhooks_failed", w.Failed,
		"webhooks_retried", w.Retried, "webhooks_given_up", w.GivenUp, "webhooks_dead_lettered", w.DeadLettered)
}
