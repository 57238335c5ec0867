package gateway

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"redoubt/gateway/store"
)

// Requests that wait: long polls and streams of events.
//
// A held request has a fetch under way in the store. Over HTTP/1.1 on Linux its connection
// is taken out of net/http and parked: only the record held remains of the request. When the
// fetch has an outcome, a goroutine writes the response without net/http: first as much as
// the kernel takes at once, then the rest with a deadline. Then the connection is parked
// again until its client sends the next request, and given back to net/http.
//
// Elsewhere the goroutine of the request waits for the outcome.

// held is a waiting request.
type held struct {
	g       *Gateway
	request // what the response depends on
	began   time.Time
	// outcome makes the response of a fetch. last reports that the request ends with it.
	outcome func(h *held, b store.Batch, err error) (out []byte, last bool)
	// again, if the response was not the last one, starts the next fetch.
	again func(h *held)

	mu     sync.Mutex
	number int    // of the fetch
	cancel func() // of the fetch; nil until the store has said how
	over   bool   // an outcome was taken, or the request was abandoned
	ready  *ready // an outcome that came before the connection was parked
	// signal is closed when ready is set, for a goroutine that waits.
	signal chan struct{}
	conn   net.Conn // parked; nil: a goroutine waits
	place  *place
}

// ready is the outcome of a fetch.
type ready struct {
	batch store.Batch
	err   error
}

// start starts a fetch.
func (h *held) start(count int, block time.Duration, after string) {
	h.mu.Lock()
	h.number++
	number := h.number
	h.mu.Unlock()
	cancel := store.AwaitFetch(h.g.o.Store, h.channel, h.id, count, block, after, func(b store.Batch, err error) { h.take(number, ready{b, err}) })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.ready != nil || h.number != number { // the outcome came, or the client left meanwhile
		cancel()
		return
	}
	h.cancel = cancel
}

// take accepts the outcome of a fetch, without waiting.
func (h *held) take(number int, r ready) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.ready != nil || h.number != number {
		return
	}
	h.cancel = nil
	if h.conn == nil {
		h.ready = &r
		close(h.signal)
		return
	}
	h.answerLocked(r)
}

// answerLocked starts a goroutine that writes the response to a parked connection.
func (h *held) answerLocked(r ready) {
	if h.over = true; h.place != nil && !h.g.parking.leave(h.place) {
		h.closeLocked() // the client has left
		return
	}
	h.place = nil
	h.g.writing.Add(1)
	go h.respond(r)
}

// closeLocked forgets the request and closes its connection.
func (h *held) closeLocked() {
	h.over = true
	h.g.forget(h)
	h.g.Figures.left(h)
	h.conn.Close()
}

// respond writes the response.
func (h *held) respond(r ready) {
	defer h.g.writing.Done()
	out, last := h.outcome(h, r.batch, r.err)
	h.g.o.Charge(int64(len(out)))
	written := h.g.write(h.conn, out)
	h.g.o.Charge(-int64(len(out)))
	if !written {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.closeLocked()
		return
	}
	if !last && !h.g.closing.Load() {
		h.resume()
		return
	}
	h.g.forget(h)
	if !last || h.close || h.g.closing.Load() {
		h.conn.Close()
		return
	}
	h.g.idle(h.conn)
}

// resume parks the connection of a stream again and starts the next fetch.
func (h *held) resume() {
	h.mu.Lock()
	place, err := h.g.parking.watch(h.conn, false, h.hangUp)
	if err != nil {
		h.closeLocked()
		h.mu.Unlock()
		return
	}
	h.place, h.over, h.ready = place, false, nil
	h.mu.Unlock()
	h.again(h)
}

// hangUp is called when the client has closed the connection of a request that waits.
func (h *held) hangUp(bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	if h.cancel != nil {
		h.cancel()
	}
	h.closeLocked()
}

// end answers a parked request with an empty result, since the server shuts down.
func (h *held) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.ready != nil || h.conn == nil {
		return
	}
	if h.cancel != nil {
		h.cancel()
	}
	h.answerLocked(ready{})
}

// waitOrPark waits for the fetch that a request has started. It returns the outcome, or nil if the
// connection was parked: respond then writes the response when the outcome comes.
func (g *Gateway) waitOrPark(w http.ResponseWriter, r *http.Request, h *held) (out *ready) {
	if canPark && r.ProtoMajor == 1 {
		h.mu.Lock()
		if h.ready != nil {
			h.mu.Unlock()
			return h.ready
		}
		parked := g.park(w, h)
		h.mu.Unlock()
		if parked {
			return nil
		}
	}
	return g.wait(r, h)
}

// wait waits on the goroutine of the request for the outcome of its fetch.
func (g *Gateway) wait(r *http.Request, h *held) *ready {
	if g.waiting.Add(1) > maxWaiting {
		g.waiting.Add(-1)
		h.abandon()
		return &ready{err: errBusy}
	}
	defer g.waiting.Add(-1)
	g.o.Charge(waitMemory)
	defer g.o.Charge(-waitMemory)
	select {
	case <-h.signal:
		return h.ready
	case <-r.Context().Done():
		h.abandon()
		return &ready{err: r.Context().Err()}
	case <-g.done:
		h.abandon()
		return &ready{}
	}
}

// abandon ends the fetch of a request whose goroutine waits.
func (h *held) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over = true; h.cancel != nil {
		h.cancel()
	}
}

// park takes the connection of a request out of net/http. h.mu is held.
func (g *Gateway) park(w http.ResponseWriter, h *held) bool {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return false
	}
	conn, buf, err := hijacker.Hijack()
	if err != nil {
		return false
	}
	if err := conn.SetDeadline(time.Time{}); err != nil { // the connection is broken
		h.conn = conn
		h.closeLocked()
		return true
	}
	if buf.Reader.Buffered() > 0 { // the client has sent its next request already and must send it again
		h.close = true
	}
	h.conn = conn
	if h.head != nil && !g.write(conn, h.head) {
		h.closeLocked()
		return true
	}
	h.head = nil
	g.mu.Lock()
	g.held[h] = struct{}{}
	g.mu.Unlock()
	g.o.Charge(heldMemory)
	if h.place, err = g.parking.watch(conn, false, h.hangUp); err != nil {
		h.closeLocked()
		return true
	}
	if g.closing.Load() { // Shutdown may have looked before
		go h.end()
	}
	return true
}

// forget removes a request from the waiting ones.
func (g *Gateway) forget(h *held) {
	g.mu.Lock()
	_, was := g.held[h]
	delete(g.held, h)
	g.mu.Unlock()
	if was {
		g.o.Charge(-heldMemory)
	}
}

// Waiting returns how many requests wait.
func (g *Gateway) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held) + int(g.waiting.Load())
}

// write writes to a connection that net/http does not own. It returns false if the write
// failed, or if too many clients do not read.
func (g *Gateway) write(c net.Conn, out []byte) bool {
	if out = out[tryWrite(c, out):]; len(out) == 0 {
		return true
	}
	defer g.slow.Add(-1)
	if g.slow.Add(1) > maxSlow {
		return false
	}
	if c.SetWriteDeadline(time.Now().Add(g.o.WriteTime)) != nil {
		return false
	}
	if _, err := c.Write(out); err != nil {
		return false
	}
	return c.SetWriteDeadline(time.Time{}) == nil
}

// idle parks a connection until its client sends the next request.
func (g *Gateway) idle(c net.Conn) {
	_, err := g.parking.watch(c, true, func(alive bool) {
		if alive {
			g.ln.give(c)
		} else {
			c.Close()
		}
	})
	if err != nil {
		c.Close()
	}
}

// rawResponse returns the bytes of a whole response, for a connection that net/http does not own.
func (h *held) rawResponse(res *response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", res.status, http.StatusText(res.status))
	header := make(http.Header)
	h.headers(header)
	res.headers(header)
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if res.status != http.StatusNoContent {
		header.Set("Content-Length", fmt.Sprint(len(res.body)))
	}
	if h.close || h.g.closing.Load() {
		header.Set("Connection", "close")
	}
	_ = header.Write(&b) // a buffer takes everything
	b.WriteString("\r\n")
	b.Write(res.body)
	return b.Bytes()
}
