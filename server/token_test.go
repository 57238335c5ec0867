package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var tokenSecret = strings.Repeat("s", 32)

// guarded writes a channels file whose channels need a token.
func guarded(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "channels.yaml")
	for name, text := range map[string]string{
		"channels.yaml": "channels:\n  - regex: '.+'\n    jwt:\n      iss: me\n      keys: {HS256: secret}\n",
		"secret":        tokenSecret,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// sign makes a token.
func sign(t testing.TB, alg string, claims map[string]any) string {
	t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := part(map[string]string{"alg": alg, "typ": "JWT"}) + "." + part(claims)
	if alg == "none" {
		return text + "."
	}
	mac := hmac.New(sha256.New, []byte(tokenSecret))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
