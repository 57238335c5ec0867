package observe

import (
	"strings"
	"testing"
	"time"

	"redoubt/config"
)

func words(line string) (args [][]byte) {
	for w := range strings.FieldsSeq(line) {
		args = append(args, []byte(w))
	}
	return args
}

func line(args [][]byte) string {
	s := make([]string, len(args))
	for i, a := range args {
		s[i] = string(a)
	}
	return strings.Join(s, " ")
}

func TestRedact(t *testing.T) {
	t.Parallel()
	cfg := config.New()
	for _, c := range []struct{ in, out string }{
		{"get k", "get k"},
		{"AUTH pass", "AUTH (redacted)"},
		{"auth user pass", "auth (redacted) (redacted)"},
		{"auth", "auth"},
		{"HELLO 3", "HELLO 3"},
		{"HELLO 3 AUTH user pass SETNAME x", "HELLO 3 AUTH (redacted) (redacted) SETNAME x"},
		{"HELLO 3 setname auth auth user", "HELLO 3 setname auth (redacted) (redacted)"},
		{"hello 3 auth", "hello 3 auth"},
		{"CONFIG SET hz 1", "CONFIG SET hz 1"},
		{"CONFIG set hz 1 MasterAuth x RequirePass", "CONFIG set hz 1 MasterAuth (redacted) RequirePass"},
		{"CONFIG GET requirepass", "CONFIG GET requirepass"},
		{"ACL SETUSER u +get >p", "ACL SETUSER (redacted) (redacted) (redacted)"},
		{"ACL LIST", "ACL LIST"},
		{"MIGRATE h 1 k 0 5 AUTH p", "MIGRATE h 1 k 0 5 AUTH (redacted)"},
		{"MIGRATE h 1 k 0 5 COPY AUTH2 u p KEYS a", "MIGRATE h 1 k 0 5 COPY AUTH2 (redacted) (redacted) KEYS a"},
		{"MIGRATE h 1 auth 0 5", "MIGRATE h 1 auth 0 5"},
	} {
		in := words(c.in)
		if got := line(Redact(cfg, strings.ToLower(string(in[0])), in)); got != c.out {
			t.Errorf("%s: got %s, want %s", c.in, got, c.out)
		}
		if line(in) != c.in {
			t.Errorf("%s: the arguments were changed to %s", c.in, line(in))
		}
	}
}

func TestAbridge(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", slowArgLen)
	if got := line(abridge(words("x " + long))); got != "x "+long {
		t.Errorf("an argument of %d bytes became %s", slowArgLen, got)
	}
	if got := line(abridge(words("x " + long + "b"))); got != "x "+long+"... (1 more bytes)" {
		t.Errorf("got %s", got)
	}
	if got := abridge(words(strings.Repeat("a ", slowArgs))); len(got) != slowArgs || string(got[slowArgs-1]) != "a" {
		t.Errorf("got %d arguments, the last is %s", len(got), got[len(got)-1])
	}
	got := abridge(words(strings.Repeat("a ", slowArgs+1)))
	if len(got) != slowArgs || string(got[slowArgs-1]) != "... (2 more arguments)" {
		t.Errorf("got %d arguments, the last is %s", len(got), got[len(got)-1])
	}
}

func TestSlowlogKeepsTheNewest(t *testing.T) {
	t.Parallel()
	l := new(Slowlog)
	l.Set(0, 3)
	for i := range 10 {
		l.Add(words("ping"), "addr", "name", time.Duration(i), time.Unix(int64(i), 0))
	}
	list := l.newest(2)
	if l.Len() != 3 || len(list) != 2 || list[0].id != 9 || list[1].id != 8 || list[0].at.Unix() != 9 {
		t.Errorf("%d entries, the newest are %+v", l.Len(), list)
	}
	l.Set(0, 1)
	if l.Len() != 3 {
		t.Errorf("the limit alone made %d entries of 3", l.Len())
	}
	l.Add(words("ping"), "addr", "name", 0, time.Unix(10, 0))
	if list := l.newest(-1); len(list) != 1 || list[0].id != 10 {
		t.Errorf("got %+v", list)
	}
	l.Set(0, 3)
	l.Add(words("late"), "addr", "name", 0, time.Unix(12, 0))
	l.Add(words("early"), "addr", "name", 0, time.Unix(11, 0))
	if list := l.newest(2); line(list[0].args) != "late" || line(list[1].args) != "early" {
		t.Errorf("not in the order of their times: %+v", list)
	}
	l.reset()
	l.Set(-1, 0)
	l.Add(words("ping"), "addr", "name", 0, time.Unix(11, 0))
	if l.Len() != 0 || l.Threshold() < 1<<62 {
		t.Errorf("%d entries, threshold %v", l.Len(), l.Threshold())
	}
}
