package lint

import (
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// leastWords is how many words a package's doc comment has at the least: its name and
// one sentence tell what is inside, and a promise needs another.
const leastWords = 20

// Every package says what it is and what it promises, in one file.
func TestPackagesAreDocumented(t *testing.T) {
	t.Parallel()
	all := readTree(t)
	words := make(map[string]int)    // by directory, of the longest doc comment
	files := make(map[string]string) // where that is
	eachFile(t, func(file string, text []byte, _ []string) {
		if strings.Contains(file, "testdata/") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(file)
		if _, seen := words[dir]; !seen {
			words[dir] = 0
		}
		doc := f.Doc.Text()
		if first := "Package " + f.Name.Name + " "; doc != "" && f.Name.Name != "main" && !strings.HasPrefix(doc, first) {
			t.Errorf("%s: the doc comment does not begin with %q", file, first)
		}
		if doc != "" && files[dir] != "" {
			t.Errorf("%s and %s both have a doc comment of their package", files[dir], file)
		}
		if doc != "" {
			files[dir], words[dir] = file, len(strings.Fields(doc))
		}
	})
	for dir, n := range words {
		if n < leastWords {
			t.Errorf("%s: the doc comment has %d words; it says what the package promises in %d or more", dir, n, leastWords)
		}
	}
	if len(all.dirs) < 20 || len(words) < 60 {
		t.Fatalf("only %d packages were looked at", len(words))
	}
}
