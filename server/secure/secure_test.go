package secure

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// files are a certificate and its key, signed by themselves.
type files struct{ dir, cert, key string }

func newFiles(t *testing.T) files {
	t.Helper()
	f := files{dir: t.TempDir()}
	f.cert, f.key = filepath.Join(f.dir, "c.pem"), filepath.Join(f.dir, "k.pem")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.cert, "CERTIFICATE", der)
	write(t, f.key, "PRIVATE KEY", pkcs8)
	return f
}

func write(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f files) settings() Settings {
	return Settings{CertFile: f.cert, KeyFile: f.key, CACertFile: f.cert, AuthClients: "yes", SessionCaching: true}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	for _, c := range []struct {
		name   string
		change func(*Settings)
		err    string // part of it; "" when there is none
	}{
		{"complete", func(*Settings) {}, ""},
		{"no certificate", func(s *Settings) { s.CertFile = "" }, "no tls-cert-file"},
		{"no key", func(s *Settings) { s.KeyFile = "" }, "no tls-key-file"},
		{"no authority", func(s *Settings) { s.CACertFile = "" }, "tls-ca-cert-file"},
		{"no authority, optional", func(s *Settings) { s.CACertFile, s.AuthClients = "", "optional" }, "tls-ca-cert-file"},
		{"none needed", func(s *Settings) { s.CACertFile, s.AuthClients = "", "no" }, ""},
		{"needed for itself", func(s *Settings) { s.CACertFile, s.AuthClients, s.NeedCA = "", "no", true }, "tls-ca-cert-file"},
		{"a directory", func(s *Settings) { s.CACertFile, s.CACertDir = "", f.dir }, ""},
		{"missing file", func(s *Settings) { s.CertFile = f.dir + "/none" }, "no such file"},
		{"missing authority", func(s *Settings) { s.CACertFile = f.dir + "/none" }, "no such file"},
		{"missing directory", func(s *Settings) { s.CACertDir = f.dir + "/none" }, "no such file"},
		{"authority without certificate", func(s *Settings) { s.CACertFile = f.key }, "no certificate"},
		{"certificate is a key", func(s *Settings) { s.CertFile = f.key }, "PEM"},
		{"another's key", func(s *Settings) { s.KeyFile = newFiles(t).key }, "does not match"},
		{"client's own", func(s *Settings) { s.ClientCertFile, s.ClientKeyFile = f.cert, f.cert }, "certificate"},
		{"protocols", func(s *Settings) { s.Protocols = "TLSv1.2 tlsv1.1" }, ""},
		{"unknown protocol", func(s *Settings) { s.Protocols = "SSLv3" }, "invalid tls-protocols"},
		{"protocols with a gap", func(s *Settings) { s.Protocols = "TLSv1.3 TLSv1.1" }, "between"},
		{"unknown ciphers", func(s *Settings) { s.Ciphers = "NULL:nosuch" }, "tls-ciphers"},
		{"unknown suite", func(s *Settings) { s.CipherSuites = "TLS_NO_SUCH" }, "tls-ciphersuites"},
		{"suites in another order", func(s *Settings) {
			s.Protocols, s.CipherSuites = "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"
		}, ""},
		{"suites that cannot be kept to", func(s *Settings) {
			s.Protocols, s.CipherSuites = "TLSv1.3", "TLS_AES_256_GCM_SHA384"
		}, "cannot be kept"},
		{"missing parameters", func(s *Settings) { s.DHParamsFile = f.dir + "/none" }, "tls-dh-params-file"},
	} {
		s := f.settings()
		c.change(&s)
		got, err := Server(s)
		switch {
		case c.err == "" && (err != nil || got == nil):
			t.Errorf("%s: %v", c.name, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
	c, err := Server(f.settings())
	if err != nil || c.MinVersion != tls.VersionTLS12 || c.MaxVersion != tls.VersionTLS13 || c.ClientAuth != tls.RequireAndVerifyClientCert ||
		c.CipherSuites != nil || c.SessionTicketsDisabled {
		t.Errorf("%+v, %v", c, err)
	}
}

// What each class of ciphers means is what OpenSSL means by it, of the ciphers
// that both have.
func TestCiphersMeanWhatOpenSSLMeans(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs openssl")
	}
	for _, list := range []string{
		"ECDHE", "ECDHE+AESGCM", "AESGCM:!RSA", "HIGH:!aNULL:!kRSA", "kRSA", "ALL:!SHA1:!SHA256", "ECDSA", "aRSA+CHACHA20",
		"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384", "AES256:!SHA", "AES:-AES128:ECDHE-RSA-AES128-SHA",
		"!AES128:AES128:AES256", "kEECDH:nosuch", "SHA256+ECDHE", "ALL:!TLSv1.2",
	} {
		out, err := exec.Command("openssl", "ciphers", "-tls1_2", list+":@SECLEVEL=0").Output()
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		var want []string
		for _, name := range strings.Split(strings.TrimSpace(string(out)), ":") {
			if slices.ContainsFunc(known, func(s suite) bool { return s.name == name }) {
				want = append(want, name)
			}
		}
		ids, err := ciphers(list)
		if err != nil {
			t.Errorf("%s: %v", list, err)
		}
		var got []string
		for _, id := range ids {
			at := slices.IndexFunc(known, func(s suite) bool { return s.id == id })
			if got = append(got, known[at].name); strings.Contains(known[at].words, "3DES") {
				got = got[:len(got)-1] // many builds of OpenSSL leave it out
			}
		}
		want = slices.DeleteFunc(want, func(n string) bool { return strings.Contains(n, "CBC3") })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s means %v, in OpenSSL %v", list, got, want)
		}
	}
	if got, err := ciphers("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"); err != nil || !slices.Equal(got, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}) {
		t.Errorf("%v, %v", got, err)
	}
}

// A client that offers a suite that is not allowed is served with TLS 1.2, with
// the same demands; one that does not is served with TLS 1.3.
func TestSuitesOfTLS13(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	s := f.settings()
	s.CipherSuites = "TLS_AES_256_GCM_SHA384"
	c, err := Server(s)
	if err != nil {
		t.Fatal(err)
	}
	older, err := c.GetConfigForClient(&tls.ClientHelloInfo{CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384}})
	if err != nil || older == nil || older.MaxVersion != tls.VersionTLS12 || older.ClientAuth != tls.RequireAndVerifyClientCert ||
		older.ClientCAs == nil || len(older.Certificates) != 1 {
		t.Errorf("%+v, %v", older, err)
	}
	same, err := c.GetConfigForClient(&tls.ClientHelloInfo{CipherSuites: []uint16{tls.TLS_AES_256_GCM_SHA384, tls.TLS_RSA_WITH_AES_128_CBC_SHA}})
	if err != nil || same != nil {
		t.Errorf("%+v, %v", same, err)
	}
}

// Encrypted keys in the forms that OpenSSL writes.
func TestEncryptedKeys(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs openssl")
	}
	f := newFiles(t)
	for name, args := range map[string][]string{
		"aes256":         {"pkcs8", "-topk8", "-v2", "aes256", "-in", f.key},
		"aes192":         {"pkcs8", "-topk8", "-v2", "aes-192-cbc", "-v2prf", "hmacWithSHA512", "-in", f.key},
		"aes128":         {"pkcs8", "-topk8", "-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1", "-in", f.key},
		"triple DES":     {"pkcs8", "-topk8", "-v2", "des3", "-in", f.key},
		"old format":     {"ec", "-aes128", "-in", f.key},
		"with scrypt":    {"pkcs8", "-topk8", "-scrypt", "-in", f.key},
		"not encrypted":  {"pkcs8", "-topk8", "-nocrypt", "-in", f.key},
		"not encrypted2": {"ec", "-in", f.key},
	} {
		path := filepath.Join(f.dir, strings.ReplaceAll(name, " ", "-"))
		if strings.HasPrefix(name, "not") {
			args = append(args, "-out", path)
		} else {
			args = append(args, "-out", path, "-passout", "pass:secret")
		}
		if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		for _, pass := range []string{"secret", "wrong", ""} {
			s := f.settings()
			s.KeyFile, s.KeyFilePass = path, pass
			_, err := Server(s)
			if name == "with scrypt" {
				if err == nil || pass != "" && !strings.Contains(err.Error(), "not supported") {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if good := pass == "secret" || strings.HasPrefix(name, "not"); good != (err == nil) {
				t.Errorf("%s, password %q: %v", name, pass, err)
			}
		}
	}
}

// Damaged encrypted keys are refused, whatever they hold.
func FuzzPKCS8(f *testing.F) {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		f.Fatal(err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encrypt(f, plain, "pass"), "pass")
	f.Add([]byte{0x30, 0}, "")
	f.Fuzz(func(t *testing.T, der []byte, pass string) {
		if len(der) > 4096 {
			return
		}
		openPKCS8(der, pass)
	})
}

// encrypt makes what openPKCS8 opens.
func encrypt(t testing.TB, plain []byte, pass string) []byte {
	t.Helper()
	marshal := func(v any) asn1.RawValue {
		der, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return asn1.RawValue{FullBytes: der}
	}
	salt, iv := []byte("saltsalt"), make([]byte, 16)
	secret, err := pbkdf2.Key(sha256.New, pass, salt, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		t.Fatal(err)
	}
	pad := 16 - len(plain)%16
	for range pad {
		plain = append(plain, byte(pad))
	}
	out := make([]byte, len(plain))
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(out, plain)
	scheme := pbes2{
		Derive: pkix.AlgorithmIdentifier{Algorithm: oidPBKDF2, Parameters: marshal(pbkdf2Params{
			Salt: salt, Iterations: 10, PRF: pkix.AlgorithmIdentifier{Algorithm: hashes[1].oid, Parameters: asn1.NullRawValue},
		})},
		Encrypt: pkix.AlgorithmIdentifier{Algorithm: blockCiphers[2].oid, Parameters: marshal(iv)},
	}
	return marshal(encryptedKey{pkix.AlgorithmIdentifier{Algorithm: oidPBES2, Parameters: marshal(scheme)}, out}).FullBytes
}

func TestOpenPKCS8(t *testing.T) {
	t.Parallel()
	plain := append([]byte{0x30, 20}, make([]byte, 20)...)
	got, err := openPKCS8(encrypt(t, plain, "secret"), "secret")
	if err != nil || !slices.Equal(got, plain) {
		t.Errorf("% x, %v", got, err)
	}
	if _, err := openPKCS8(encrypt(t, plain, "secret"), "other"); err == nil {
		t.Error("a wrong password opens it")
	}
}
