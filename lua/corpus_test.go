package lua_test

import (
	"path/filepath"
	"strings"
	"testing"

	"redoubt/lua/internal/corpus"
)

// Every chunk of the corpus gives what a real Redis gave for it: see
// lua/oracle, which records it.
func TestCorpus(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			cases, err := corpus.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			h := corpus.NewHost(t, "testdata/harness.lua")
			for _, c := range cases {
				if got := h.Run(c.Source); got != c.Result {
					t.Errorf("%s:%d: %s\n got %s\nwant %s", file, c.Line, c.Source, got, c.Result)
				}
			}
		})
	}
}
