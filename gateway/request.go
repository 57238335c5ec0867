package gateway

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// request is what the gateway knows of a request.
type request struct {
	endpoint *endpoint
	channel  string
	id       string // of the message or subscriber
	method   string
	addr     string // of the client, without the port
	origin   string // the value of Access-Control-Allow-Origin; "": none
	varies   bool   // the response depends on the Origin header
	close    bool   // the connection is closed after the response
	head     []byte // the head of a stream, sent before it waits
}

// endpoint is a path with a method.
type endpoint struct {
	name   string // for metrics
	method string
	path   string // with {channelID}, {messageID}, {subscriberID}
	run    func(*Gateway, http.ResponseWriter, *http.Request, *request) *response
}

// endpoints are all endpoints. A test compares the OpenAPI document with this list.
var endpoints = []*endpoint{
	{"publish", http.MethodPut, "/channel/{channelID}/message/{messageID}", (*Gateway).publish},
	{"subscribe", http.MethodPut, "/channel/{channelID}/subscription/polling/{subscriberID}", (*Gateway).subscribe},
	{"unsubscribe", http.MethodDelete, "/channel/{channelID}/subscription/polling/{subscriberID}", (*Gateway).unsubscribe},
	{"fetch", http.MethodGet, "/channel/{channelID}/subscription/polling/{subscriberID}", (*Gateway).fetch},
	{"acknowledge", http.MethodDelete, "/channel/{channelID}/subscription/polling/{subscriberID}/message", (*Gateway).acknowledge},
	{"liveness", http.MethodGet, "/probe/liveness", (*Gateway).liveness},
	{"readiness", http.MethodGet, "/probe/readiness", (*Gateway).readiness},
	{"revoke", http.MethodPut, "/admin/jwt/revoke", (*Gateway).revoke},
	{"loglevel", http.MethodPut, "/admin/log/level", (*Gateway).logLevel},
	{"openapi", http.MethodGet, "/openapi.json", (*Gateway).openAPI},
}

// match returns the channel and the identifier in a path that the endpoint matches.
func (e *endpoint) match(path string) (channel, id string, ok bool) {
	want := e.path
	for want != "" {
		var a, b string
		a, want, _ = strings.Cut(want[1:], "/")
		if path == "" || path[0] != '/' {
			return "", "", false
		}
		b, path, _ = cutKeep(path[1:])
		switch {
		case a == "{channelID}":
			channel = b
		case a[0] == '{':
			id = b
		case a != b:
			return "", "", false
		}
		if want != "" {
			want = "/" + want
		}
	}
	return channel, id, path == ""
}

// cutKeep cuts a string before its first slash.
func cutKeep(s string) (before, after string, found bool) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i:], true
	}
	return s, "", false
}

// validID reports whether a name is valid for a channel, a subscriber or a message.
func validID(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (i == 0 || c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	if r.ContentLength == 0 {
		g.arrived(r)
	}
	q := &request{method: r.Method, close: r.Close || !r.ProtoAtLeast(1, 1)}
	q.addr, _, _ = net.SplitHostPort(r.RemoteAddr)
	if g.o.Pages != nil && g.o.Pages.Serves(r.URL.Path) {
		g.page(w, r, q, began)
		return
	}
	res := g.serve(w, r, q)
	if res == nil { // the connection was parked, or the response is written
		return
	}
	if res.status >= 400 && r.ContentLength != 0 {
		q.close = true // what is left of the body is not read
	}
	status := res.status
	if res.retry > 0 && r.Method == http.MethodGet && accepts(r, "text/event-stream") {
		res, q.close = res.asStream(), true
	}
	q.send(w, res)
	g.finished(q, status, began)
}

// finished counts a request and logs it.
func (g *Gateway) finished(q *request, status int, began time.Time) {
	took := time.Since(began)
	name := ""
	if q.endpoint != nil {
		name = q.endpoint.name
	}
	g.Figures.count(name, status, took)
	if !g.settings.Load().AccessLog {
		return
	}
	g.o.Access.Info("HTTP request", "method", q.method, "endpoint", name, "channel", q.channel, "id", q.id, "addr", q.addr, "status", status, "took", took)
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, q *request) *response {
	s := g.settings.Load()
	q.cors(r, s)
	if s.Rate > 0 && !g.rates.take(q.addr, s.Rate, time.Now()) {
		g.Figures.Limited.Add(1)
		res := fail(http.StatusTooManyRequests, "Too many requests from this address: see http-rate-limit", "")
		res.retry = 1
		return res
	}
	path, ok := strings.CutPrefix(r.URL.Path, g.o.Prefix)
	var allow []string
	for _, e := range endpoints {
		channel, id, match := e.match(path)
		if !match || !ok {
			continue
		}
		if allow = append(allow, e.method); e.method == r.Method {
			q.endpoint, q.channel, q.id = e, channel, id
		}
	}
	switch {
	case len(allow) == 0:
		return fail(http.StatusNotFound, "There is nothing at this path", "")
	case r.Method == http.MethodOptions && q.origin != "":
		return q.preflight(w, allow)
	case q.endpoint == nil:
		res := fail(http.StatusMethodNotAllowed, "This path does not take this method", "")
		res.allow = strings.Join(allow, ", ")
		return res
	}
	if q.channel != "" || strings.HasPrefix(q.endpoint.path, "/channel/") {
		if res := g.admit(r, q, s); res != nil {
			return res
		}
	}
	return q.endpoint.run(g, w, r, q)
}

// cors sets what a response tells a browser about the origin of its request.
func (q *request) cors(r *http.Request, s *Settings) {
	origin := r.Header.Get("Origin")
	switch {
	case slices.Contains(s.Origins, "*"):
		if origin != "" {
			q.origin = "*"
		}
	case len(s.Origins) > 0:
		if q.varies = true; origin != "" && slices.Contains(s.Origins, origin) {
			q.origin = origin
		}
	}
}

// preflight answers a CORS preflight request.
func (q *request) preflight(w http.ResponseWriter, allow []string) *response {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", strings.Join(allow, ", "))
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID, Cache-Control")
	h.Set("Access-Control-Max-Age", "600")
	return &response{status: http.StatusNoContent}
}

// admit returns the refusal of a request that may not use its channel, else nil.
func (g *Gateway) admit(r *http.Request, q *request, s *Settings) *response {
	if !validID(q.channel) {
		return invalid("channelID")
	}
	rules := g.rules.Load()
	if !rules.Allowed(q.channel) {
		return fail(http.StatusBadRequest, `Invalid "channelID" parameter`, codeInvalidChannel)
	}
	err := g.authorize(r, q, s)
	if err == nil {
		return nil
	}
	var e *rejection
	if !errors.As(err, &e) {
		return g.failed(err)
	}
	g.Figures.Rejected.Add(1)
	g.o.Log.Info("an HTTP request was rejected", "addr", q.addr, "channel", q.channel, "err", e.reason)
	body := failure{Code: codeRejected, Error: "Unauthorized"}
	if s.Detail {
		body.Reason = e.reason.Error()
	}
	return asJSON(http.StatusForbidden, body)
}

// rejection is the error of a client that may not use a channel.
type rejection struct{ reason error }

func (e *rejection) Error() string { return e.reason.Error() }

// authorize checks the token of a request, or its source address if the channel demands no
// token.
func (g *Gateway) authorize(r *http.Request, q *request, s *Settings) error {
	rules := g.rules.Load()
	if !rules.Guarded(q.channel) {
		if reason := anonymous(r, q, s); reason != nil {
			return &rejection{reason}
		}
		return nil
	}
	id, err := rules.Verify(q.channel, bearer(r))
	if err != nil {
		return &rejection{err}
	}
	if id == "" {
		return nil
	}
	revoked, err := g.revoked(r.Context(), id)
	if err == nil && revoked {
		err = &rejection{errors.New("the token was revoked")}
	}
	return err
}

// anonymous returns why a channel without an access rule may not be used from the source of
// the request, or nil. A request that a local proxy forwarded does not count as local. Nor
// does one of a web page whose host name was pointed at this machine (DNS rebinding): its
// browser sends that name.
func anonymous(r *http.Request, q *request, s *Settings) error {
	switch {
	case s.Anonymous == FromEverywhere:
		return nil
	case s.Anonymous == FromNowhere:
		return errors.New("the channel has no rule with a jwt block, and http-anonymous is no")
	}
	addr, err := netip.ParseAddr(q.addr)
	if err != nil || !addr.Unmap().IsLoopback() {
		return errors.New("the channel has no rule with a jwt block, and the client is not on this machine: see http-anonymous")
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return errors.New("the channel has no rule with a jwt block, and a proxy has passed on the request: see http-anonymous")
		}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		return errors.New("the channel has no rule with a jwt block, and the Host of the request is no address: see http-anonymous")
	}
	return nil
}
