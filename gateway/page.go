package gateway

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"time"
)

// pages is the endpoint of Pages in metrics and in the access log.
var pages = &endpoint{name: "console"}

// page serves a request that is not about channels.
func (g *Gateway) page(w http.ResponseWriter, r *http.Request, q *request, began time.Time) {
	q.endpoint = pages
	r.Body = &noted{r.Body, func() { g.arrived(r) }}
	watched := &statusWriter{ResponseWriter: w}
	g.o.Pages.ServeHTTP(watched, r)
	g.finished(q, cmp.Or(watched.status, http.StatusOK), began)
}

// noted is a body whose end is noted.
type noted struct {
	io.ReadCloser
	end func()
}

func (b *noted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.end()
	}
	return n, err
}

// statusWriter notes the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
