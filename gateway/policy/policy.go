// Package policy verifies the bearer tokens of channels: JSON Web Tokens (RFC 7519)
// that an issuer has signed.
//
// A Verifier is immutable and safe for concurrent use. It accepts a token only if one
// of its own keys, which was loaded for exactly the algorithm that the token names, has
// signed it: the token cannot choose a key's algorithm. The algorithm none, keys that serve
// another algorithm, RSA keys below 2048 bits and HMAC secrets shorter than their hash
// are refused when the keys are loaded.
package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// DefaultLeeway is by how much the clocks of issuer and server may differ.
const DefaultLeeway = 5 * time.Minute

// maxToken bounds the size of a token in bytes: beyond it nothing is parsed.
const maxToken = 16 << 10

// maxTried bounds how many keys are tried for one token.
const maxTried = 16

// Config says which tokens are accepted.
type Config struct {
	// Issuers must contain the token's iss claim. One at least is needed.
	Issuers []string
	// Audiences, if any, must have one in common with the token's aud claim.
	Audiences []string
	// Keys verify signatures. One at least is needed.
	Keys []Key
	// Leeway is the tolerance for exp, nbf and iat.
	Leeway time.Duration
}

// Verifier verifies tokens.
type Verifier struct {
	cfg    Config
	algs   []string
	parser *jwt.Parser
}

// New makes a Verifier. now is the clock by which tokens expire; nil is time.Now.
func New(cfg Config, now func() time.Time) (*Verifier, error) {
	if len(cfg.Issuers) == 0 {
		return nil, errors.New("iss is empty: list the issuers whose tokens are accepted")
	}
	if len(cfg.Keys) == 0 {
		return nil, errors.New("keys is empty: name an algorithm and the files of its keys")
	}
	if cfg.Leeway < 0 {
		return nil, errors.New("clockSkewLeeway is negative: give a duration such as 5m")
	}
	if now == nil {
		now = time.Now
	}
	v := &Verifier{cfg: cfg}
	for _, k := range cfg.Keys {
		for _, alg := range k.algs {
			if !slices.Contains(v.algs, alg) {
				v.algs = append(v.algs, alg)
			}
		}
	}
	v.parser = jwt.NewParser(jwt.WithValidMethods(v.algs), jwt.WithLeeway(cfg.Leeway), jwt.WithIssuedAt(), jwt.WithTimeFunc(now))
	return v, nil
}

// Leeway returns the tolerance for exp, nbf and iat.
func (v *Verifier) Leeway() time.Duration { return v.cfg.Leeway }

// Verify returns nil if it accepts a token, else why not. claims are further claims that the
// token must have, each with one of the values listed. id is its jti claim, if it has one.
func (v *Verifier) Verify(token string, claims map[string][]string) (id string, err error) {
	switch {
	case token == "":
		return "", errors.New("no token was sent")
	case len(token) > maxToken:
		return "", fmt.Errorf("the token is longer than %d bytes", maxToken)
	}
	got := jwt.MapClaims{}
	if _, err := v.parser.ParseWithClaims(token, got, v.candidates); err != nil {
		return "", err
	}
	if iss, err := got.GetIssuer(); err != nil || !slices.Contains(v.cfg.Issuers, iss) {
		return "", fmt.Errorf("the issuer (iss) %q is not one of %q", iss, v.cfg.Issuers)
	}
	if len(v.cfg.Audiences) > 0 {
		aud, err := got.GetAudience()
		if err != nil || !slices.ContainsFunc(aud, func(a string) bool { return slices.Contains(v.cfg.Audiences, a) }) {
			return "", fmt.Errorf("no audience (aud) of %q is one of %q", aud, v.cfg.Audiences)
		}
	}
	for name, wanted := range claims {
		value, ok := claimText(got[name])
		if !ok {
			return "", fmt.Errorf("the claim %q is missing, or is no text, number or boolean", name)
		}
		if !slices.Contains(wanted, value) {
			return "", fmt.Errorf("the claim %q is %q, not one of %q", name, value, wanted)
		}
	}
	if raw, has := got["jti"]; has {
		if id, has = raw.(string); !has { // such a token could not be revoked
			return "", errors.New("the claim jti is no text")
		}
	}
	return id, nil
}

// claimText returns a claim's value as text. Numbers are written without an exponent.
func claimText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// candidates returns the keys that may have signed a token: the keys of its algorithm, and of
// them only the keys with the header's kid if there are any.
func (v *Verifier) candidates(t *jwt.Token) (any, error) {
	if _, has := t.Header["crit"]; has {
		return nil, errors.New("the token demands extensions (crit), which are not supported")
	}
	alg := t.Method.Alg()
	kid, _ := t.Header["kid"].(string)
	var named, all jwt.VerificationKeySet
	for _, k := range v.cfg.Keys {
		if !slices.Contains(k.algs, alg) {
			continue
		}
		for _, key := range k.keys {
			all.Keys = append(all.Keys, key)
			if kid != "" && k.kid == kid {
				named.Keys = append(named.Keys, key)
			}
		}
	}
	if len(named.Keys) > 0 {
		all = named
	}
	if len(all.Keys) > maxTried {
		return nil, fmt.Errorf("more than %d keys may have signed the token: name one in its header (kid)", maxTried)
	}
	if len(all.Keys) == 0 {
		return nil, fmt.Errorf("the algorithm %s is not one of %s", alg, strings.Join(v.algs, ", "))
	}
	return all, nil
}
