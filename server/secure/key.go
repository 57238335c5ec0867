package secure

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// Private keys in encrypted PKCS #8, which OpenSSL writes by default and the standard
// library cannot read. RFC 8018 has the format; of its schemes PBES2 with PBKDF2 and AES
// or triple DES in CBC mode is supported.

type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2 struct {
	Derive, Encrypt pkix.AlgorithmIdentifier
}

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

var blockCiphers = []struct {
	oid  asn1.ObjectIdentifier
	key  int
	make func([]byte) (cipher.Block, error)
}{
	{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 2}, 16, aes.NewCipher},
	{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 22}, 24, aes.NewCipher},
	{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, 32, aes.NewCipher},
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 3, 7}, 24, des.NewTripleDESCipher},
}

var hashes = []struct {
	oid  asn1.ObjectIdentifier
	make func() hash.Hash
}{
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 7}, sha1.New},
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}, sha256.New},
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 10}, sha512.New384},
	{asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 11}, sha512.New},
}

// maxIterations bounds how long a key file can keep a server busy.
const maxIterations = 10_000_000

var (
	errPass   = errors.New("tls-key-file-pass does not open it")
	errScheme = errors.New("it is encrypted in a way that is not supported: write it again with openssl pkcs8 -topk8 -v2 aes256")
)

// openPKCS8 decrypts a key.
func openPKCS8(der []byte, pass string) ([]byte, error) {
	if pass == "" {
		return nil, errors.New("it is encrypted, and there is no tls-key-file-pass")
	}
	var key encryptedKey
	var scheme pbes2
	var derive pbkdf2Params
	if err := parse(der, &key); err != nil {
		return nil, err
	}
	if !key.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, errScheme
	}
	if err := parse(key.Algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, err
	}
	if !scheme.Derive.Algorithm.Equal(oidPBKDF2) {
		return nil, errScheme
	}
	if err := parse(scheme.Derive.Parameters.FullBytes, &derive); err != nil {
		return nil, err
	}
	var iv []byte
	if err := parse(scheme.Encrypt.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	prf := sha1.New // when none is named
	if derive.PRF.Algorithm != nil {
		prf = nil
		for _, h := range hashes {
			if h.oid.Equal(derive.PRF.Algorithm) {
				prf = h.make
			}
		}
	}
	for _, b := range blockCiphers {
		if !b.oid.Equal(scheme.Encrypt.Algorithm) || prf == nil {
			continue
		}
		if derive.Iterations < 1 || derive.Iterations > maxIterations || derive.KeyLength != 0 && derive.KeyLength != b.key {
			return nil, errScheme
		}
		secret, err := pbkdf2.Key(prf, pass, derive.Salt, derive.Iterations, b.key)
		if err != nil {
			return nil, err
		}
		block, err := b.make(secret)
		if err != nil {
			return nil, err
		}
		return decrypt(block, iv, key.Data)
	}
	return nil, errScheme
}

// decrypt decrypts CBC and removes its padding. A wrong password shows in the padding,
// or later in the key.
func decrypt(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("its encryption is damaged")
	}
	out := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, data)
	pad := int(out[len(out)-1])
	if pad < 1 || pad > size {
		return nil, errPass
	}
	for _, b := range out[len(out)-pad:] {
		if int(b) != pad {
			return nil, errPass
		}
	}
	if out = out[:len(out)-pad]; len(out) == 0 || out[0] != 0x30 { // a key is a sequence
		return nil, errPass
	}
	return out, nil
}

func parse(der []byte, into any) error {
	rest, err := asn1.Unmarshal(der, into)
	if err == nil && len(rest) > 0 {
		err = errors.New("more follows")
	}
	if err != nil {
		return fmt.Errorf("its encryption is not understood: %w", err)
	}
	return nil
}
