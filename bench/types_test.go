//go:build linux

package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// Every request of the mixture is a command whose placeholders were replaced, each
// number by one of its own.
func TestMixture(t *testing.T) {
	was := *keys
	*keys = 1_000_000
	t.Cleanup(func() { *keys = was })
	random := rand.NewPCG(1, 2)
	seen := map[string]bool{}
	list := mixOf(mixed, "m")
	if len(list) != len(mixed)*mixedKeys {
		t.Fatalf("%d requests", len(list))
	}
	for _, r := range list {
		text := string(r.appendTo([]byte("before"), 7, random))
		if !strings.HasPrefix(text, "before*") || strings.Contains(text, anyNumber) || strings.Contains(text, "\r\nR\r\n") || strings.Contains(text, "\r\nV\r\n") {
			t.Errorf("%q", text)
		}
		if _, score, ok := strings.Cut(text, "ZADD"); ok {
			words := strings.Split(score, "\r\n")
			if words[4] == strings.TrimPrefix(words[6], "member:") {
				t.Errorf("one number for both: %q", text)
			}
			seen[words[4]] = true
		}
	}
	if len(seen) < mixedKeys {
		t.Errorf("%d different scores", len(seen))
	}
}
