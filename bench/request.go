//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"redoubt/internal/respclient"
)

// Keys are named by their number. A value begins with a mark of its key, so that
// every read can be checked, and the rest of it is noise: a store that
// compresses gains nothing, and bytes on disk compare with bytes of data.

// key is the name of a key.
func key(n uint64) string { return fmt.Sprintf("key:%012d", n) }

// Where these stand as arguments of newRequest, every request has its own.
var (
	anyKey   = key(0)
	anyValue = "a value"
)

const markSize = 8

// mark is what the values of a key begin with.
func mark(key uint64) uint64 { return (key + 1) * 0x9e3779b97f4a7c15 }

// value is one that belongs to a key.
func value(key uint64, random *rand.PCG) []byte {
	b := make([]byte, *size)
	fillValue(b, key, random)
	return b
}

func fillValue(b []byte, key uint64, random *rand.PCG) {
	binary.LittleEndian.PutUint64(b, mark(key))
	for b = b[markSize:]; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, random.Uint64())
	}
	for i, last := 0, random.Uint64(); i < len(b); i, last = i+1, last>>8 {
		b[i] = byte(last)
	}
}

// belongs says whether a value is one of this key.
func belongs(value []byte, key uint64) bool {
	return len(value) == *size && binary.LittleEndian.Uint64(value) == mark(key)
}

// request is a command in its wire form, with the places of its key's number
// and its value, -1 for none.
type request struct {
	text       []byte
	key, value int
	reads      bool // the reply is the key's value
}

// newRequest makes a request of a command's words.
func newRequest(words ...string) request {
	blank := string(bytes.Repeat([]byte{0}, *size))
	args := make([]string, len(words))
	for i, w := range words {
		if args[i] = w; w == anyValue {
			args[i] = blank
		}
	}
	r := request{text: respclient.AppendCommand(nil, args...), reads: words[0] == "GET"}
	if r.key = bytes.Index(r.text, []byte(anyKey)); r.key >= 0 {
		r.key += len("key:")
	}
	r.value = bytes.Index(r.text, []byte(blank))
	return r
}

// appendTo appends the request for a key.
func (r *request) appendTo(b []byte, key uint64, random *rand.PCG) []byte {
	at := len(b)
	b = append(b, r.text...)
	if r.key >= 0 {
		for i, n := at+r.key+11, key; n > 0; i, n = i-1, n/10 {
			b[i] = byte('0' + n%10)
		}
	}
	if r.value >= 0 {
		fillValue(b[at+r.value:at+r.value+*size], key, random)
	}
	return b
}
