package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"redoubt/gateway/store"
)

// response is what a client gets.
type response struct {
	status int
	kind   string // the type of the body; "": application/json
	body   []byte
	retry  int // Retry-After in seconds; 0: none
	allow  string
}

// headers adds the header lines that depend on the response.
func (r *response) headers(h http.Header) {
	if r.status != http.StatusNoContent {
		kind := r.kind
		if kind == "" {
			kind = "application/json"
		}
		h.Set("Content-Type", kind)
	}
	if r.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(r.retry))
	}
	if r.allow != "" {
		h.Set("Allow", r.allow)
	}
}

// defaults are the header lines of every response.
var defaults = [][2]string{
	{"Cache-Control", "no-cache, no-store, max-age=0, must-revalidate"}, {"Expires", "0"}, {"Pragma", "no-cache"},
	{"X-Content-Type-Options", "nosniff"}, {"X-Frame-Options", "deny"},
}

// headers adds the header lines that depend on the request.
func (q *request) headers(h http.Header) {
	for _, line := range defaults {
		h.Set(line[0], line[1])
	}
	if q.origin != "" {
		h.Set("Access-Control-Allow-Origin", q.origin)
		h.Set("Access-Control-Expose-Headers", "Retry-After")
	}
	if q.varies {
		h.Set("Vary", "Origin")
	}
}

// asJSON returns a response with a JSON body.
func asJSON(status int, v any) *response {
	b, err := json.Marshal(v)
	if err != nil { // the values are made of texts and numbers
		return &response{status: http.StatusInternalServerError}
	}
	return &response{status: status, body: append(b, '\n')}
}

// failure is the body of an error.
type failure struct {
	Code   string `json:"code,omitempty"`
	Error  string `json:"error"`
	Reason string `json:"reason,omitempty"`
}

func fail(status int, text, code string) *response {
	return asJSON(status, failure{Code: code, Error: text})
}

// The error codes that clients know.
const (
	codeRejected       = "dsps.auth.rejected"
	codeInvalidChannel = "dsps.storage.invalid-channel"
	codeNoSubscription = "dsps.storage.subscription-not-found"
	codeHandle         = "dsps.storage.ack-handle-malformed"
	// codeUnavailable is an addition of this server: the same request may succeed later.
	codeUnavailable = "redoubt.unavailable"
)

// invalid returns the response to a parameter without a valid value.
func invalid(name string) *response {
	return fail(http.StatusBadRequest, `Invalid "`+name+`" parameter`, "")
}

// errBusy is returned when the bounds on waiting requests or on their memory are reached.
var errBusy = errors.New("too many requests wait, or clients hold as much memory as they may")

// failed returns the response to an error of the store. An unexpected error is logged and
// not shown to the client.
func (g *Gateway) failed(err error) *response {
	var e store.Error
	switch {
	case errors.Is(err, store.ErrNoSubscriber):
		return fail(http.StatusNotFound, codeNoSubscription, codeNoSubscription)
	case errors.Is(err, store.ErrHandle):
		return fail(http.StatusBadRequest, codeHandle, codeHandle)
	case errors.Is(err, errBusy):
		res := fail(http.StatusServiceUnavailable, errBusy.Error(), codeUnavailable)
		res.retry = 1
		return res
	case errors.As(err, &e):
		return g.failedReply(e)
	}
	g.o.Log.Error("a request failed", "err", err)
	return fail(http.StatusInternalServerError, "Internal server error", "")
}

func (g *Gateway) failedReply(e store.Error) *response {
	switch e.Code() {
	case "LOADING", "TRYAGAIN", "OOM", "MISCONF", "NOREPLICAS", "READONLY", "UNAVAILABLE", "UNKNOWN":
		text := string(e)
		if e.Code() == "MISCONF" && !g.settings.Load().Detail {
			text = "MISCONF the log of the server says why" // the error names files, which are no client's business
		}
		res := fail(http.StatusServiceUnavailable, "The database cannot serve this now: "+text, codeUnavailable)
		res.retry = 1
		return res
	case "WRONGTYPE":
		return fail(http.StatusConflict, "The database has a key of this name that is no channel", "")
	}
	g.o.Log.Error("a request failed", "err", string(e))
	return fail(http.StatusInternalServerError, "Internal server error", "")
}

// send writes a response through net/http.
func (q *request) send(w http.ResponseWriter, res *response) {
	q.headers(w.Header())
	res.headers(w.Header())
	if q.close {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(res.status)
	_, _ = w.Write(res.body) // a client that has left
}

// bearer returns the bearer token of a request, "" if there is none.
func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
