package acl

import (
	"strings"
	"testing"
)

// FuzzRules: rules of any kind do no harm, and a user that they make is made again,
// the same, by the rules that it is shown with: as words, as a line of a file, and on
// top of itself after a reset.
func FuzzRules(f *testing.F) {
	for _, s := range []string{
		"on\nnopass\n+@all\n~*\n&*", "off\n>pw\n#ab\n!ab\n<pw", "+get\n-get\n+@read\n-@all", "%R~a\n%W~a\n%RW~*\n~b\n%",
		"(+get ~a)\n(\n+set\n)\nclearselectors", "+config|get\n-config\n+select|0\n+select|\n+config|get|x\n+psync",
		"( \"~a\" '+get' )\n(\"x)", "resetkeys\nresetchannels\n&a\n&b", "reset\nskip-sanitize-payload\n\n~\n&\n+\n-\n+@",
	} {
		f.Add(s)
	}
	r, tab := registry()
	args := call("mget a b")
	cmd := tab.Find(args)
	f.Fuzz(func(t *testing.T, text string) {
		r.Delete("u", "v")
		c, err := r.Set("u", strings.Split(text, "\n"))
		if err != nil {
			if err.Error() == "" || r.Find([]byte("u")) != nil {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		u := c.After
		u.Check(cmd, args)
		shown := u.String()
		again, err := r.Set("v", strings.Split(shown, " "))
		if err != nil {
			t.Fatalf("%q is shown as %q, which is refused: %v", text, shown, err)
		}
		if again.After.String() != shown {
			t.Fatalf("%q is shown as %q, and that as %q", text, shown, again.After)
		}
		for i, s := range u.selectors {
			o := again.After.selectors[i]
			for j := range s.commands {
				if s.commands[j] != o.commands[j] {
					t.Fatalf("%q is shown as %q, which allows other commands", text, shown)
				}
			}
		}
		if anew, err := r.Set("u", append([]string{"reset"}, strings.Split(shown, " ")...)); err != nil || anew.After.String() != shown {
			t.Fatalf("%q after a reset: %v", shown, err)
		}
		other, _ := registry()
		if _, err := other.Load("f", []byte(u.Line()+"\n")); err != nil || other.Find([]byte("u")).Load().String() != shown {
			t.Fatalf("%q in a file: %v", shown, err)
		}
	})
}
