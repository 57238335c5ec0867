package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"redoubt/gateway/store"
)

// A stream of events (text/event-stream) of a subscriber, for EventSource in browsers.
//
// Each message is an event whose data is the JSON of the message. The last message of those
// that were fetched together has the acknowledgement handle as its id; a browser sends the id
// that it saw last when it reconnects (Last-Event-ID), which acknowledges everything up to
// that message. Messages that were sent and not acknowledged are sent again. A stream ends
// after streamMessages messages, or streamTime after the first one, so that a browser which is
// never disconnected acknowledges, too; the browser reconnects at once. A stream that is
// streamAge old ends in any case: a revoked or expired token is checked again then.

const (
	streamMessages = 256
	streamTime     = 30 * time.Second
	streamAge      = 5 * time.Minute
	streamCount    = 64               // messages fetched together
	streamPing     = 15 * time.Second // an empty comment shows a dead connection
	streamRetry    = "retry: 100\n\n" // milliseconds until a browser connects again
)

func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, q *request) *response {
	if g.o.Full() {
		return g.failed(errBusy)
	}
	handle := r.Header.Get("Last-Event-ID")
	if handle != "" {
		if err := store.Ack(r.Context(), g.o.Store, q.channel, q.id, handle); err != nil {
			return g.failed(err)
		}
		g.Figures.Acknowledged.Add(1)
	} else if _, err := store.Fetch(r.Context(), g.o.Store, q.channel, q.id, 1, ""); err != nil {
		return g.failed(err) // before the response has begun
	}
	s := &stream{began: time.Now()}
	q.close = true
	h := &held{g: g, request: *q, began: s.began, outcome: s.outcome, again: s.again, signal: make(chan struct{})}
	g.Figures.Streams.Add(1)
	h.head = h.streamHead()
	if canPark && r.ProtoMajor == 1 {
		h.mu.Lock()
		parked := g.park(w, h)
		h.mu.Unlock()
		if parked {
			s.again(h)
			return nil
		}
	}
	s.again(h)
	g.streamHere(w, r, h, s, g.wait(r, h))
	return nil
}

// asStream turns a response that asks for a retry into a stream that ends at once.
// EventSource reconnects after a stream and after a broken connection, but never after a
// status other than 200: a restart of the server would disconnect a page for good.
func (r *response) asStream() *response {
	text := fmt.Appendf(nil, "retry: %d\n\nevent: error\ndata: %s\n\n", 1000*r.retry, bytes.TrimSpace(r.body))
	return &response{status: http.StatusOK, kind: "text/event-stream", body: text}
}

// stream is the state of a stream of events.
type stream struct {
	began time.Time
	first time.Time // when the first message was sent
	after string    // the handle of what was sent last
	sent  int
}

// again starts the fetch of the next messages.
func (s *stream) again(h *held) { h.start(streamCount, streamPing, s.after) }

// streamHead returns the beginning of a stream's response on a parked connection.
func (h *held) streamHead() []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\n")
	header := make(http.Header)
	h.headers(header)
	header.Set("Content-Type", "text/event-stream")
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Connection", "close")
	header.Set("X-Accel-Buffering", "no")
	_ = header.Write(&b) // a buffer takes everything
	b.WriteString("\r\n" + streamRetry)
	return b.Bytes()
}

// outcome makes the events of a fetch.
func (s *stream) outcome(h *held, batch store.Batch, err error) (out []byte, last bool) {
	out, last = s.events(h.g, batch, err)
	if last {
		h.close = true
		h.g.finished(&h.request, http.StatusOK, h.began)
	}
	return out, last
}

func (s *stream) events(g *Gateway, batch store.Batch, err error) (out []byte, last bool) {
	if err != nil {
		res := g.failed(err)
		return fmt.Appendf(nil, "event: error\ndata: %s\n\n", bytes.TrimSpace(res.body)), true
	}
	for i := range batch.Messages {
		m := &batch.Messages[i]
		if i == len(batch.Messages)-1 && batch.Handle != "" {
			out = fmt.Appendf(out, "id: %s\n", batch.Handle)
		}
		out = append(out, "data: "...)
		out = append(oneLine(out, m), '\n', '\n')
	}
	if len(batch.Messages) == 0 {
		out = append(out, ":\n\n"...)
	} else if s.first.IsZero() {
		s.first = time.Now()
	}
	if batch.Handle != "" {
		s.after = batch.Handle
	}
	s.sent += len(batch.Messages)
	g.Figures.Delivered.Add(int64(len(batch.Messages)))
	old := time.Since(s.began) > streamAge || !s.first.IsZero() && time.Since(s.first) > streamTime
	return out, old || s.sent >= streamMessages || g.closing.Load()
}

// oneLine appends a message as JSON without line breaks.
func oneLine(out []byte, m *store.Message) []byte {
	text := appendMessage(nil, m)
	var b bytes.Buffer
	if json.Compact(&b, text) != nil { // appendMessage makes valid JSON
		return out
	}
	return append(out, b.Bytes()...)
}

// streamHere serves a stream on the goroutine of its request.
func (g *Gateway) streamHere(w http.ResponseWriter, r *http.Request, h *held, s *stream, out *ready) {
	h.headers(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	control := http.NewResponseController(w)
	text := []byte(streamRetry)
	for {
		if err := control.SetWriteDeadline(time.Now().Add(g.o.WriteTime)); err != nil {
			return
		}
		more, last := s.outcome(h, out.batch, out.err)
		if _, err := w.Write(append(text, more...)); err != nil || control.Flush() != nil || last || r.Context().Err() != nil {
			return
		}
		text = nil
		h.mu.Lock()
		h.ready, h.over, h.signal = nil, false, make(chan struct{})
		h.mu.Unlock()
		s.again(h)
		out = g.wait(r, h)
	}
}
