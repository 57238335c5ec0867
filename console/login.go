package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Logins of browsers. A failed one is delayed, counted and logged by the server, as AUTH on
// its port: this package sends AUTH on a connection of the browser's address.

// login is a logged-in browser.
type login struct {
	user  User
	addr  string
	token string // what requests that change something must bring
	begun time.Time

	mu        sync.Mutex
	used      time.Time
	ended     bool
	stop      chan struct{} // closed by end
	terminals map[string]*terminal
}

const (
	maxIdle   = time.Hour
	maxLogin  = 12 * time.Hour
	maxLogins = 256
	// authTime bounds a log-in; the server may delay the answer of a failed one.
	authTime = 15 * time.Second
)

var (
	errTooMany = errors.New("Too many log-ins have failed from this address. Wait a moment.")  //nolint:staticcheck // people read it
	errNoRoom  = errors.New("Too many people are logged in. Try again later, or log one out.") //nolint:staticcheck // people read it
)

// refusal is an error reply to a log-in.
type refusal string

func (e refusal) Error() string { return string(e) }

// authenticate returns the user for a name and a password.
func (c *Console) authenticate(ctx context.Context, addr, name, password string) (User, error) {
	conn, err := c.o.Host.Dial(addr, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, authTime)
	defer cancel()
	answers, err := newTalk(conn).ask(ctx, []Args{{[]byte("AUTH"), []byte(name), []byte(password)}})
	switch {
	case err != nil && ctx.Err() == nil: // the server closes connections of an address with too many failures
		return nil, errTooMany
	case err != nil:
		return nil, err
	case answers[0].Kind == '-':
		return nil, refusal(answers[0].Text)
	}
	if u := conn.User(); u != nil {
		return u, nil
	}
	return nil, refusal("the user was deleted meanwhile")
}

// credentials are the body of a log-in.
type credentials struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

func (c *Console) logIn(w http.ResponseWriter, r *http.Request) {
	var body credentials
	if err := decode(r, &body); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if body.User == "" {
		body.User = "default"
	}
	user, err := c.authenticate(r.Context(), r.RemoteAddr, body.User, body.Password)
	var no refusal
	switch {
	case errors.As(err, &no):
		fail(w, http.StatusUnauthorized, no.Error())
		return
	case errors.Is(err, errTooMany):
		fail(w, http.StatusTooManyRequests, err.Error())
		return
	case err != nil:
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	l, cookie, err := c.begin(user, r.RemoteAddr)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	c.o.Log.Info("a user has logged in at the console", "user", user.Name(), "addr", r.RemoteAddr)
	c.setCookie(w, r, cookie, int(maxLogin/time.Second))
	answer(w, c.describe(l))
}

// begin makes a login. The cookie is kept as a hash only.
func (c *Console) begin(user User, addr string) (*login, string, error) {
	now := c.o.Now()
	cookie := token()
	l := &login{user: user, addr: addr, token: token(), begun: now, used: now, stop: make(chan struct{}), terminals: make(map[string]*terminal)}
	c.mu.Lock()
	var old []*login
	for key, other := range c.logins {
		if other.over(now) {
			delete(c.logins, key)
			old = append(old, other)
		}
	}
	full := len(c.logins) >= maxLogins
	if !full {
		c.logins[sha256.Sum256([]byte(cookie))] = l
	}
	c.mu.Unlock()
	for _, other := range old {
		other.end()
	}
	if full {
		return nil, "", errNoRoom
	}
	return l, cookie, nil
}

// over reports whether the login is no longer valid.
func (l *login) over(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended || now.Sub(l.used) > maxIdle || now.Sub(l.begun) > maxLogin || !l.user.Active()
}

// touch notes a request.
func (l *login) touch(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = now
}

// end closes what the login has open.
func (l *login) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	close(l.stop)
	for _, t := range l.terminals {
		t.close()
	}
	clear(l.terminals)
}

// cookieName contains the port, since the browsers send cookies to all ports of a host.
func cookieName(r *http.Request) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, port, err := net.SplitHostPort(addr.String()); err == nil {
			return "redoubt-" + port
		}
	}
	return "redoubt"
}

func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: value, Path: c.o.Prefix + "/", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// find returns the login of a request, or nil.
func (c *Console) find(r *http.Request) *login {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	key := sha256.Sum256([]byte(cookie.Value))
	now := c.o.Now()
	c.mu.Lock()
	l := c.logins[key]
	c.mu.Unlock()
	if l == nil {
		return nil
	}
	if l.over(now) {
		c.mu.Lock()
		delete(c.logins, key)
		c.mu.Unlock()
		l.end()
		return nil
	}
	l.touch(now)
	return l
}

// state is what the page asks first: who is logged in, if anybody.
type state struct {
	User     string `json:"user,omitempty"`
	Token    string `json:"token,omitempty"`
	Admin    bool   `json:"admin"`
	ReadOnly bool   `json:"readOnly"`
	// Open: the default user needs no password.
	Open  bool   `json:"open"`
	About *About `json:"about,omitempty"`
}

func (c *Console) describe(l *login) state {
	s := state{Open: c.o.Host.Open(), ReadOnly: c.o.Host.ReadOnly()}
	if l != nil {
		about := c.o.Host.About()
		s.User, s.Token, s.Admin, s.About = l.user.Name(), l.token, l.user.Admin(), &about
	}
	return s
}

func (c *Console) state(w http.ResponseWriter, r *http.Request) { answer(w, c.describe(c.find(r))) }

func (c *Console) logOut(w http.ResponseWriter, r *http.Request, l *login) error {
	c.mu.Lock()
	for key, other := range c.logins {
		if other == l {
			delete(c.logins, key)
		}
	}
	c.mu.Unlock()
	l.end()
	c.setCookie(w, r, "", -1)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// guarded serves logged-in browsers only. What may change something needs the token.
func (c *Console) guarded(h func(http.ResponseWriter, *http.Request, *login) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := c.find(r)
		if l == nil {
			fail(w, http.StatusUnauthorized, "Log in first.")
			return
		}
		if r.Method != http.MethodGet && subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Redoubt-Token")), []byte(l.token)) != 1 {
			fail(w, http.StatusForbidden, "The request lacks the token of the login. Reload the page.")
			return
		}
		if err := h(w, r, l); err != nil {
			var bad badRequest
			status := http.StatusServiceUnavailable
			if errors.As(err, &bad) {
				status = http.StatusBadRequest
			}
			var no forbidden
			if errors.As(err, &no) {
				status = http.StatusForbidden
			}
			fail(w, status, err.Error())
		}
	})
}

// door serves a handler to logged-in browsers, and to programs that bring a user and a
// password by basic authentication.
func (c *Console) door(h http.Handler, may func(User) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var user User
		if l := c.find(r); l != nil {
			user = l.user
		} else if name, password, ok := r.BasicAuth(); ok || c.o.Host.Open() {
			if !ok {
				name = "default"
			}
			u, err := c.authenticate(r.Context(), r.RemoteAddr, name, password)
			if errors.Is(err, errTooMany) {
				fail(w, http.StatusTooManyRequests, err.Error())
				return
			}
			if err == nil {
				user = u
			}
		}
		switch {
		case user == nil:
			w.Header().Set("WWW-Authenticate", `Basic realm="redoubt"`)
			fail(w, http.StatusUnauthorized, "Log in at the console, or send the name and the password of a user.")
		case !may(user):
			fail(w, http.StatusForbidden, fmt.Sprintf("The user %s has not the right to see this.", user.Name()))
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// badRequest is the error of a request that makes no sense.
type badRequest struct{ error }

// forbidden is the error of a user who would need the right to run a command.
type forbidden string

func (e forbidden) Error() string {
	return "The user has not the right to see this: it needs " + string(e) + "."
}

// decode reads the JSON body of a request. The type must be stated: a form of another site
// cannot do that.
func decode(r *http.Request, into any) error {
	if r.Header.Get("Content-Type") != "application/json" {
		return badRequest{errors.New("the body must be application/json")}
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badRequest{fmt.Errorf("the body is not understood: %w", err)}
	}
	if d.More() {
		return badRequest{errors.New("the body has more than one value")}
	}
	return nil
}

// answer sends JSON.
func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, "the answer has no JSON form: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the client has gone, if this fails
}

// fail sends an error.
func fail(w http.ResponseWriter, status int, text string) {
	b, _ := json.Marshal(map[string]string{"error": text}) // a string always has a JSON form
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client has gone, if this fails
}
