package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const secret = "a secret that is more than thirty-two bytes long"

// folder has the files that the texts below name.
func folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"secret": secret, "short": "short"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const whole = `
# of another server
http:
  port: 3000
channels:
  - regex: 'chat-room-(?P<id>\d+)'
    expire: 15m
    jwt:
      iss: [ 'https://issuer.example.com/' ]
      aud: [ 'https://my-service.example.com/' ]
      keys:
        HS256:
          - secret
      claims:
        chatroom: '{{.channel.id}}'
        role: [ admin, user ]
      clockSkewLeeway: 1m
    webhooks:
      - method: post
        url: 'https://example.com/you-got-message/room/{{.channel.id}}'
        timeout: 10s
        connection: { max: 8, maxIdleTime: 1m }
        retry: { count: 2, interval: 1s, intervalMultiplier: 2, intervalJitter: 100ms, force: true }
        headers:
          X-Chat-Room-ID: '{{.channel.id}}'
        maxRedirects: 0
        secretFile: secret
        deadLetter: 'dead-{{.channel.id}}'
  - regex: 'chat-.+'
    expire: 1h
    webhooks:
      - name: audit
        url: https://example.com/audit
  - regex: 'dead-.+'
`

func TestFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(folder(t), "channels.yaml")
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "channels.yaml:3: http is ignored") {
		t.Errorf("warnings: %q", s.Warnings)
	}
	for name, want := range map[string]bool{"chat-room-7": true, "chat-x": true, "dead-1": true, "chat": false, "xchat-room-7": false, "other": false} {
		if s.Allowed(name) != want {
			t.Errorf("%s is allowed: %v", name, !want)
		}
	}
	if !s.Guarded("chat-room-7") || s.Guarded("chat-x") {
		t.Error("the wrong channels need tokens")
	}
	token := func(room string) string {
		signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "https://issuer.example.com/", "aud": "https://my-service.example.com/",
			"chatroom": room, "role": "user", "jti": "j"}).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	if id, err := s.Verify("chat-room-7", token("7")); err != nil || id != "j" {
		t.Errorf("%q, %v", id, err)
	}
	if _, err := s.Verify("chat-room-8", token("7")); err == nil {
		t.Error("a token of another room is accepted")
	}
	if s.Leeway() != time.Minute {
		t.Errorf("leeway %v", s.Leeway())
	}
	p := s.Patterns()
	if len(p) != 3 || p[0].Expire != 15*time.Minute || p[1].Expire != time.Hour || p[2].Expire != DefaultExpire || p[1].Subscribers[0] != "webhook-audit" ||
		!strings.HasPrefix(p[0].Subscribers[0], "webhook-") || len(p[0].Subscribers[0]) > 63 || !p[0].Regex.MatchString("chat-room-1") || p[0].Regex.MatchString("chat-room-1x") {
		t.Errorf("%+v", p)
	}
	hooks, err := s.Hooks("chat-room-7")
	if err != nil || len(hooks) != 2 {
		t.Fatalf("%v, %v", hooks, err)
	}
	h := hooks[0]
	if h.URL != "https://example.com/you-got-message/room/7" || h.Method != "POST" || h.Headers["X-Chat-Room-ID"] != "7" || h.DeadLetter != "dead-7" ||
		h.Timeout != 10*time.Second || h.MaxConns != 8 || h.IdleTime != time.Minute || h.MaxRedirects != 0 || string(h.Secret) != secret || !h.Retry.Force ||
		h.Retry.Count != 2 || h.Retry.Interval != time.Second || h.Retry.Multiplier != 2 || h.Retry.Jitter != 100*time.Millisecond {
		t.Errorf("%+v %+v", h, h.Target)
	}
	if h := hooks[1]; h.Method != "PUT" || h.Timeout != 30*time.Second || h.Retry.Count != 3 {
		t.Errorf("defaults: %+v", h.Target)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	for text, want := range map[string]string{
		"channels: 5":                                                      "f:1: channels must be a list",
		"channels:\n  - 5":                                                 "f:2: a rule of channels must be a mapping",
		"channels:\n  - expire: 1h":                                        "f:2: regex is missing",
		"channels:\n  - regex: '('":                                        "f:2: error parsing regexp",
		"channels:\n  - regex: 'a)(b'":                                     "f:2: error parsing regexp",
		"channels:\n  - regex: a\n    expire: 5":                           "f:3: expire must be a duration",
		"channels:\n  - regex: a\n    expire: -5s":                         "f:3: expire must be a duration",
		"channels:\n  - regex: a\n    expires: 5s":                         `f:3: "expires" is unknown in a rule of channels: it may have regex, expire, jwt, webhooks`,
		"channels:\n  - regex: a\n    regex: b":                            "f:3: regex is there twice",
		"chanels: []":                                                      `f:1: "chanels" is unknown in the file`,
		"channels:\n\t- regex: a":                                          "f: line 2: found character that cannot start any token",
		"channels:\n - regex: a\n   jwt: {}":                               "f:3: jwt: iss is empty",
		"channels:\n - regex: a\n   jwt: { iss: [a] }":                     "f:3: jwt: keys is empty",
		"channels:\n - regex: a\n   jwt: { iss: [a], keys: { none: [] } }": "f:3: the algorithm none is refused",
		"channels:\n - regex: a\n   jwt:\n    iss: [a]\n    keys: { HS256: [short] }":                                        "f:5: key file " + dir + "/short for HS256: it has 5 bytes",
		"channels:\n - regex: a\n   jwt:\n    iss: [a]\n    keys: { HS256: [] }":                                             "f:5: HS256 has no key file",
		"channels:\n - regex: a\n   jwt:\n    iss: [a]\n    jwks: nothing":                                                   "f:5: key file: stat " + dir + "/nothing",
		"channels:\n - regex: a\n   jwt:\n    iss: [a]\n    keys: { HS256: [secret] }\n    claims: { a: [] }":                "f:6: the claim a has no value",
		"channels:\n - regex: a\n   jwt:\n    iss: [a]\n    keys: { HS256: [secret] }\n    claims: { a: '{{.channel.id}}' }": "f:2: the template",
		"channels:\n - regex: a\n   jwt:\n    iss: [a]\n    keys: { HS256: [secret] }\n    claims: { a: '{{' }":              "f:6: claims",
		"channels:\n - regex: a\n   webhooks:\n    - {}":                                                                     "f:4: url is missing",
		"channels:\n - regex: a\n   webhooks:\n    - url: ftp://x/":                                                          "f:4: url must begin with",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://me:pass@x/":                                                 "f:4: url must not contain a user",
		"channels:\n - regex: a\n   webhooks:\n    - url: http:///x":                                                         "f:4: url has no host",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n      method: GET":                                      "f:5: method must be PUT or POST",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n      retry: { count: -1 }":                             "f:5: count must be a whole number from 0",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n      retry: { count: 1.5 }":                            "f:5: count must be a whole number from 0",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n      retry: { intervalMultiplier: .nan }":              "f:5: intervalMultiplier must be",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n      headers: { 'a b': c }":                            "f:5: \"a b\" is no name",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n      headers: { a: \"b\\nc\" }":                        "f:5: the header a has more than one line",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n      secretFile: short":                                "f:5: secretFile: the secret has 5 bytes",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n      name: A":                                          "f:5: name must have",
		"channels:\n - regex: a\n   webhooks:\n    - url: http://x/\n    - url: http://x/":                                   "f:5: the webhook of line 4 has the same name",
	} {
		_, err := Parse(filepath.Join(dir, "f"), []byte(text), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Load(filepath.Join(dir, "missing"), nil); err == nil {
		t.Error("a file that is not there is loaded")
	}
	for _, text := range []string{"", "channels:", "channels: []", "[]", "# nothing"} {
		if s, err := Parse("f", []byte(text), nil); err != nil || !s.Empty() || !s.Allowed("any") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestShortExpireIsWarnedOf(t *testing.T) {
	t.Parallel()
	s, err := Parse("f", []byte("- regex: a\n  expire: 1s\n  webhooks:\n  - url: http://x/\n"), nil)
	if err != nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "f:4: expire 1s of the rule is short") {
		t.Fatalf("%v %v", err, s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("a: &a [*a]")
	f.Add("channels: &a\n - regex: b\n   webhooks: *a")
	f.Add("- regex: '{{'\n  webhooks: [{url: 'http://x/{{range .}}'}]")
	dir := folder(f)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(filepath.Join(dir, "f"), []byte(text), nil)
		if err != nil {
			return
		}
		for _, name := range []string{"a", "chat-room-7"} { // a file that is accepted can be used
			s.Allowed(name)
			_, _ = s.Verify(name, "a.b.c")
			_, _ = s.Hooks(name)
		}
	})
}
