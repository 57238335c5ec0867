package command_test

import (
	"regexp"
	"testing"

	"redoubt/command"
	"redoubt/command/commandtest"
)

// The notation can say everything that Redis's argument trees say: each of them
// is written in it, read again and written once more.
func TestSyntaxOfRecordedTrees(t *testing.T) {
	recorded, err := commandtest.Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range recorded {
		want := commandtest.Format(r.Args())
		args, err := command.ParseSyntax(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := commandtest.Format(args); got != want {
			t.Errorf("%s:\n  got  %s\n  want %s", name, got, want)
		}
	}
}

// What may be written shorter than Format does.
func TestSyntaxShorthands(t *testing.T) {
	for _, test := range [][2]string{
		{"", ""},
		{"key", "key"},
		{"key ...", "key..."},
		{"key...", "key..."},
		{"[key]", "[key]"},
		{"[field ...]", "[field...]"},
		{"[field]...", "[field...]"},
		{"[NX|XX]", "[condition=<NX|XX>]"},
		{"[ASYNC|SYNC]", "[flush-type=<ASYNC|SYNC>]"},
		{"(key value)...", "data=(key value)..."},
		{"[LIMIT offset:integer count:integer]", "[LIMIT limit=(offset:integer count:integer)]"},
		{"[COUNT count:integer [ANY]]", "[count-block=(COUNT count:integer [ANY])]"},
		{"<FROMMEMBER member|FROMLONLAT longitude:double latitude:double>",
			"option=<FROMMEMBER member|FROMLONLAT fromlonlat=(longitude:double latitude:double)>"},
		{"[GET pattern:pattern]...", "[GET pattern:pattern]..."},
		{"[WEIGHTS weight:integer...]", "[WEIGHTS weight:integer...]"},
		{"[AGGREGATE <SUM|MIN|MAX>]", "[AGGREGATE aggregate=<SUM|MIN|MAX>]"},
		{"source:key destination:key", "source:key destination:key"},
		{"[EX seconds:integer|KEEPTTL]@6.0.0", "[expiration=<EX seconds:integer|KEEPTTL>]@6.0.0"},
		{"[WITHSCORE]@7.2.0", "[WITHSCORE]@7.2.0"},
		{"<NO ONE|host port:integer>", "option=<no-block=(NO ONE)|data=(host port:integer)>"},
	} {
		args, err := command.ParseSyntax(test[0])
		if err != nil {
			t.Error(err)
			continue
		}
		if got := commandtest.Format(args); got != test[1] {
			t.Errorf("%s:\n  got  %s\n  want %s", test[0], got, test[1])
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, s := range []string{"[", "]", "[]", "<a|>", "<>", "(a", "a)", "...", "a:b", "x=", ":integer", "a#x", "a'b", "a@", "[a|b", "a|b", ". ...", "a.b"} {
		if args, err := command.ParseSyntax(s); err == nil {
			t.Errorf("%q was read as %s", s, commandtest.Format(args))
		}
	}
}

var letters = regexp.MustCompile(`^(?:[A-Za-z]|[A-Za-z]-[A-Za-z]|[][<>()|.: ])*$`)

func FuzzSyntax(f *testing.F) {
	recorded, err := commandtest.Load("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range recorded {
		f.Add(commandtest.Format(r.Args()))
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, err := command.ParseSyntax(s)
		if err != nil || !letters.MatchString(s) {
			return // names may hold what Format does not quote, tokens may be names
		}
		again, err := command.ParseSyntax(commandtest.Format(args))
		if err != nil {
			t.Fatalf("%q became %q: %v", s, commandtest.Format(args), err)
		}
		if a, b := commandtest.Format(args), commandtest.Format(again); a != b {
			t.Errorf("%q became %q and then %q", s, a, b)
		}
	})
}
