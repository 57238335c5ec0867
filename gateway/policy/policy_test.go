package policy

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The keys are made once: that of RSA takes time.
var keys = sync.OnceValue(func() (k struct {
	rsa, weak *rsa.PrivateKey
	ec, ec384 *ecdsa.PrivateKey
	ed        ed25519.PrivateKey
}) {
	k.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	k.weak, _ = rsa.GenerateKey(rand.Reader, 1024)
	k.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	k.ec384, _ = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, k.ed, _ = ed25519.GenerateKey(rand.Reader)
	return k
})

const secret = "a secret of more than sixty-four bytes, so that it serves all HMAC algorithms"

func pemFile(t testing.TB, public any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
}

func file(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func load(t testing.TB, alg, name string) Key {
	t.Helper()
	k, err := LoadKey(alg, name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, m jwt.SigningMethod, key any, claims jwt.MapClaims, header ...string) string {
	t.Helper()
	token := jwt.NewWithClaims(m, claims)
	for i := 0; i+1 < len(header); i += 2 {
		token.Header[header[i]] = header[i+1]
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var now = time.Unix(1_800_000_000, 0)

func verifier(t testing.TB, cfg Config) *Verifier {
	t.Helper()
	if cfg.Issuers == nil {
		cfg.Issuers = []string{"me", "you"}
	}
	v, err := New(cfg, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestClaims(t *testing.T) {
	t.Parallel()
	v := verifier(t, Config{Keys: []Key{load(t, "HS256", file(t, secret))}, Audiences: []string{"a", "b"}, Leeway: time.Minute})
	good := func(change func(jwt.MapClaims)) string {
		c := jwt.MapClaims{"iss": "you", "aud": []string{"x", "b"}, "exp": now.Unix() + 10, "room": "7", "level": 3.5, "admin": true, "jti": "id"}
		change(c)
		return sign(t, jwt.SigningMethodHS256, []byte(secret), c)
	}
	want := map[string][]string{"room": {"6", "7"}, "level": {"3.5"}, "admin": {"true"}}
	for name, c := range map[string]struct {
		change func(jwt.MapClaims)
		ok     bool
	}{
		"good":               {func(jwt.MapClaims) {}, true},
		"one audience":       {func(c jwt.MapClaims) { c["aud"] = "a" }, true},
		"no exp":             {func(c jwt.MapClaims) { delete(c, "exp") }, true},
		"expired in leeway":  {func(c jwt.MapClaims) { c["exp"] = now.Unix() - 59 }, true},
		"expired":            {func(c jwt.MapClaims) { c["exp"] = now.Unix() - 61 }, false},
		"exp is a text":      {func(c jwt.MapClaims) { c["exp"] = "tomorrow" }, false},
		"not yet":            {func(c jwt.MapClaims) { c["nbf"] = now.Unix() + 61 }, false},
		"soon":               {func(c jwt.MapClaims) { c["nbf"] = now.Unix() + 59 }, true},
		"made in the future": {func(c jwt.MapClaims) { c["iat"] = now.Unix() + 61 }, false},
		"other issuer":       {func(c jwt.MapClaims) { c["iss"] = "them" }, false},
		"no issuer":          {func(c jwt.MapClaims) { delete(c, "iss") }, false},
		"issuer is a list":   {func(c jwt.MapClaims) { c["iss"] = []string{"me"} }, false},
		"other audience":     {func(c jwt.MapClaims) { c["aud"] = "c" }, false},
		"no audience":        {func(c jwt.MapClaims) { delete(c, "aud") }, false},
		"other room":         {func(c jwt.MapClaims) { c["room"] = "8" }, false},
		"room is a number":   {func(c jwt.MapClaims) { c["room"] = 7 }, true},
		"no room":            {func(c jwt.MapClaims) { delete(c, "room") }, false},
		"room is a list":     {func(c jwt.MapClaims) { c["room"] = []string{"7"} }, false},
		"admin is a text":    {func(c jwt.MapClaims) { c["admin"] = "true" }, true},
		"jti is a number":    {func(c jwt.MapClaims) { c["jti"] = 5 }, false},
	} {
		id, err := v.Verify(good(c.change), want)
		if (err == nil) != c.ok || c.ok && id != "id" {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
	if _, err := v.Verify("", nil); err == nil {
		t.Error("no token is accepted")
	}
	if _, err := v.Verify(strings.Repeat("a", maxToken+1), nil); err == nil {
		t.Error("a huge token is accepted")
	}
}

func TestAlgorithmsAndConfusion(t *testing.T) {
	t.Parallel()
	k := keys()
	claims := jwt.MapClaims{"iss": "me"}
	rsaFile, ecFile, edFile := pemFile(t, k.rsa.Public()), pemFile(t, k.ec.Public()), pemFile(t, k.ed.Public())
	rsaText, err := os.ReadFile(rsaFile)
	if err != nil {
		t.Fatal(err)
	}
	byRSA := verifier(t, Config{Keys: []Key{load(t, "RS256", rsaFile)}})
	byAll := verifier(t, Config{Keys: []Key{load(t, "PS512", rsaFile), load(t, "ES256", ecFile), load(t, "EdDSA", edFile), load(t, "HS512", file(t, secret+"\n"))}})
	none := sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims)
	for name, c := range map[string]struct {
		v     *Verifier
		token string
		ok    bool
	}{
		"RS256":                             {byRSA, sign(t, jwt.SigningMethodRS256, k.rsa, claims), true},
		"RS512, which is not allowed":       {byRSA, sign(t, jwt.SigningMethodRS512, k.rsa, claims), false},
		"PS256, which is not allowed":       {byRSA, sign(t, jwt.SigningMethodPS256, k.rsa, claims), false},
		"the public key as a secret":        {byRSA, sign(t, jwt.SigningMethodHS256, rsaText, claims), false},
		"none":                              {byRSA, none, false},
		"none for all":                      {byAll, none, false},
		"no signature":                      {byRSA, strings.Join(strings.Split(sign(t, jwt.SigningMethodRS256, k.rsa, claims), ".")[:2], ".") + ".", false},
		"PS512":                             {byAll, sign(t, jwt.SigningMethodPS512, k.rsa, claims), true},
		"RS256 of all":                      {byAll, sign(t, jwt.SigningMethodRS256, k.rsa, claims), false},
		"ES256":                             {byAll, sign(t, jwt.SigningMethodES256, k.ec, claims), true},
		"ES384":                             {byAll, sign(t, jwt.SigningMethodES384, k.ec384, claims), false},
		"EdDSA":                             {byAll, sign(t, jwt.SigningMethodEdDSA, k.ed, claims), true},
		"HS512, the secret without newline": {byAll, sign(t, jwt.SigningMethodHS512, []byte(secret), claims), true},
		"HS512, the secret with newline":    {byAll, sign(t, jwt.SigningMethodHS512, []byte(secret+"\n"), claims), true},
		"HS512, another secret":             {byAll, sign(t, jwt.SigningMethodHS512, []byte(secret+"x"), claims), false},
		"HS256 of all":                      {byAll, sign(t, jwt.SigningMethodHS256, []byte(secret), claims), false},
		"crit":                              {byRSA, sign(t, jwt.SigningMethodRS256, k.rsa, claims, "crit", "b64"), false},
	} {
		if _, err := c.v.Verify(c.token, nil); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysAreRefused(t *testing.T) {
	t.Parallel()
	k := keys()
	private, err := x509.MarshalPKCS8PrivateKey(k.ec)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ alg, file, want string }{
		"none":           {"none", file(t, "x"), "is refused"},
		"unknown":        {"HS1", file(t, "x"), "is unknown"},
		"weak RSA":       {"RS256", pemFile(t, k.weak.Public()), "1024 bits"},
		"short secret":   {"HS512", file(t, secret[:50]), "needs 64 at least"},
		"PEM as secret":  {"HS256", pemFile(t, k.rsa.Public()), "key in PEM"},
		"RSA for ES":     {"ES256", pemFile(t, k.rsa.Public()), "not a valid ECDSA"},
		"ES for RSA":     {"RS256", pemFile(t, k.ec.Public()), "not a valid RSA"},
		"wrong curve":    {"ES256", pemFile(t, k.ec384.Public()), "P-384"},
		"Ed for ES":      {"ES256", pemFile(t, k.ed.Public()), "not a valid ECDSA"},
		"private key":    {"ES256", file(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))), "private key"},
		"empty":          {"HS256", file(t, ""), "is empty"},
		"no PEM":         {"RS256", file(t, "nothing"), "PEM"},
		"missing":        {"RS256", "/nowhere/key", "no such file"},
		"a folder":       {"RS256", t.TempDir(), "regular file"},
		"no certificate": {"RS256", file(t, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "key file"},
	} {
		if _, err := LoadKey(c.alg, c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := New(Config{Issuers: []string{"me"}}, nil); err == nil {
		t.Error("a policy without keys is accepted")
	}
	if _, err := New(Config{Keys: []Key{load(t, "HS256", file(t, secret))}}, nil); err == nil {
		t.Error("a policy without issuers is accepted")
	}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func TestKeySet(t *testing.T) {
	t.Parallel()
	k := keys()
	point, err := k.ec.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	rsaKey := map[string]any{"kty": "RSA", "kid": "r", "n": b64(k.rsa.N.Bytes()), "e": b64(big.NewInt(int64(k.rsa.E)).Bytes())}
	set := map[string]any{"keys": []any{
		rsaKey,
		map[string]any{"kty": "EC", "kid": "e", "crv": "P-256", "use": "sig", "x": b64(point[1:33]), "y": b64(point[33:])},
		map[string]any{"kty": "OKP", "kid": "o", "crv": "Ed25519", "alg": "EdDSA", "x": b64(k.ed.Public().(ed25519.PublicKey))},
		map[string]any{"kty": "oct", "kid": "s", "alg": "HS256", "k": b64([]byte(secret))},
		map[string]any{"kty": "RSA", "use": "enc", "n": "x", "e": "x"},
		map[string]any{"kty": "future"},
	}}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadSet(file(t, string(text)))
	if err != nil || len(loaded) != 4 {
		t.Fatalf("%d keys, %v", len(loaded), err)
	}
	v := verifier(t, Config{Keys: loaded})
	claims := jwt.MapClaims{"iss": "me"}
	for name, c := range map[string]struct {
		token string
		ok    bool
	}{
		"RSA":                        {sign(t, jwt.SigningMethodRS384, k.rsa, claims, "kid", "r"), true},
		"RSA without a name":         {sign(t, jwt.SigningMethodRS256, k.rsa, claims), true},
		"RSA, unknown name":          {sign(t, jwt.SigningMethodRS256, k.rsa, claims, "kid", "other"), true},
		"EC":                         {sign(t, jwt.SigningMethodES256, k.ec, claims, "kid", "e"), true},
		"EC by the name of RSA":      {sign(t, jwt.SigningMethodES256, k.ec, claims, "kid", "r"), true},
		"Ed25519":                    {sign(t, jwt.SigningMethodEdDSA, k.ed, claims, "kid", "o"), true},
		"secret":                     {sign(t, jwt.SigningMethodHS256, []byte(secret), claims, "kid", "s"), true},
		"secret, other alg":          {sign(t, jwt.SigningMethodHS512, []byte(secret), claims, "kid", "s"), false},
		"the RSA number as a secret": {sign(t, jwt.SigningMethodHS256, k.rsa.N.Bytes(), claims, "kid", "r"), false},
	} {
		if _, err := v.Verify(c.token, nil); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"no JSON": "x", "no keys": `{"keys":[]}`, "bad point": `{"keys":[{"kty":"EC","crv":"P-256","x":"` + b64(make([]byte, 32)) + `","y":"` + b64(make([]byte, 32)) + `"}]}`,
		"weak RSA": `{"keys":[{"kty":"RSA","n":"` + b64(k.weak.N.Bytes()) + `","e":"AQAB"}]}`, "secret without alg": `{"keys":[{"kty":"oct","k":"` + b64([]byte(secret)) + `"}]}`,
		"alg of another kind": `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"HS256","x":"` + b64(make([]byte, 32)) + `"}]}`,
	} {
		if _, err := parseSet([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Whatever a client sends, a token is accepted only if the secret has signed it.
func FuzzVerify(f *testing.F) {
	v := verifier(f, Config{Keys: []Key{load(f, "HS256", file(f, secret)), load(f, "ES256", pemFile(f, keys().ec.Public()))}})
	good := sign(f, jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"iss": "me", "jti": "id"})
	f.Add(good)
	f.Add(sign(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"iss": "me"}))
	f.Add("a.b.c")
	f.Add("..")
	f.Add(good + ".x")
	f.Fuzz(func(t *testing.T, token string) {
		id, err := v.Verify(token, nil)
		if err != nil {
			return
		}
		parts := strings.Split(token, ".")
		if len(parts) != 3 || jwt.SigningMethodHS256.Verify(parts[0]+"."+parts[1], decode(parts[2]), []byte(secret)) != nil {
			t.Errorf("accepted %q of %q", id, token)
		}
	})
}

func decode(s string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}
