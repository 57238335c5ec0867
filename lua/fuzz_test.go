package lua_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/internal/race"
	"redoubt/lua"
	"redoubt/lua/internal/corpus"
)

// seeds adds the corpus.
func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		cases, err := corpus.Read(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range cases {
			f.Add(c.Source)
		}
	}
	text, err := os.ReadFile("testdata/harness.lua")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
}

// FuzzCompile: any source compiles or gives an error that names a line.
func FuzzCompile(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src string) {
		if _, err := lua.Compile(src, "fuzz"); err != nil && !strings.HasPrefix(err.Error(), "fuzz:") {
			t.Fatalf("%q: %v", src, err)
		}
	})
}

// FuzzRun: any source runs to an end within its limits, and the state is of
// use afterwards.
func FuzzRun(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src string) { runHostile(t, src) })
}

var errBudget = errors.New("budget")

func runHostile(t *testing.T, src string) {
	t.Helper()
	p, err := lua.Compile(src, "fuzz")
	if err != nil {
		return
	}
	s := lua.New()
	s.SetLimit(4 << 20)
	n := 0
	s.SetBudget(1000, func() error {
		if n++; n > 50 {
			return errBudget
		}
		return nil
	})
	for range 2 {
		_, err = s.Call(s.Load(p))
		var e *lua.Error
		if err != nil && err != errBudget && err != lua.ErrMemory && !errors.As(err, &e) {
			t.Fatalf("%q: %v", src, err)
		}
		s.Reset()
		n = 0
	}
}

// Pieces of the corpus, put together at random: more of it compiles than what
// a fuzzer makes of bytes.
func TestRandomSplices(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, file := range files {
		cases, err := corpus.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			words = append(words, strings.Fields(c.Source)...)
		}
	}
	rounds := 10000
	if race.Enabled {
		rounds = 500
	}
	for range rounds {
		var b strings.Builder
		for range 1 + rnd.IntN(25) {
			at := rnd.IntN(len(words) - 4)
			b.WriteString(strings.Join(words[at:at+1+rnd.IntN(4)], " ") + " ")
		}
		runHostile(t, b.String())
	}
}
