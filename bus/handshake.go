package bus

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
)

// The handshake: each side proves that it knows the secret, without sending it.
//
//	follower: hello   magic:8 challenge:32 id
//	hub:      answer  challenge:32 mac:32 id
//	follower: proof   mac:32
//
// A mac is HMAC-SHA256 by the secret over the magic, the role of its maker, both challenges
// and both ids, each behind its length. The challenges are random and the two macs differ
// in the role, so a mac can be neither replayed nor reflected. Both are compared in
// constant time.

const (
	magic    = "rdtbus\x00\x01"
	nonceLen = 32
	macLen   = sha256.Size
	maxID    = 64
)

// seal is the input of both macs.
type seal struct {
	secret         [32]byte
	asked, offered [nonceLen]byte // the follower's challenge and the hub's
	follower, hub  string
}

func (s *seal) mac(who string) []byte {
	h := hmac.New(sha256.New, s.secret[:])
	for _, part := range []string{magic, who, string(s.asked[:]), string(s.offered[:]), s.follower, s.hub} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		io.WriteString(h, part)
	}
	return h.Sum(nil)
}

func nonce() (n [nonceLen]byte, err error) {
	if _, err = rand.Read(n[:]); err != nil {
		return n, fmt.Errorf("make a challenge: %w", err)
	}
	return n, nil
}

// greet is the follower's side. want is the id of the expected hub; "" is any.
func greet(rw io.ReadWriter, secret [32]byte, self, want string) error {
	s := seal{secret: secret, follower: self}
	var err error
	if s.asked, err = nonce(); err != nil {
		return err
	}
	if _, err := rw.Write(appendFrame(nil, frameHello, []byte(magic), s.asked[:], []byte(self))); err != nil {
		return err
	}
	r := frameReader{r: rw, max: maxStrange}
	kind, body, err := r.next()
	if err != nil {
		return err
	}
	if kind != frameAnswer || len(body) < nonceLen+macLen || len(body) > nonceLen+macLen+maxID {
		return unexpected(kind)
	}
	copy(s.offered[:], body)
	s.hub = string(body[nonceLen+macLen:])
	if !hmac.Equal(body[nonceLen:nonceLen+macLen], s.mac("hub")) {
		return errSecret
	}
	if want != "" && s.hub != want {
		return errOther
	}
	_, err = rw.Write(appendFrame(nil, frameProof, s.mac("follower")))
	return err
}

// receive is the hub's side. It returns the id of the follower.
func receive(rw io.ReadWriter, secret [32]byte, self string) (id string, err error) {
	s := seal{secret: secret, hub: self}
	r := frameReader{r: rw, max: maxStrange}
	kind, body, err := r.next()
	if err != nil {
		return "", err
	}
	least := len(magic) + nonceLen
	if kind != frameHello || len(body) < least || len(body) > least+maxID || string(body[:len(magic)]) != magic {
		return "", unexpected(kind)
	}
	copy(s.asked[:], body[len(magic):])
	s.follower = string(body[least:])
	if s.offered, err = nonce(); err != nil {
		return "", err
	}
	if _, err := rw.Write(appendFrame(nil, frameAnswer, s.offered[:], s.mac("hub"), []byte(self))); err != nil {
		return "", err
	}
	if kind, body, err = r.next(); err != nil {
		return "", err
	}
	if kind != frameProof {
		return "", unexpected(kind)
	}
	if !hmac.Equal(body, s.mac("follower")) {
		return "", errSecret
	}
	return s.follower, nil
}
