package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"redoubt/server/info"
)

// Durable channels. The number of published messages is in redoubt_commands_total of
// chpublish, whether over HTTP or RESP.
var (
	mWatched   = gauge("channels_watched", "Channels that had a message since they were last read to the end; 1024 are watched at the most.")
	mBacklog   = gauge("channels_backlog_messages", "Messages of the watched channels that subscribers have not acknowledged, the sum over subscribers.")
	mOldest    = gauge("channels_oldest_unacknowledged_seconds", "Age of the oldest message of the watched channels that a subscriber has not acknowledged.")
	mHTTPConns = gauge("http_connections", "Open connections of http-addr; parked ones wait without a goroutine.", "state")
	mHTTPFull  = counter("http_connections_refused_total", "Connections of http-addr that were refused, since there were too many.")
	mHTTPWait  = gauge("http_waiting_requests", "Long polls and streams of events that wait for a message.")
	mHTTPReqs  = counter("http_requests_total", "HTTP requests.", "endpoint", "status")
	mHTTPDeny  = counter("http_requests_rejected_total", "HTTP requests without the right to do what they wanted.")
	mHTTPRate  = counter("http_requests_limited_total", "HTTP requests that came too fast.")
	mHTTPLeft  = counter("http_polls_left_total", "Clients that left while their request waited.")
	mHTTPIn    = counter("http_published_total", "Messages that were published over HTTP.")
	mHTTPOut   = counter("http_delivered_total", "Messages that were delivered over HTTP.")
	mHTTPAck   = counter("http_acknowledgements_total", "Acknowledgements over HTTP.")
	mHTTPSSE   = counter("http_streams_total", "Streams of events that were begun.")
	mHTTPPoll  = prometheus.NewDesc("redoubt_http_poll_duration_seconds", "How long polls took that could wait.", nil, nil)
	mHookLeads = gauge("webhooks_leader", "1 if this process is the one that delivers to webhooks, and there are some.")
	mHookTasks = gauge("webhooks_tasks", "Pairs of a channel and a webhook that are looked after.")
	mHookSent  = counter("webhooks_deliveries_total", "Attempts to deliver a message to a webhook, by their outcome.", "outcome")
	mHookEnd   = counter("webhooks_given_up_total", "Messages that no webhook took.", "dead_letter")
)

func (c *collector) channels(send sender, out chan<- prometheus.Metric, f info.Channels) {
	send(mWatched, float64(f.Watched))
	send(mBacklog, float64(f.Backlog))
	send(mOldest, f.Oldest.Seconds())
	w := f.Hooks
	send(mHookLeads, number(w.Leads))
	send(mHookTasks, float64(w.Tasks))
	send(mHookSent, float64(w.Delivered), "delivered")
	send(mHookSent, float64(w.Failed), "failed")
	send(mHookEnd, float64(w.DeadLettered), "yes")
	send(mHookEnd, float64(max(0, w.GivenUp-w.DeadLettered)), "no")
	h := f.HTTP
	if h == nil {
		return
	}
	send(mHTTPConns, float64(h.Parked), "parked")
	send(mHTTPConns, float64(h.Connections-h.Parked), "active")
	send(mHTTPFull, float64(h.Refused))
	send(mHTTPWait, float64(h.Waiting))
	for _, r := range h.Requests {
		send(mHTTPReqs, float64(r.Count), r.Endpoint, strconv.Itoa(r.Status))
	}
	send(mHTTPDeny, float64(h.Rejected))
	send(mHTTPRate, float64(h.Limited))
	send(mHTTPLeft, float64(h.Left))
	send(mHTTPIn, float64(h.Published))
	send(mHTTPOut, float64(h.Delivered))
	send(mHTTPAck, float64(h.Acknowledged))
	send(mHTTPSSE, float64(h.Streams))
	buckets := make(map[float64]uint64, len(h.Polls))
	for i, n := range h.Polls[:len(h.Polls)-1] { // the last one has no bound
		buckets[float64(uint64(1)<<i)/1e3] = n
	}
	out <- prometheus.MustNewConstHistogram(mHTTPPoll, h.Polls[len(h.Polls)-1], h.PollTime.Seconds(), buckets)
}
