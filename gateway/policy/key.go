package policy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// Key verifies signatures made with certain algorithms.
type Key struct {
	algs []string
	kid  string // its name in a JSON Web Key Set
	keys []jwt.VerificationKey
}

// minRSA is the least size of an RSA key in bits.
const minRSA = 2048

// maxKeyFile bounds the size of a key file in bytes.
const maxKeyFile = 1 << 20

// hmacSizes are the HMAC algorithms and the least size of their secrets in bytes, that of
// the hash (RFC 7518, section 3.2).
var hmacSizes = map[string]int{"HS256": 32, "HS384": 48, "HS512": 64}

// curves are the ECDSA algorithms and the curve that each demands.
var curves = map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}

// rsaAlgs are the algorithms of RSA keys.
var rsaAlgs = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}

// CheckAlgorithm returns why no key can be loaded for an algorithm, or nil.
func CheckAlgorithm(alg string) error {
	if alg == "none" {
		return errors.New("the algorithm none is refused, since anybody could make such tokens: use RS256, ES256 or HS256, and a key")
	}
	if _, ok := hmacSizes[alg]; !ok && curves[alg] == nil && alg != "EdDSA" && !slices.Contains(rsaAlgs, alg) {
		return fmt.Errorf("the algorithm %q is unknown: use one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, HS256, HS384, HS512", alg)
	}
	return nil
}

// LoadKey loads a key for one algorithm. For RSA, ECDSA and EdDSA the file has a public key
// or a certificate in PEM; for HMAC it is the secret itself.
func LoadKey(alg, file string) (Key, error) {
	if err := CheckAlgorithm(alg); err != nil {
		return Key{}, err
	}
	text, err := readKeyFile(file)
	if err != nil {
		return Key{}, err
	}
	k := Key{algs: []string{alg}}
	if size := hmacSizes[alg]; size > 0 {
		k.keys, err = hmacKeys(text, size)
	} else {
		var key jwt.VerificationKey
		key, err = publicKey(alg, text)
		k.keys = []jwt.VerificationKey{key}
	}
	if err != nil {
		return Key{}, fmt.Errorf("key file %s for %s: %w", file, alg, err)
	}
	return k, nil
}

func readKeyFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeyFile {
		return nil, fmt.Errorf("key file %s is no regular file of at most %d bytes", file, maxKeyFile)
	}
	text, err := os.ReadFile(file)
	if err == nil && len(text) == 0 {
		err = fmt.Errorf("key file %s is empty", file)
	}
	return text, err
}

// hmacKeys returns the secrets that a file may mean: all of its bytes, the bytes without the
// newline that editors append, and the decoded bytes if they are base64.
func hmacKeys(text []byte, size int) (keys []jwt.VerificationKey, err error) {
	if bytes.Contains(text, []byte("-----BEGIN ")) {
		return nil, errors.New("it is a key in PEM, which anybody may know: an HMAC algorithm needs a secret")
	}
	line := bytes.TrimRight(text, "\r\n")
	add := func(secret []byte) {
		if len(secret) >= size {
			keys = append(keys, secret)
		}
	}
	add(text)
	if len(line) < len(text) {
		add(line)
	}
	if decoded, err := base64.StdEncoding.DecodeString(string(line)); err == nil {
		add(decoded)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("it has %d bytes and needs %d at least: make one with openssl rand -base64 %d", len(text), size, 2*size)
	}
	return keys, nil
}

// publicKey reads a public key in PEM.
func publicKey(alg string, text []byte) (jwt.VerificationKey, error) {
	if bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		return nil, errors.New("it is a private key: give the public one, and keep the private one where tokens are made")
	}
	switch {
	case slices.Contains(rsaAlgs, alg):
		key, err := jwt.ParseRSAPublicKeyFromPEM(text)
		if err != nil {
			return nil, err
		}
		return key, checkRSA(key)
	case curves[alg] != nil:
		key, err := jwt.ParseECPublicKeyFromPEM(text)
		if err != nil {
			return nil, err
		}
		if key.Curve != curves[alg] {
			return nil, fmt.Errorf("it is on the curve %s, and %s demands %s", key.Curve.Params().Name, alg, curves[alg].Params().Name)
		}
		return key, nil
	}
	key, err := jwt.ParseEdPublicKeyFromPEM(text)
	if err != nil {
		return nil, err
	}
	ed, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("it is no Ed25519 key")
	}
	return ed, nil
}

func checkRSA(key *rsa.PublicKey) error {
	if n := key.N.BitLen(); n < minRSA {
		return fmt.Errorf("the RSA key has %d bits and needs %d at least", n, minRSA)
	}
	if key.E < 3 || key.E%2 == 0 {
		return errors.New("the RSA key has a bad exponent")
	}
	return nil
}

// jwk is a key of a JSON Web Key Set (RFC 7517).
type jwk struct {
	Kty, Use, Alg, Kid, Crv, N, E, X, Y, K string
	Ops                                    []string `json:"key_ops"`
}

// LoadSet loads the keys of a JSON Web Key Set that verify signatures. Other keys are
// skipped, as the standard demands; a set without a verifying key is an error.
func LoadSet(file string) ([]Key, error) {
	text, err := readKeyFile(file)
	if err != nil {
		return nil, err
	}
	keys, err := parseSet(text)
	if err != nil {
		return nil, fmt.Errorf("key set %s: %w", file, err)
	}
	return keys, nil
}

func parseSet(text []byte) (keys []Key, err error) {
	var set struct{ Keys []jwk }
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("it is no JSON Web Key Set: %w", err)
	}
	for i, j := range set.Keys {
		if j.Use != "" && j.Use != "sig" || len(j.Ops) > 0 && !slices.Contains(j.Ops, "verify") {
			continue
		}
		key, algs, err := j.key()
		if err != nil {
			return nil, fmt.Errorf("key %d (kid %q): %w", i+1, j.Kid, err)
		}
		if key == nil {
			continue
		}
		if j.Alg != "" {
			if !slices.Contains(algs, j.Alg) {
				return nil, fmt.Errorf("key %d (kid %q): it cannot serve %q", i+1, j.Kid, j.Alg)
			}
			algs = []string{j.Alg}
		}
		keys = append(keys, Key{algs: algs, kid: j.Kid, keys: []jwt.VerificationKey{key}})
	}
	if len(keys) == 0 {
		return nil, errors.New("no key of it verifies signatures")
	}
	return keys, nil
}

// key returns the key and the algorithms that it can serve; nil if its kind is unknown.
func (j *jwk) key() (key jwt.VerificationKey, algs []string, err error) {
	switch j.Kty {
	case "RSA":
		n, e := number(j.N), number(j.E)
		if n == nil || e == nil || e.BitLen() > 31 {
			return nil, nil, errors.New("n or e is no number of an RSA key")
		}
		rsaKey := &rsa.PublicKey{N: n, E: int(e.Int64())}
		return rsaKey, rsaAlgs, checkRSA(rsaKey)
	case "EC":
		for alg, curve := range curves {
			if curve.Params().Name != j.Crv {
				continue
			}
			size := (curve.Params().BitSize + 7) / 8
			x, xerr := base64.RawURLEncoding.DecodeString(j.X)
			y, yerr := base64.RawURLEncoding.DecodeString(j.Y)
			if xerr != nil || yerr != nil || len(x) != size || len(y) != size {
				return nil, nil, errors.New("x or y is no coordinate of the curve")
			}
			ec, err := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y)) // checks that the point is on the curve
			if err != nil {
				return nil, nil, err
			}
			return ec, []string{alg}, nil
		}
	case "OKP":
		if j.Crv != "Ed25519" {
			return nil, nil, nil
		}
		x, err := base64.RawURLEncoding.DecodeString(j.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, nil, errors.New("x is no Ed25519 key")
		}
		return ed25519.PublicKey(x), []string{"EdDSA"}, nil
	case "oct":
		size := hmacSizes[j.Alg]
		if size == 0 {
			return nil, nil, errors.New("a secret (oct) must say its algorithm (alg): HS256, HS384 or HS512")
		}
		k, err := base64.RawURLEncoding.DecodeString(j.K)
		if err != nil || len(k) < size {
			return nil, nil, fmt.Errorf("k is no secret of %d bytes at least", size)
		}
		return k, []string{j.Alg}, nil
	}
	return nil, nil, nil
}

func number(s string) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) == 0 || len(b) > 2048 {
		return nil
	}
	return new(big.Int).SetBytes(b)
}
