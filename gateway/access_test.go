package gateway

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"redoubt/gateway/rules"
)

const secret = "a secret that is more than thirty-two bytes long"

// guarded are rules by which room-N demands tokens for that room, and open is open.
func guarded(t *testing.T) *rules.Set {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Parse(filepath.Join(dir, "f"), []byte(`
- regex: 'room-(?P<id>\d+)'
  jwt: { iss: [me], keys: { HS256: [key] }, claims: { room: '{{.channel.id}}' }, clockSkewLeeway: 1m }
- regex: 'open'
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func token(t *testing.T, room string, change func(jwt.MapClaims)) string {
	t.Helper()
	c := jwt.MapClaims{"iss": "me", "room": room, "exp": time.Now().Unix() + 100}
	if change != nil {
		change(c)
	}
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return "Authorization: Bearer " + s
}

func TestAccess(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Rules = guarded(t) })
	const rejected = `{"code":"dsps.auth.rejected","error":"Unauthorized"}`
	every := [][2]string{{"PUT", "/channel/%s/message/m"}, {"PUT", "/channel/%s/subscription/polling/s"}, {"GET", "/channel/%s/subscription/polling/s"},
		{"DELETE", "/channel/%s/subscription/polling/s/message?ackHandle=x"}, {"DELETE", "/channel/%s/subscription/polling/s"}}
	for _, c := range every {
		for _, header := range []string{"X: y", "Authorization: Bearer x.y.z", "Authorization: Basic abc", token(t, "8", nil),
			token(t, "7", func(c jwt.MapClaims) { c["exp"] = time.Now().Unix() - 100 })} {
			if status, body, _ := f.do(c[0], fmt.Sprintf(c[1], "room-7"), "1", header); status != 403 || body != rejected {
				t.Errorf("%s %s with %s: %d %s", c[0], c[1], header, status, body)
			}
		}
		if status, body, _ := f.do(c[0], fmt.Sprintf(c[1], "room-7"), "1", token(t, "7", nil)); status == 403 {
			t.Errorf("%s %s: %s", c[0], c[1], body)
		}
	}
	s := defaultsForTests()
	s.Detail = true
	f.g.SetSettings(s)
	if _, body, _ := f.do("PUT", "/channel/room-7/message/m", "1"); body != `{"code":"dsps.auth.rejected","error":"Unauthorized","reason":"no token was sent"}` {
		t.Error(body)
	}
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Rules = guarded(t) })
	const path, admin = "/channel/room-7/message/m", "Authorization: Bearer the-admin-token"
	// It has expired, but is accepted by the leeway: so long a revocation must hold.
	exp := time.Now().Unix() - 10
	by := token(t, "7", func(c jwt.MapClaims) { c["jti"], c["exp"] = "id", exp })
	if status, body, _ := f.do("PUT", path, "1", by); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body, _ := f.do("PUT", fmt.Sprintf("/admin/jwt/revoke?jti=id&exp=%d", exp), "", admin); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, _, _ := f.do("PUT", path, "1", by); status != 403 {
		t.Errorf("a revoked token is accepted: %d", status)
	}
	if status, _, _ := f.do("PUT", path, "1", token(t, "7", func(c jwt.MapClaims) { c["jti"] = "other" })); status != 200 {
		t.Errorf("another token is not accepted: %d", status)
	}
	s := defaultsForTests()
	s.AdminToken = ""
	f.g.SetSettings(s)
	for _, header := range []string{admin, "Authorization: Bearer ", "X: y"} {
		if status, _, _ := f.do("PUT", "/admin/jwt/revoke?jti=id&exp=4070912400", "", header); status != 403 {
			t.Errorf("without a token of administration %q may revoke: %d", header, status)
		}
	}
}

func TestAnonymous(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Rules = guarded(t) })
	for i, c := range []struct {
		from   Anonymous
		header string
		status int
	}{
		{FromLoopback, "X: y", 200}, {FromLoopback, "Host: localhost:3099", 200}, {FromLoopback, "Host: [::1]:3099", 200},
		{FromLoopback, "Host: evil.example.com", 403}, {FromLoopback, "X-Forwarded-For: 8.8.8.8", 403}, {FromLoopback, "Forwarded: for=8.8.8.8", 403},
		{FromEverywhere, "X-Forwarded-For: 8.8.8.8", 200}, {FromEverywhere, "Host: example.com", 200}, {FromNowhere, "X: y", 403},
	} {
		s := defaultsForTests()
		s.Anonymous = c.from
		f.g.SetSettings(s)
		if status, body, _ := f.do("PUT", "/channel/open/message/m", "1", c.header); status != c.status {
			t.Errorf("%d: %d %s", i, status, body)
		}
	}
	for addr, want := range map[string]bool{"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "10.0.0.1": false, "8.8.8.8": false, "": false} {
		r := &http.Request{Host: "127.0.0.1"}
		if err := anonymous(r, &request{addr: addr}, &Settings{}); (err == nil) != want {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	const path, origin = "/channel/c/message/m", "Origin: https://app.example.com"
	check := func(allowed []string, header, want string) {
		t.Helper()
		s := defaultsForTests()
		s.Origins = allowed
		f.g.SetSettings(s)
		_, _, res := f.do("PUT", path, "1", header)
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%v, %s: %q, want %q", allowed, header, got, want)
		}
		status, _, res := f.do("OPTIONS", path, "", header, "Access-Control-Request-Method: PUT")
		if want == "" && status != 405 || want != "" && (status != 204 || res.Header.Get("Access-Control-Allow-Methods") != "PUT" || res.Header.Get("Access-Control-Allow-Origin") != want) {
			t.Errorf("%v, %s: preflight %d %v", allowed, header, status, res.Header)
		}
	}
	check(nil, origin, "")
	check([]string{"*"}, origin, "*")
	check([]string{"*"}, "X: y", "")
	check([]string{"https://app.example.com", "https://b.example.com"}, origin, "https://app.example.com")
	check([]string{"https://b.example.com"}, origin, "")
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Settings.Rate = 20 })
	var limited bool
	for range 100 {
		status, _, res := f.do("GET", "/probe/liveness", "")
		if limited = status == 429; limited {
			if res.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			break
		}
	}
	if !limited {
		t.Error("a hundred requests at once passed")
	}
	var r rates
	now := time.Unix(1000, 0)
	for i := range 3 * maxBuckets {
		r.take(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), 5, now)
	}
	if len(r.buckets) > maxBuckets {
		t.Errorf("%d addresses are remembered", len(r.buckets))
	}
	for i := range 10 {
		if got := r.take("2001:db8::1", 5, now); got != (i < 5) {
			t.Errorf("%d: %v", i, got)
		}
	}
	if r.take("2001:db8::2", 5, now) {
		t.Error("another address of the network may")
	}
	if !r.take("2001:db8::1", 5, now.Add(time.Second/4)) {
		t.Error("a quarter of a second later it may not")
	}
}

// Nobody reads, acknowledges or unsubscribes over HTTP in the name of a webhook.
func TestWebhooksAreNotForClients(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) {
		o.Rules = withRules(t, "channels:\n  - regex: 'a.*'\n    webhooks: [{name: audit, url: 'https://example.com/'}]\n  - regex: 'b.*'\n")
	})
	for _, ask := range [][2]string{{"PUT", ""}, {"GET", ""}, {"DELETE", ""}, {"DELETE", "/message?ackHandle=abc.webhook-audit.1"}} {
		const id, refused = "/subscription/polling/webhook-audit", `{"error":"Invalid \"subscriberID\" parameter"}`
		if status, text, _ := f.do(ask[0], "/channel/abc"+id+ask[1], ""); status != 400 || text != refused {
			t.Errorf("%s: %d %s", ask, status, text)
		}
		if _, text, _ := f.do(ask[0], "/channel/bcd"+id+ask[1], ""); text == refused { // there it is a name as any other
			t.Errorf("%s of another channel: %s", ask, text)
		}
	}
}
