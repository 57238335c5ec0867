package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tree is the files and directories of the module, as slash-separated paths below
// root.
type tree struct {
	files, dirs map[string]bool
	bases       map[string][]string // the files of each base name
}

func readTree(t *testing.T) *tree {
	t.Helper()
	all := &tree{files: make(map[string]bool), dirs: make(map[string]bool), bases: make(map[string][]string)}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		switch rel = filepath.ToSlash(rel); {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || rel == "bin"):
			return fs.SkipDir
		case d.IsDir():
			all.dirs[rel] = true
		default:
			all.files[rel] = true
			all.bases[path.Base(rel)] = append(all.bases[path.Base(rel)], rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// has reports whether a file or directory has this name: from the root, from dir, or
// by the end of its path.
func (all *tree) has(name, dir string) bool {
	name = strings.TrimSuffix(name, "/")
	for _, p := range []string{path.Clean(name), path.Join(dir, name)} {
		if all.files[p] || all.dirs[p] {
			return true
		}
	}
	for _, p := range all.bases[path.Base(name)] {
		if strings.HasSuffix(p, "/"+name) {
			return true
		}
	}
	if strings.Contains(name, "*") {
		for p := range all.files {
			ok, err := path.Match(name, p)
			if base, err2 := path.Match(name, path.Base(p)); err == nil && err2 == nil && (ok || base) {
				return true
			}
		}
	}
	return false
}

var (
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	fence    = regexp.MustCompile("(?ms)^```.*?^```|^    .*?$")
	fileName = regexp.MustCompile(`[\w*][\w./*-]*\.(?:go|md)\b`)
	dirName  = regexp.MustCompile("`([a-z]+(?:/[a-z_]+)+)/?`")
	adr      = regexp.MustCompile(`\badr/(\d{4})\b`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notWord  = regexp.MustCompile(`[^\pL\pN _-]`)
)

// anchors are the names that the headings of a text have on the pages of a forge.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(notWord.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// Links of Markdown files lead somewhere, and the files and packages that texts name
// are there: who moves a file corrects what is written of it. Records of docs/bench
// and the change log tell of their day; there only links count.
func TestTextsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	all := readTree(t)
	tops := make(map[string]bool)
	for d := range all.dirs {
		top, _, _ := strings.Cut(d, "/")
		tops[top] = true
	}
	texts := 0
	for file := range all.files {
		if path.Ext(file) != ".md" || strings.Contains(file, "testdata/") {
			continue
		}
		texts++
		text := read(t, file)
		dir := path.Dir(file)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			where, anchor, _ := strings.Cut(m[1], "#")
			target := path.Join(dir, where)
			if where == "" {
				target = file
			}
			if !all.files[target] && !all.dirs[target] {
				t.Errorf("%s: the link %s leads nowhere", file, m[1])
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: the link %s leads to no heading", file, m[1])
			}
		}
		if file == "CHANGELOG.md" || dir == "docs/bench" {
			continue
		}
		prose := fence.ReplaceAllString(text, "")
		for _, name := range fileName.FindAllString(prose, -1) {
			if !all.has(name, dir) {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
		for _, m := range dirName.FindAllStringSubmatch(prose, -1) {
			if top, _, _ := strings.Cut(m[1], "/"); tops[top] && !all.has(m[1], dir) {
				t.Errorf("%s names %s, which is not there", file, m[1])
			}
		}
		for _, m := range adr.FindAllStringSubmatch(prose, -1) {
			if !all.has("docs/adr/"+m[1]+"-*.md", dir) {
				t.Errorf("%s names decision %s, which is not there", file, m[1])
			}
		}
	}
	if texts < 20 {
		t.Fatalf("only %d texts were looked at", texts)
	}
}

// A directory of records has a page that links all of them.
func TestRecordsAreLinked(t *testing.T) {
	t.Parallel()
	all := readTree(t)
	for _, dir := range []string{"docs/adr", "docs/bench"} {
		page := read(t, dir+"/README.md")
		for file := range all.files {
			if path.Dir(file) == dir && file != dir+"/README.md" && !strings.Contains(page, "("+path.Base(file)+")") {
				t.Errorf("%s/README.md does not link %s", dir, path.Base(file))
			}
		}
	}
}

// Comments name files of the module and decisions that are there.
func TestCommentsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	all := readTree(t)
	n := 0
	for file := range all.files {
		if path.Ext(file) != ".go" || strings.Contains(file, "testdata/") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, read(t, file), parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range f.Comments {
			n++
			text := g.Text()
			for _, name := range fileName.FindAllString(text, -1) {
				if !all.has(name, path.Dir(file)) && !foreign(f, name) {
					t.Errorf("%s: a comment names %s, which is not there", set.Position(g.Pos()), name)
				}
			}
			for _, m := range adr.FindAllStringSubmatch(text, -1) {
				if !all.has("docs/adr/"+m[1]+"-*.md", "") {
					t.Errorf("%s: a comment names decision %s, which is not there", set.Position(g.Pos()), m[1])
				}
			}
		}
	}
	if n < 5000 {
		t.Fatalf("only %d comments were looked at", n)
	}
}

// foreign reports whether a name that a comment mentions is of a module that the file
// imports.
func foreign(f *ast.File, name string) bool {
	first, _, ok := strings.Cut(name, "/")
	return ok && slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
		return strings.Contains(strings.Trim(i.Path.Value, `"`), first) && !strings.HasPrefix(i.Path.Value, `"redoubt/`)
	})
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
