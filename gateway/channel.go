package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"redoubt/gateway/store"
)

// The endpoints of channels.

const (
	defaultMax = 64
	// maxMax is the largest number of messages that a client may ask for; one response has
	// maxBatch at most.
	maxMax   = 10_000
	maxBatch = 1024
)

func (g *Gateway) publish(w http.ResponseWriter, r *http.Request, q *request) *response {
	if !validID(q.id) {
		return invalid("messageID")
	}
	content, release, res := g.body(w, r)
	if res != nil {
		return res
	}
	defer release()
	// A text that is not UTF-8 could not be returned as JSON.
	if !json.Valid(content) || !utf8.Valid(content) {
		return fail(http.StatusBadRequest, "Request body is not JSON", "")
	}
	if err := store.Publish(r.Context(), g.o.Store, q.channel, q.id, content); err != nil {
		return g.failed(err)
	}
	g.Figures.Published.Add(1)
	if g.o.Published != nil {
		g.o.Published(q.channel)
	}
	return asJSON(http.StatusOK, map[string]string{"channelID": q.channel, "messageID": q.id})
}

// body reads the body of a request. release returns the body's bytes to the allowance.
func (g *Gateway) body(w http.ResponseWriter, r *http.Request) (b []byte, release func(), res *response) {
	limit := g.settings.Load().MaxBody
	if r.ContentLength > limit {
		return nil, nil, tooLarge(limit)
	}
	size := limit // of a body without a Content-Length
	if r.ContentLength >= 0 {
		size = r.ContentLength
	}
	if g.o.Full() || !g.bodies.take(size) {
		return nil, nil, g.failed(errBusy)
	}
	g.o.Charge(size)
	release = func() { g.bodies.give(size); g.o.Charge(-size) }
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		g.arrived(r)
		return b, release, nil
	}
	release()
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, nil, tooLarge(limit)
	}
	return nil, nil, fail(http.StatusBadRequest, "The request body could not be read", "")
}

func tooLarge(limit int64) *response {
	return fail(http.StatusRequestEntityTooLarge, "The request body is larger than "+strconv.FormatInt(limit, 10)+" bytes", "")
}

// subscriber returns the refusal of a request whose subscriber is invalid or a webhook's, else
// nil. A client that acknowledged in the name of a webhook would make it miss messages.
func (g *Gateway) subscriber(q *request) *response {
	if !validID(q.id) || g.rules.Load().Hook(q.channel, q.id) {
		return invalid("subscriberID")
	}
	return nil
}

func (g *Gateway) subscribe(_ http.ResponseWriter, r *http.Request, q *request) *response {
	if res := g.subscriber(q); res != nil {
		return res
	}
	if err := store.Subscribe(r.Context(), g.o.Store, q.channel, q.id); err != nil {
		return g.failed(err)
	}
	return asJSON(http.StatusOK, map[string]string{"channelID": q.channel, "subscriberID": q.id})
}

func (g *Gateway) unsubscribe(_ http.ResponseWriter, r *http.Request, q *request) *response {
	if res := g.subscriber(q); res != nil {
		return res
	}
	if err := store.Unsubscribe(r.Context(), g.o.Store, q.channel, q.id); err != nil {
		return g.failed(err)
	}
	return asJSON(http.StatusOK, map[string]string{"channelID": q.channel, "subscriberID": q.id})
}

func (g *Gateway) acknowledge(_ http.ResponseWriter, r *http.Request, q *request) *response {
	if res := g.subscriber(q); res != nil {
		return res
	}
	handle := r.URL.Query().Get("ackHandle")
	if handle == "" {
		return fail(http.StatusBadRequest, `Missing "ackHandle" parameter`, codeHandle)
	}
	if err := store.Ack(r.Context(), g.o.Store, q.channel, q.id, handle); err != nil {
		return g.failed(err)
	}
	g.Figures.Acknowledged.Add(1)
	return &response{status: http.StatusNoContent}
}

func (g *Gateway) fetch(w http.ResponseWriter, r *http.Request, q *request) *response {
	if res := g.subscriber(q); res != nil {
		return res
	}
	if accepts(r, "text/event-stream") {
		return g.stream(w, r, q)
	}
	timeout, count, res := g.fetchParameters(r)
	if res != nil {
		return res
	}
	if timeout == 0 || g.closing.Load() {
		b, err := store.Fetch(r.Context(), g.o.Store, q.channel, q.id, count, "")
		return g.fetched(q, b, err)
	}
	if g.o.Full() {
		return g.failed(errBusy)
	}
	h := &held{g: g, request: *q, began: time.Now(), outcome: pollOutcome, signal: make(chan struct{})}
	// net/http's deadline is for requests that do not wait.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + g.o.WriteTime)) // HTTP/1.1 without parking, and h2
	h.start(count, timeout, "")
	out := g.waitOrPark(w, r, h)
	if out == nil {
		return nil
	}
	g.Figures.polled(h)
	return g.fetched(q, out.batch, out.err)
}

// pollOutcome is the response of a poll whose connection is parked.
func pollOutcome(h *held, b store.Batch, err error) ([]byte, bool) {
	res := h.g.fetched(&h.request, b, err)
	h.g.Figures.polled(h)
	h.g.finished(&h.request, res.status, h.began)
	return h.rawResponse(res), true
}

// fetchParameters reads how long a fetch may wait, and how many messages it may return.
func (g *Gateway) fetchParameters(r *http.Request) (timeout time.Duration, count int, res *response) {
	query := r.URL.Query()
	if s := query.Get("timeout"); s != "" {
		var err error
		if timeout, err = time.ParseDuration(s); err != nil || timeout < 0 {
			return 0, 0, invalid("timeout")
		}
		timeout = min(timeout, g.settings.Load().PollLimit)
	}
	count = defaultMax
	if s := query.Get("max"); s != "" {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 1 || n > maxMax {
			return 0, 0, invalid("max")
		}
		count = min(int(n), maxBatch)
	}
	return timeout, count, nil
}

// fetched is the response of a fetch.
func (g *Gateway) fetched(q *request, b store.Batch, err error) *response {
	if err != nil {
		return g.failed(err)
	}
	g.Figures.Delivered.Add(int64(len(b.Messages)))
	size := 256
	for i := range b.Messages {
		size += len(b.Messages[i].Content) + len(b.Messages[i].ID) + 40
	}
	out := make([]byte, 0, size)
	out = append(out, '{')
	if b.Handle != "" {
		out = append(appendText(append(out, `"ackHandle":`...), b.Handle), ',')
	}
	out = appendText(append(out, `"channelID":`...), q.channel)
	out = append(out, `,"messages":[`...)
	for i := range b.Messages {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendMessage(out, &b.Messages[i])
	}
	out = append(out, `],"moreMessages":`...)
	out = strconv.AppendBool(out, b.More)
	return &response{status: http.StatusOK, body: append(out, '}', '\n')}
}

// appendMessage appends a message as JSON. Content published over HTTP is JSON already;
// content that a RESP client published and that is not JSON becomes a JSON string.
func appendMessage(out []byte, m *store.Message) []byte {
	out = appendText(append(out, `{"messageID":`...), m.ID)
	out = append(out, `,"content":`...)
	if json.Valid(m.Content) && utf8.Valid(m.Content) {
		out = append(out, m.Content...)
	} else {
		out = appendText(out, string(m.Content))
	}
	return append(out, '}')
}

// appendText appends a text as a JSON string.
func appendText(out []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // which does not happen to a string
		return append(out, `""`...)
	}
	return append(out, b...)
}

// accepts reports whether the Accept header of a request names a content type.
func accepts(r *http.Request, kind string) bool {
	for _, line := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), kind) && strings.ReplaceAll(params, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}
