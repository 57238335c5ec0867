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
	anyKey    = key(0)
	anyValue  = "a value"
	anyNumber = "012345678901" // a random one below the number of keys, each its own
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

// request is a command in its wire form, with the places of its keys' numbers and
// of its values. It may be several commands that are sent as one, such as a
// transaction.
type request struct {
	text         []byte
	keys, values []int
	numbers      []int
	reads        bool // the reply is the key's value
	replies      int
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
	r := request{text: respclient.AppendCommand(nil, args...), reads: words[0] == "GET", replies: 1}
	r.keys, r.values = places(r.text, anyKey), places(r.text, blank)
	for i := range r.keys {
		r.keys[i] += len("key:")
	}
	r.numbers = places(r.text, anyNumber)
	return r
}

// together makes one request of several.
func together(list ...request) (all request) {
	for _, r := range list {
		for _, k := range r.keys {
			all.keys = append(all.keys, k+len(all.text))
		}
		for _, v := range r.values {
			all.values = append(all.values, v+len(all.text))
		}
		for _, n := range r.numbers {
			all.numbers = append(all.numbers, n+len(all.text))
		}
		all.text = append(all.text, r.text...)
		all.replies += r.replies
	}
	return all
}

// places are the offsets of a word in a text.
func places(text []byte, word string) (list []int) {
	for at := 0; ; {
		i := bytes.Index(text[at:], []byte(word))
		if i < 0 {
			return list
		}
		list = append(list, at+i)
		at += i + len(word)
	}
}

// appendTo appends the request for a key.
func (r *request) appendTo(b []byte, key uint64, random *rand.PCG) []byte {
	at := len(b)
	b = append(b, r.text...)
	for _, k := range r.keys {
		for i, n := at+k+11, key; n > 0; i, n = i-1, n/10 {
			b[i] = byte('0' + n%10)
		}
	}
	for _, place := range r.numbers {
		n := below(random, uint64(*keys))
		for i := at + place + len(anyNumber) - 1; i >= at+place; i, n = i-1, n/10 {
			b[i] = byte('0' + n%10)
		}
	}
	for _, v := range r.values {
		fillValue(b[at+v:at+v+*size], key, random)
	}
	return b
}
