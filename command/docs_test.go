package command

import (
	"strings"
	"testing"

	"redoubt/wire"
)

// keyTable has commands with all kinds of key specs, declared as Redis reports
// them. The keys expected below are those that Redis 7.2.6 answers.
func keyTable() *Table {
	eval := &Command{Name: "eval", Arity: -3, Flags: NoMandatoryKeys, Keys: KeyNum(2, RW|Access|Update)}
	return NewTable([]*Command{
		{Name: "get", Arity: 2, Keys: OneKey(1, RO|Access)},
		{Name: "mset", Arity: -3, Keys: KeyRange(1, -1, 2, OW|Update)},
		set,
		bitfield,
		{Name: "ping", Arity: -1},
		{Name: "object", Arity: -2, Subs: []*Command{{Name: "encoding", Arity: 3, Keys: OneKey(2, RO)}}},
		eval,
		{Name: "xread", Arity: -4, Keys: []KeySpec{{Flags: RO | Access, Begin: Begin{Keyword: "STREAMS", From: 1},
			Find: Find{Last: -1, Step: 1, Limit: 2}}}},
		sortKey,
		sortRO,
		{Name: "zunion", Arity: -3, Keys: KeyNum(1, RO|Access)},
		{Name: "zunionstore", Arity: -4, Keys: append(OneKey(1, OW|Update), KeyNum(2, RO|Access)...)},
		{Name: "ssubscribe", Arity: -2, Keys: KeyRange(1, -1, 1, NotKey)},
	})
}

// Descriptors are declared once for all tables of a process.
func TestNewTableLeavesDescriptorsAlone(t *testing.T) {
	object := &Command{Name: "object", Subs: []*Command{{Name: "freq"}}}
	first := NewTable([]*Command{{Name: "get"}, object})
	second := NewTable([]*Command{object})
	for _, d := range []*Command{object, object.Subs[0]} {
		if d.Declared != nil || d.Parent != nil || d.FullName != "" || d.ID != 0 {
			t.Errorf("%s was written to: %+v", d.Name, d)
		}
	}
	for i, table := range []*Table{first, second} {
		c := table.Find(split("OBJECT FREQ k"))
		if c.FullName != "object|freq" || c.Declared != object.Subs[0] || c.Parent != table.Lookup([]byte("object")) || c.ID != 2-i {
			t.Errorf("table %d: %+v", i, c)
		}
	}
}

func TestChannelSpecRange(t *testing.T) {
	for _, test := range []struct {
		spec     ChannelSpec
		n        int
		from, to int
	}{
		{ChannelSpec{}, 3, 0, 0},
		{ChannelSpec{First: 1, Flags: Publish}, 3, 1, 2},
		{ChannelSpec{First: 1, Last: -1, Flags: Subscribe}, 4, 1, 4},
		{ChannelSpec{First: 1, Flags: Publish}, 1, 1, 1},
	} {
		if from, to := test.spec.Range(test.n); from != test.from || to != test.to {
			t.Errorf("%+v of %d arguments: %d to %d, want %d to %d", test.spec, test.n, from, to, test.from, test.to)
		}
	}
}

func TestGetKeys(t *testing.T) {
	table := keyTable()
	for _, test := range []struct{ call, want string }{
		{"GET key", "key"},
		{"MSET a 1 b 2 c 3", "a b c"},
		{"OBJECT ENCODING k", "k"},
		{"EVAL s 2 k1 k2 a1", "k1 k2"},
		{"XREAD COUNT 1 STREAMS s1 s2 0 0", "s1 s2"},
		{"SORT k BY w_* GET get STORE out1 LIMIT 0 store STORE out2", "k out2"},
		{"SORT k STORE", "k"},
		{"SORT_RO k BY STORE", "k"},
		{"ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"},
		{"EVAL s 0", ""},
		{"EVAL s x", ""},
		{"ZUNION 0 a", "ERR Invalid arguments specified for command"},
		{"ZUNION 3 a b", "ERR Invalid arguments specified for command"},
		{"PING", "ERR The command has no key arguments"},
		{"SSUBSCRIBE c", "ERR The command has no key arguments"},
		{"NOSUCH a", "ERR Invalid command specified"},
		{"OBJECT NOSUCH a", "ERR Invalid command specified"},
		{"GET", "ERR Invalid number of arguments specified for command"},
		{"GET a b", "ERR Invalid number of arguments specified for command"},
	} {
		w := &wire.Writer{Proto: 2}
		got := ""
		if err := WriteKeys(table, split(test.call), false, w); err != nil {
			got = err.Error()
		} else {
			got = strings.Join(bulks(string(w.Buf)), " ")
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.call, got, test.want)
		}
	}
}

func TestGetKeysAndFlags(t *testing.T) {
	table := keyTable()
	for _, test := range []struct{ call, want string }{
		{"SET k v", "*1\r\n*2\r\n$1\r\nk\r\n~2\r\n+OW\r\n+update\r\n"},
		{"SET k v PX 10 get", "*1\r\n*2\r\n$1\r\nk\r\n~3\r\n+RW\r\n+access\r\n+update\r\n"},
		{"BITFIELD k GET u8 0 OVERFLOW WRAP", "*1\r\n*2\r\n$1\r\nk\r\n~2\r\n+RO\r\n+access\r\n"},
		{"BITFIELD k GET u8 0 SET u8 0 1", "*1\r\n*2\r\n$1\r\nk\r\n~3\r\n+RW\r\n+access\r\n+update\r\n"},
		{"SORT k STORE d", "*2\r\n*2\r\n$1\r\nk\r\n~2\r\n+RO\r\n+access\r\n*2\r\n$1\r\nd\r\n~2\r\n+OW\r\n+update\r\n"},
		{"EVAL s 0", "*0\r\n"},
	} {
		w := &wire.Writer{Proto: 3}
		if err := WriteKeys(table, split(test.call), true, w); err != nil || string(w.Buf) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.call, w.Buf, err, test.want)
		}
	}
}

// A reply must have as many elements as its headings say, for every command and
// in both protocols, or the connection is out of step from there on.
func TestRepliesAreWellFormed(t *testing.T) {
	table := NewTable(All()...)
	for _, proto := range []int{2, 3} {
		for name, write := range map[string]func(*wire.Writer) error{
			"COMMAND":      func(w *wire.Writer) error { WriteInfo(table, nil, w); return nil },
			"COMMAND DOCS": func(w *wire.Writer) error { WriteDocs(table, nil, w); return nil },
			"COMMAND LIST": func(w *wire.Writer) error { return WriteList(table, nil, w) },
		} {
			w := &wire.Writer{Proto: proto}
			if err := write(w); err != nil {
				t.Fatal(err)
			}
			rest, ok := skipReply(string(w.Buf))
			if !ok || rest != "" {
				t.Errorf("%s in RESP%d: ok is %v, %d bytes are left", name, proto, ok, len(rest))
			}
		}
	}
}

func TestHelpSyntax(t *testing.T) {
	for _, test := range [][2]string{
		{"key", "<key>"},
		{"[command-name...]", "[<command-name> ...]"},
		{"key...", "<key> [<key> ...]"},
		{"action=<ON|OFF|SKIP>", "(ON|OFF|SKIP)"},
		{"[ASYNC|SYNC]", "[ASYNC|SYNC]"},
		{"[FILTERBY <MODULE module-name|ACLCAT category>]", "[FILTERBY (MODULE <module-name>|ACLCAT <category>)]"},
		{"old-format'ip:port'", "<ip:port>"},
		{"(parameter value)...", "<parameter> <value> [<parameter> <value> ...]"},
		{"[PREFIX prefix]...", "[PREFIX <prefix> [PREFIX <prefix> ...]]"},
		{"[ID client-id:integer...]@7.0.0", "[ID <client-id> [<client-id> ...]]"},
	} {
		args, err := ParseSyntax(test[0])
		if got := helpSyntax(args); err != nil || got != test[1] {
			t.Errorf("%s: got %s, %v, want %s", test[0], got, err, test[1])
		}
	}
}

func split(call string) (out [][]byte) {
	for _, word := range strings.Fields(call) {
		out = append(out, []byte(word))
	}
	return out
}

// bulks are the byte strings of a reply.
func bulks(reply string) (out []string) {
	lines := strings.Split(reply, "\r\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "$") {
			out = append(out, lines[i+1])
		}
	}
	return out
}

// skipReply cuts one whole reply off.
func skipReply(s string) (rest string, ok bool) {
	head, rest, ok := strings.Cut(s, "\r\n")
	if !ok || head == "" {
		return "", false
	}
	n := 0
	for _, c := range head[1:] {
		n = n*10 + int(c-'0')
	}
	switch head[0] {
	case '+', ':', '_':
		return rest, true
	case '$':
		if len(rest) < n+2 {
			return "", false
		}
		return rest[n+2:], true
	case '%':
		n *= 2
	case '*', '~':
	default:
		return "", false
	}
	for ; n > 0 && ok; n-- {
		rest, ok = skipReply(rest)
	}
	return rest, ok
}
