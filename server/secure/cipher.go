package secure

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// Cipher lists in OpenSSL's format, that of tls-ciphers: names of ciphers and of classes,
// joined by colons; "!" bans for good, "-" removes, "+" before a word has no effect, since
// the library orders the ciphers; classes joined by "+" mean their intersection. Unknown
// words are skipped, as in OpenSSL.

// suite is a cipher of TLS 1.2 and before, with the classes that contain it.
type suite struct {
	id    uint16
	name  string
	words string
}

// known are the ciphers of the library that tls-ciphers may name. Those without forward
// secrecy and those with triple DES are used only when they are named.
var known = []suite{
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE EECDH kECDHE kEECDH ECDSA aECDSA AES AES128 AESGCM TLSv1.2 HIGH"},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE EECDH kECDHE kEECDH aRSA AES AES128 AESGCM TLSv1.2 HIGH"},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE EECDH kECDHE kEECDH ECDSA aECDSA AES AES256 AESGCM TLSv1.2 HIGH"},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE EECDH kECDHE kEECDH aRSA AES AES256 AESGCM TLSv1.2 HIGH"},
	{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE EECDH kECDHE kEECDH ECDSA aECDSA CHACHA20 TLSv1.2 HIGH"},
	{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305", "ECDHE EECDH kECDHE kEECDH aRSA CHACHA20 TLSv1.2 HIGH"},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, "ECDHE-ECDSA-AES128-SHA256", "ECDHE EECDH kECDHE kEECDH ECDSA aECDSA AES AES128 SHA256 TLSv1.2 HIGH"},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256, "ECDHE-RSA-AES128-SHA256", "ECDHE EECDH kECDHE kEECDH aRSA AES AES128 SHA256 TLSv1.2 HIGH"},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, "ECDHE-ECDSA-AES128-SHA", "ECDHE EECDH kECDHE kEECDH ECDSA aECDSA AES AES128 SHA SHA1 TLSv1.0 HIGH"},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, "ECDHE-RSA-AES128-SHA", "ECDHE EECDH kECDHE kEECDH aRSA AES AES128 SHA SHA1 TLSv1.0 HIGH"},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, "ECDHE-ECDSA-AES256-SHA", "ECDHE EECDH kECDHE kEECDH ECDSA aECDSA AES AES256 SHA SHA1 TLSv1.0 HIGH"},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, "ECDHE-RSA-AES256-SHA", "ECDHE EECDH kECDHE kEECDH aRSA AES AES256 SHA SHA1 TLSv1.0 HIGH"},
	{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, "AES128-GCM-SHA256", "RSA kRSA aRSA AES AES128 AESGCM TLSv1.2 HIGH"},
	{tls.TLS_RSA_WITH_AES_256_GCM_SHA384, "AES256-GCM-SHA384", "RSA kRSA aRSA AES AES256 AESGCM TLSv1.2 HIGH"},
	{tls.TLS_RSA_WITH_AES_128_CBC_SHA256, "AES128-SHA256", "RSA kRSA aRSA AES AES128 SHA256 TLSv1.2 HIGH"},
	{tls.TLS_RSA_WITH_AES_128_CBC_SHA, "AES128-SHA", "RSA kRSA aRSA AES AES128 SHA SHA1 SSLv3 HIGH"},
	{tls.TLS_RSA_WITH_AES_256_CBC_SHA, "AES256-SHA", "RSA kRSA aRSA AES AES256 SHA SHA1 SSLv3 HIGH"},
	{tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA, "ECDHE-RSA-DES-CBC3-SHA", "ECDHE EECDH kECDHE kEECDH aRSA 3DES SHA SHA1 TLSv1.0 MEDIUM"},
	{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA, "DES-CBC3-SHA", "RSA kRSA aRSA 3DES SHA SHA1 SSLv3 MEDIUM"},
}

// ciphers parses tls-ciphers; nil means the library's own choice.
func ciphers(list string) ([]uint16, error) {
	if list == "" {
		return nil, nil
	}
	var have, banned []uint16
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(":;, ", r) }) {
		if word[0] == '@' { // @STRENGTH, @SECLEVEL: the library keeps its own order and strength
			continue
		}
		op := byte(0)
		if strings.IndexByte("!-+", word[0]) >= 0 {
			op, word = word[0], word[1:]
		}
		for _, id := range meant(word) {
			at := slices.Index(have, id)
			switch {
			case op == 0 && at < 0 && !slices.Contains(banned, id):
				have = append(have, id)
			case (op == '-' || op == '!') && at >= 0:
				have = slices.Delete(have, at, at+1)
			}
			if op == '!' {
				banned = append(banned, id)
			}
		}
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("tls-ciphers: none of %q is known", list)
	}
	return have, nil
}

// meant returns the ciphers that a word means: one by its name (OpenSSL's or that
// of the standard), those of a class, or those of an intersection of classes.
func meant(word string) (ids []uint16) {
	for _, s := range known {
		if s.name == word || tls.CipherSuiteName(s.id) == word {
			return []uint16{s.id}
		}
	}
	if word == "DEFAULT" {
		for _, s := range tls.CipherSuites() {
			if slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
				ids = append(ids, s.ID)
			}
		}
		return ids
	}
	classes := strings.Split(word, "+")
	for _, s := range known {
		words := strings.Fields(s.words)
		all := !slices.ContainsFunc(classes, func(c string) bool { return c != "ALL" && !slices.Contains(words, c) })
		if all {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// suites13 are the suites of TLS 1.3 in this library, which uses all of them.
var suites13 = []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256}

// limitSuites13 applies tls-ciphersuites. The library takes no such list: it
// picks the suite from those that the client offers. So a client that offers a suite that
// is not listed gets TLS 1.2, where tls-ciphers applies; with TLS 1.3 alone a list that
// leaves out one of the library's suites is an error.
func limitSuites13(c *tls.Config, list string) error {
	if list == "" {
		return nil
	}
	var allowed []uint16
	for _, name := range strings.Split(list, ":") {
		at := slices.IndexFunc(suites13, func(id uint16) bool { return tls.CipherSuiteName(id) == name })
		switch {
		case at >= 0:
			allowed = append(allowed, suites13[at])
		case name == "TLS_AES_128_CCM_SHA256" || name == "TLS_AES_128_CCM_8_SHA256": // OpenSSL has them
		default:
			return fmt.Errorf("tls-ciphersuites: %q is unknown", name)
		}
	}
	strange := func(id uint16) bool { return slices.Contains(suites13, id) && !slices.Contains(allowed, id) }
	if c.MaxVersion < tls.VersionTLS13 || !slices.ContainsFunc(suites13, strange) {
		return nil
	}
	if c.MinVersion == tls.VersionTLS13 {
		return fmt.Errorf("tls-ciphersuites %q cannot be kept to with TLS 1.3 alone: allow TLSv1.2 or all of %s", list, names13())
	}
	older := c.Clone()
	older.MaxVersion = tls.VersionTLS12
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.ContainsFunc(hello.CipherSuites, strange) {
			return older, nil
		}
		return nil, nil
	}
	return nil
}

func names13() string {
	names := make([]string, len(suites13))
	for i, id := range suites13 {
		names[i] = tls.CipherSuiteName(id)
	}
	return strings.Join(names, ":")
}
