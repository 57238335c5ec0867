package lib_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/lua"
	"redoubt/lua/lib"
)

var record = flag.Bool("record", false, "write what a real Redis of version 7.2 answers into the corpus (REDIS_SERVER names it)")

// A corpus file has snippets, lines that begin with '>', each followed by what
// a real Redis returned, one value a line. Our interpreter never writes it.
type snippet struct {
	line int
	code string
	want string
}

func corpus(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	return files
}

// parse gives the snippets of a corpus file. With answers, those are written
// instead of the recorded ones, and the text of the file is returned.
func parse(t *testing.T, file string, answer func(code string) string) ([]snippet, string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []snippet
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i := 0; i < len(lines); {
		if !strings.HasPrefix(lines[i], "> ") {
			out.WriteString(lines[i] + "\n")
			i++
			continue
		}
		s := snippet{line: i + 1, code: strings.TrimPrefix(lines[i], "> ")}
		out.WriteString(lines[i] + "\n")
		i++
		var want []string
		for ; i < len(lines) && lines[i] != "" && !strings.HasPrefix(lines[i], "> ") && !strings.HasPrefix(lines[i], "# "); i++ {
			want = append(want, lines[i])
		}
		s.want = strings.Join(want, "\n")
		if answer != nil {
			out.WriteString(answer(s.code) + "\n")
		}
		all = append(all, s)
	}
	return all, out.String()
}

// interpreter runs snippets on this repository's Lua.
type interpreter struct {
	t     testing.TB
	state *lua.State
	show  lua.Value
}

func newInterpreter(t testing.TB) *interpreter {
	t.Helper()
	text, err := os.ReadFile("testdata/show.lua")
	if err != nil {
		t.Fatal(err)
	}
	p, err := lua.Compile(string(text), "user_script")
	if err != nil {
		t.Fatalf("compile show.lua: %v", err)
	}
	s := lua.New()
	lib.Open(s)
	return &interpreter{t: t, state: s, show: s.Load(p)}
}

func (in *interpreter) run(code string) string {
	in.t.Helper()
	argv := in.state.NewTable(1, 0)
	if err := argv.SetInt(1, lua.String(code)); err != nil {
		in.t.Fatal(err)
	}
	if err := in.state.Globals().SetStr("ARGV", argv.Value()); err != nil {
		in.t.Fatal(err)
	}
	res, err := in.state.Call(in.show)
	if err != nil {
		return "aborted: " + err.Error()
	}
	if len(res) != 1 {
		in.t.Fatalf("%d results", len(res))
	}
	return res[0].Str()
}

// TestCorpus compares with what a real Redis returned when the corpus was recorded.
func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, file := range corpus(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			in := newInterpreter(t)
			all, _ := parse(t, file, nil)
			for _, s := range all {
				if s.want == "" {
					t.Errorf("%s:%d: nothing is recorded", file, s.line)
					continue
				}
				if got := in.run(s.code); got != s.want {
					t.Errorf("%s:%d: %s\ngot  %s\nwant %s", file, s.line, s.code, got, s.want)
				}
			}
		})
	}
}

// TestReset: what a script has set is gone for the next one.
func TestReset(t *testing.T) {
	t.Parallel()
	s := lua.New()
	reset := lib.Open(s)
	l := libs{t, s}
	if _, err := l.run(0, "cjson.encode_number_precision(3) cjson.decode_max_depth(1) cjson.encode_sparse_array(true)", ""); err != nil {
		t.Fatal(err)
	}
	const probe = "return cjson.encode({1.23456, {[100] = 1}, cjson.decode_max_depth()})"
	for _, want := range []string{`[1.23,{"100":1},1]`, "user_script:1: Cannot serialise table: excessively sparse array"} {
		res, err := l.run(0, probe, "")
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = res[0].Str()
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
		reset()
	}
}
