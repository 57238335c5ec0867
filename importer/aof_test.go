package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"redoubt/engine/mem"
	"redoubt/internal/rdbtext"
	"redoubt/rdb"
)

// resp is commands as an append-only file has them; words are separated by spaces, and a line
// that begins with # stays as it is.
func resp(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		if strings.HasPrefix(line, "#") {
			b.WriteString(line + "\r\n")
			continue
		}
		words := strings.Fields(line)
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			w = strings.ReplaceAll(w, "_", " ")
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	return b.String()
}

func loadAOF(t testing.TB, in io.Reader, last bool, o Options) (map[string]string, Result, error) {
	t.Helper()
	eng := mem.New()
	r, err := run(t, eng, o, func(i *Import) error { return i.AOF(in, 0, last) })
	sound(t, eng)
	if dead(t, eng) {
		t.Error("something is to be cleared")
	}
	return text(t, export(t, eng, 1)), r, err
}

// short is the data in a few words: the value, or the time of death.
func short(keys map[string]string) string {
	var list []string
	for _, key := range []string{"0 a", "0 b", "0 s", "1 a", "1 b", "2 a", "library #!lua name=one", "library #!lua name=two"} {
		if v, ok := keys[key]; ok {
			if strings.HasPrefix(key, "library") {
				v = "source"
			}
			v = strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(v, "expires 0\n"), "kind 1\n", ""), "\n", "|")
			list = append(list, key+"="+v)
		}
	}
	if len(list) != len(keys) {
		list = append(list, fmt.Sprint(keys))
	}
	return strings.Join(list, "; ")
}

func TestCommands(t *testing.T) {
	t.Parallel()
	one, two := "#!lua_name=one\nredis.register_function('f',function()_return_1_end)", "#!lua_name=two\nredis.register_function('g',function()_return_1_end)"
	one, two = strings.ReplaceAll(one, "register_function", "register\x00function"), strings.ReplaceAll(two, "register_function", "register\x00function")
	lib := func(cmd, source string) string {
		source = strings.ReplaceAll(strings.ReplaceAll(source, "_", " "), "\x00", "_")
		return strings.ReplaceAll(resp(cmd+" SOURCE"), "$6\r\nSOURCE", fmt.Sprintf("$%d\r\n%s", len(source), source))
	}
	for name, c := range map[string]struct{ in, want string }{
		"nothing":             {"", ""},
		"databases":           {resp("SELECT 0", "SET a 1", "SELECT 1", "SET a 2", "SELECT 0", "INCR a"), "0 a=2; 1 a=2"},
		"a transaction":       {resp("MULTI", "SET a 1", "SELECT 1", "SET b 2", "EXEC", "SET a 3"), "0 a=1; 1 a=3; 1 b=2"},
		"lines between":       {resp("#TS:1700000000", "SET a 1", "# a comment", "SET b 2"), "0 a=1; 0 b=2"},
		"flushall":            {resp("SET a 1", "SELECT 1", "SET b 1", "FLUSHALL", "SET a 2"), "1 a=2"},
		"flushdb":             {resp("SET a 1", "SELECT 1", "SET b 1", "FLUSHDB", "SET a 2"), "0 a=1; 1 a=2"},
		"swapdb":              {resp("SET a 1", "SWAPDB 0 1", "SET b 2"), "0 b=2; 1 a=1"},
		"move and copy":       {resp("SET a 1", "MOVE a 1", "SELECT 1", "COPY a b DB 0", "COPY a a DB 2"), "0 b=1; 1 a=1; 2 a=1"},
		"flush in MULTI":      {resp("SET a 1", "MULTI", "FLUSHALL", "SET b 1", "EXEC"), "0 b=1"},
		"what does not last":  {resp("SET a 1", "PUBLISH c m", "SCRIPT LOAD x", "PING"), "0 a=1"},
		"a key that has died": {resp("SET a 1", "PEXPIREAT a 1000000", "INCR a"), "0 a=expires 1000000|2"},
		"one that died and came again": {
			resp("SET a 1 PXAT 1000000", "INCR a", "DEL a", "INCR a"), "0 a=1"},
		"times that are told": {resp("SET a 1 PXAT 1700000000000", "#TS:1700000001", "APPEND a 2"), "0 a=2"},
		"a delivery": {resp("#TS:1600000000", "XADD s 1-1 f v", "XGROUP CREATE s g 0 ENTRIESREAD 0",
			"XCLAIM s g c 0 1-1 TIME 1650000000123 RETRYCOUNT 3 FORCE JUSTID LASTID 1-1"),
			"0 s=kind 6|{1 1} [\"f\" \"v\"]|{Length:1 Last:{Ms:1 Seq:1} First:{Ms:1 Seq:1} MaxDeleted:{Ms:0 Seq:0} Added:1}" +
				"|group \"g\" {1 1} 0|consumer \"c\" 1650000000123 1650000000123|pending {1 1} 1650000000123 3"},
		"functions":         {lib("FUNCTION LOAD", one) + lib("FUNCTION LOAD REPLACE", one) + lib("FUNCTION LOAD", two) + resp("FUNCTION DELETE one"), "library #!lua name=two=source"},
		"functions flushed": {lib("FUNCTION LOAD", one) + resp("FUNCTION FLUSH") + lib("FUNCTION LOAD", two), "library #!lua name=two=source"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
				keys, r, err := loadAOF(t, in, true, options())
				if got := short(keys); got != c.want || err != nil || r.Skipped > 0 || len(c.in) > 0 && r.Commands == 0 {
					t.Errorf("%v %+v\n got %s\nwant %s", err, r, got, c.want)
				}
			}
		})
	}
}

func TestWrongCommands(t *testing.T) {
	t.Parallel()
	good := resp("SET a 1")
	at := fmt.Sprintf("at byte %d", len(good))
	for name, c := range map[string]struct{ in, want string }{
		"a module's":         {good + resp("JSON.SET a $ 1"), at + ", the command json.set: "},
		"a script":           {good + resp("EVAL x 0"), "BGREWRITEAOF"},
		"of another type":    {good + resp("RPUSH a x"), at + ", the command rpush: it is refused here: WRONGTYPE"},
		"arguments":          {good + resp("SET a"), "wrong number of arguments"},
		"a database":         {resp("SELECT 99"), "too few databases"},
		"no command":         {good + "SET a 1\r\n", at + ": no command in the format of Redis begins here"},
		"no argument":        {good + "*1\r\n+OK\r\n", "no command in the format"},
		"no library":         {resp("FUNCTION DELETE x"), "there is no library"},
		"a cut command":      {good + resp("SET b 2")[:20], at + ": the file ends within"},
		"a cut transaction":  {good + resp("MULTI", "SET b 2"), at + ": the file ends within"},
		"a length of 2^60":   {good + "*1\r\n$1152921504606846976\r\nabc", at},
		"arguments of 2^31":  {good + "*2147483648\r\n$1\r\na\r\n", at},
		"zeros behind a cut": {good + strings.Repeat("\x00", 100), at + ": no command in the format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, _, err := loadAOF(t, strings.NewReader(c.in), true, options())
			var where *CommandError
			if !errors.As(err, &where) || !strings.Contains(err.Error(), c.want) || len(keys) > 0 {
				t.Errorf("%v, want %s; %d keys", err, c.want, len(keys))
			}
			if cut := strings.HasPrefix(name, "a cut"); errors.Is(err, ErrTruncated) != cut || strings.Contains(fmt.Sprint(err), "--truncated") != cut {
				t.Errorf("%v", err)
			}
			var left []string
			o := options()
			o.Truncated, o.SkipUnknown, o.Skipped = true, true, func(what string) { left = append(left, what) }
			keys, r, err := loadAOF(t, strings.NewReader(c.in), true, o)
			switch name {
			case "a module's", "a cut command", "a cut transaction":
				if err != nil || short(keys) != "0 a=1" || len(left) != 1 || !strings.Contains(left[0], at) || (name == "a module's") != (r.Skipped == 1) {
					t.Errorf("%v %+v %q %v", err, r, left, keys)
				}
			default:
				if err == nil {
					t.Error("it is taken")
				}
			}
			if strings.HasPrefix(name, "a cut") { // of another file than the last
				if _, _, err := loadAOF(t, strings.NewReader(c.in), false, o); !errors.Is(err, ErrTruncated) {
					t.Error(err)
				}
			}
		})
	}
}

// A file of commands may begin with an RDB file.
func TestCommandsBehindAFile(t *testing.T) {
	t.Parallel()
	file := written(t, func(w *rdb.Writer) {
		w.Aux("ctime", "1600000000")
		w.Aux("aof-base", "1")
		w.Key([]byte("a"), 1650000000000).String([]byte("1"))
		must(t, w.EndKey())
		w.Key([]byte("b"), 0).String([]byte("1"))
		must(t, w.EndKey())
	})
	in := append(file, resp("INCR a", "INCR b", "BAD")...)
	eng := mem.New()
	_, err := run(t, eng, options(), func(i *Import) error {
		rest, end, err := i.RDB(bytes.NewReader(in), false)
		if err != nil {
			return err
		}
		if end != int64(len(file)) || !i.Base {
			t.Errorf("it ends at %d of %d, base %v", end, len(file), i.Base)
		}
		return i.AOF(rest, end, true)
	})
	if want := fmt.Sprintf("at byte %d, the command bad", len(in)-len(resp("BAD"))); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	in = in[:len(in)-len(resp("BAD"))]
	_, err = run(t, eng, options(), func(i *Import) error {
		rest, end, err := i.RDB(bytes.NewReader(in), false)
		must(t, err)
		return i.AOF(rest, end, true)
	})
	must(t, err)
	rdbtext.Same(t, text(t, export(t, eng, 1)), map[string]string{"0 a": "expires 1650000000000\nkind 1\n2", "0 b": "expires 0\nkind 1\n2"})
}

func TestParts(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"file a.2.incr.aof seq 2 type i\nfile a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type i\nfile old seq 1 type h\n": "[{a.1.base.rdb 1 true} {a.1.incr.aof 1 false} {a.2.incr.aof 2 false}]",
		"# a comment\n\nfile \"a b\" seq 10 type i startoffset 5\nfile c seq 9 type i":                                            "[{c 9 false} {a b 10 false}]",
		"":                       "the manifest names no files",
		"file a seq 1 type x":    `line 1 of the manifest has the unknown type "x"`,
		"file ../a seq 1 type i": "line 1 of the manifest names no file of the directory",
		"seq 1 type i":           "line 1 of the manifest names no file of the directory",
		"\nfile a seq x type i":  "line 2 of the manifest: seq",
		"file a seq":             "line 1 of the manifest is not pairs of words",
		"file \"a seq 1 type i":  "line 1 of the manifest is not pairs of words",
		"file a seq 1 type b\nfile b seq 2 type b": "the manifest names two bases",
	} {
		list, err := Parts(in)
		got := fmt.Sprint(list)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// FuzzAOF reads anything as commands.
func FuzzAOF(f *testing.F) {
	f.Add([]byte(resp("SELECT 0", "SET a 1", "#TS:1700000000", "MULTI", "INCR a", "EXEC", "SWAPDB 0 1")))
	f.Add([]byte("*3\r\n$3\r\nSET\r\n$1152921504606846976\r\nabc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, truncated := range []bool{false, true} {
			o := options()
			o.Truncated, o.SkipUnknown = truncated, true
			one, r, err := loadAOF(t, bytes.NewReader(in), true, o)
			two, again, err2 := loadAOF(t, iotest.OneByteReader(bytes.NewReader(in)), true, o)
			if fmt.Sprint(err) != fmt.Sprint(err2) || r != again || fmt.Sprint(one) != fmt.Sprint(two) {
				t.Fatalf("%+v %v, byte by byte %+v %v", r, err, again, err2)
			}
		}
	})
}
