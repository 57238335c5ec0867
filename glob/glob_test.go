package glob

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMatchLikeRedis replays what a real Redis answered.
func TestMatchLikeRedis(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/match.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		var pattern, name, want string
		if _, err := fmt.Sscanf(line, "%q %q %s", &pattern, &name, &want); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if got := Match([]byte(pattern), []byte(name)); got != (want == "yes") {
			t.Errorf("line %d: %s: got %v", i+1, line, got)
		}
		n++
	}
	if n < 300 {
		t.Errorf("only %d cases", n)
	}
}

func TestMatchFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"MAXmemory*", "maxmemory-policy", true},
		{"[A-C]x", "bX", true},
		{"[a-c]x", "BX", true},
		{"[B]", "b", true},
		{"[^B]", "b", false},
		{"\\A", "a", true},
		{"[\\A]", "a", false}, // compared by case behind the \
		{"[Z-a]", "_", false}, // the ends are folded when they are in order: z to a is empty
		{"[Z-a]", "m", false},
		{"@", "`", false},
		{"[", "{", false},
	} {
		if got := MatchFold([]byte(c.pattern), []byte(c.name)); got != c.want {
			t.Errorf("%q %q: got %v", c.pattern, c.name, got)
		}
	}
}

func TestAll(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{"*": true, "": false, "**": false, "a": false} {
		if All([]byte(pattern)) != want {
			t.Errorf("%q", pattern)
		}
	}
}

// Redis gives up on a pattern with more than a thousand stars to be tried.
func TestManyStars(t *testing.T) {
	t.Parallel()
	name := bytes.Repeat([]byte("a"), 2000)
	for _, c := range []struct {
		stars int
		tail  string
		want  bool
	}{{1000, "", true}, {1001, "", false}, {1000, "*", true}, {1001, "*", false}, {2000, "", false}} {
		pattern := append(bytes.Repeat([]byte("*a"), c.stars), c.tail...)
		if got := Match(pattern, name); got != c.want {
			t.Errorf("%d stars, tail %q: got %v", c.stars, c.tail, got)
		}
	}
	// More stars than are tried, since the name ends first.
	if !Match(append([]byte("b"), bytes.Repeat([]byte("*"), 5000)...), []byte("b")) {
		t.Error("stars at the end")
	}
}

// A pattern that a matcher by recursion alone would take years for.
func TestNoExponentialPatterns(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, pattern := range []string{strings.Repeat("a*", 500) + "b", strings.Repeat("*a", 900) + "b", strings.Repeat("*[^b]", 900) + "b"} {
		if Match([]byte(pattern), bytes.Repeat([]byte("a"), 20_000)) {
			t.Errorf("%.20q... matches", pattern)
		}
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

// reference is the meaning of a pattern written down in the plainest way: a
// star stands for any number of characters.
func reference(p, s []byte, fold bool) bool {
	if len(s) == 0 {
		return len(bytes.Trim(p, "*")) == 0
	}
	if len(p) == 0 {
		return false
	}
	if p[0] == '*' {
		return reference(p[1:], s, fold) || reference(p, s[1:], fold)
	}
	ok, n := one(p, s[0], fold)
	return ok && reference(p[n:], s[1:], fold)
}

func FuzzMatch(f *testing.F) {
	f.Add([]byte("a*[^b-d]?\\*"), []byte("axyz*"), false)
	f.Add([]byte("[^"), []byte("x"), true)
	f.Add([]byte("*a*b"), []byte("aabab"), false)
	f.Fuzz(func(t *testing.T, pattern, name []byte, fold bool) {
		if bytes.Count(pattern, []byte("*")) > 8 || len(name) > 20 {
			_ = Match(pattern, name) // too slow to compare, but it must not fail
			return
		}
		match := Match
		if fold {
			match = MatchFold
		}
		want := reference(pattern, name, fold)
		if len(name) == 0 {
			want = len(pattern) == 0 // Redis does not even begin
		}
		if got := match(pattern, name); got != want {
			t.Fatalf("%q %q fold %v: got %v, want %v", pattern, name, fold, got, want)
		}
		if len(pattern) > 0 && pattern[0] != '*' {
			if _, n := one(pattern, 'x', fold); n < 1 || n > len(pattern) {
				t.Fatalf("%q: takes %d", pattern, n)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	pattern, name := []byte("user:*:[a-f]*:name"), []byte("user:12345678:c0ffee:name")
	for b.Loop() {
		if !Match(pattern, name) {
			b.Fatal("no match")
		}
	}
}
