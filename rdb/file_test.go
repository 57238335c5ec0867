package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// fileKey is what a file says of a key.
type fileKey struct {
	db     int
	expire int64
	text   string
}

// readFile reads a file as text; errors of keys that are empty are left out.
func readFile(in io.Reader, o Options) (f *File, keys map[string]fileKey, others []string, err error) {
	if f, err = NewFile(in, o); err != nil {
		return f, nil, nil, err
	}
	keys = make(map[string]fileKey)
	for {
		i, err := f.Next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return f, keys, others, err
		}
		switch i.What {
		case Key:
			name := string(i.Key)
			if i.Idle >= 0 || i.Freq >= 0 {
				others = append(others, "used")
			}
			var d describer
			if i.Value.Kind == Module {
				module, version := i.Value.ModuleName()
				d.line("module %s %d", module, version)
				err = i.Value.Skip()
			} else {
				err = d.visit(i.Value)
			}
			if errors.Is(err, ErrEmpty) {
				continue
			}
			if err != nil {
				return f, keys, others, f.Failed(err)
			}
			if _, twice := keys[name]; twice {
				return f, keys, others, fmt.Errorf("%w: %q comes twice", ErrFormat, name)
			}
			text := d.text(i.Value.Kind)
			if i.Value.Kind == Module {
				text = d.stream.String()
			}
			keys[name] = fileKey{i.DB, i.Expire, text}
		case Aux:
			others = append(others, fmt.Sprintf("aux %s", i.Name))
		case Library:
			others = append(others, fmt.Sprintf("library %s", i.Text))
		case Size:
			others = append(others, fmt.Sprintf("size %d %d %d", i.DB, i.Keys, i.Volatile))
		case ModuleAux:
			others = append(others, fmt.Sprintf("module aux %s", i.Name))
		}
	}
}

// recordedRDB are the files that servers wrote.
func recordedRDB(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/file-*.rdb")
	if err != nil || len(files) < 4 {
		t.Fatalf("recorded files: %v %v", files, err)
	}
	return files
}

func load(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Files of versions 9 to 12 are read as what the servers had, however the bytes come.
func TestRecordedFiles(t *testing.T) {
	t.Parallel()
	wants := make(map[string]string)
	for _, s := range samples() {
		wants[s.name] = s.wanted()
	}
	versions, used := make(map[int]bool), 0
	for _, path := range recordedRDB(t) {
		b := load(t, path)
		for name, in := range map[string]io.Reader{
			"whole": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b)),
			"with its error": iotest.DataErrReader(bytes.NewReader(b)), "in halves": iotest.HalfReader(bytes.NewReader(b)),
		} {
			f, keys, others, err := readFile(in, Options{})
			if err != nil || f.Unchecked || f.Offset() != int64(len(b)) {
				t.Fatalf("%s, %s: %v, unchecked %v, at %d of %d", path, name, err, f.Unchecked, f.Offset(), len(b))
			}
			versions[f.Version] = true
			if keys["expiring"] != (fileKey{0, 4000000000123, `"late"`}) || keys["elsewhere"] != (fileKey{3, 0, `"in database 3"`}) {
				t.Errorf("%s, %s: %v %v", path, name, keys["expiring"], keys["elsewhere"])
			}
			delete(keys, "expiring")
			delete(keys, "elsewhere")
			if len(keys) < 68 {
				t.Errorf("%s, %s: only %d samples", path, name, len(keys))
			}
			for key, got := range keys {
				want := wants[key]
				if f.Version == 9 && strings.HasPrefix(key, "stream") {
					// Redis 6.2 did not know how many entries there ever were.
					if first, _, _ := strings.Cut(want, "length"); !strings.HasPrefix(got.text, first) {
						t.Errorf("%s: %s is %s", path, key, got.text)
					}
					continue
				}
				if got.text != want || got.db != 0 || got.expire != 0 {
					t.Errorf("%s, %s: %s is %.300s\nwant %.300s", path, name, key, got.text, want)
				}
			}
			all := strings.Join(others, "\n")
			if !strings.Contains(all, "aux redis-ver") || !strings.Contains(all, "aux ctime") || !strings.Contains(all, "size 3 1 0") ||
				strings.Contains(all, "library "+FileLibrary) != (f.Version >= 10) {
				t.Errorf("%s, %s: %s", path, name, all)
			}
			used += strings.Count(all, "used")
		}
	}
	if len(versions) != 4 || !versions[9] || !versions[12] || used < 1000 {
		t.Errorf("versions %v, %d keys with their use", versions, used)
	}
}

// Values may be passed over, and what follows the file is not touched.
func TestFileIsFollowed(t *testing.T) {
	t.Parallel()
	for _, path := range recordedRDB(t) {
		b := append(load(t, path), "*1\r\n$4\r\nPING\r\n"...)
		f, err := NewFile(io.MultiReader(bytes.NewReader(b), strings.NewReader("and more")), Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for err == nil {
			var i *Item
			if i, err = f.Next(); err == nil && i.What == Key {
				n++
			}
		}
		rest, restErr := io.ReadAll(f.Rest())
		if err != io.EOF || n < 70 || restErr != nil || string(rest) != "*1\r\n$4\r\nPING\r\nand more" {
			t.Errorf("%s: %v, %d keys, behind it %q, %v", path, err, n, rest, restErr)
		}
	}
}

// A file that is cut anywhere, or has any bit wrong, is refused.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	b := sampleFile(t)
	if _, _, _, err := readFile(bytes.NewReader(b), Options{}); err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		_, _, _, err := readFile(bytes.NewReader(b[:n]), Options{})
		if !errors.Is(err, ErrFormat) || errors.Is(err, ErrChecksum) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	for n := range 8 * len(b) {
		bad := bytes.Clone(b)
		bad[n/8] ^= 1 << (n % 8)
		_, _, _, err := readFile(bytes.NewReader(bad), Options{})
		if err == nil || !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion) {
			t.Fatalf("bit %d: %v", n, err)
		}
	}
	broken := errors.New("the disk is gone")
	_, _, _, err := readFile(io.MultiReader(bytes.NewReader(b[:len(b)/2]), iotest.ErrReader(broken)), Options{})
	if !errors.Is(err, broken) || errors.Is(err, ErrFormat) {
		t.Errorf("a read that fails: %v", err)
	}
}

// sampleFile is a file with a key of each kind.
func sampleFile(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, VersionRedis74)
	w.Aux("redis-ver", "7.4.1")
	w.Library([]byte(FileLibrary))
	w.Database(0, 7, 1)
	w.Key([]byte("string"), 4000000000000).String([]byte("abcdabcdabcdabcdabcdabcdabcdabcd"))
	must(t, w.EndKey())
	e := w.Key([]byte("list"), 0)
	e.BeginList()
	e.Element([]byte("12"))
	e.Element([]byte("a"))
	must(t, w.EndKey())
	e = w.Key([]byte("set"), 0)
	e.BeginSet()
	e.Element([]byte("m"))
	must(t, w.EndKey())
	e = w.Key([]byte("zset"), 0)
	e.BeginZSet()
	e.Member([]byte("m"), 1.5)
	must(t, w.EndKey())
	e = w.Key([]byte("hash"), 0)
	e.BeginTimedHash(4000000000000)
	e.Field([]byte("f"), []byte("v"), 4000000000000)
	must(t, w.EndKey())
	w.Database(2, 2, 0)
	e = w.Key([]byte("stream"), 0)
	e.BeginStream(true)
	e.Entry(ID{1, 1}, [][]byte{[]byte("a"), []byte("b")})
	e.EndEntries(StreamInfo{Length: 1, Last: ID{1, 1}, First: ID{1, 1}, Added: 1})
	e.BeginGroup([]byte("g"), ID{1, 1}, 1)
	e.GroupPending(ID{1, 1}, 5, 1)
	e.EndPending()
	e.BeginConsumer([]byte("c"), 5, 5)
	e.ConsumerPending(ID{1, 1})
	must(t, w.EndKey())
	e = w.Key([]byte("module"), 0)
	e.BeginModule("redoubtch", 1)
	e.Uint(7)
	e.Bytes([]byte("text"))
	e.EndModule()
	must(t, w.EndKey())
	must(t, w.End())
	if w.Bytes() != int64(b.Len()) {
		t.Fatalf("%d bytes were counted, %d written", w.Bytes(), b.Len())
	}
	return b.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// made is a file of some bytes behind its head, with a checksum.
func made(version int, items string) []byte {
	b := fmt.Appendf(nil, "REDIS%04d%s\xff", version, items)
	return binary.LittleEndian.AppendUint64(b, Checksum(0, b))
}

// long is a length of 8 bytes.
func long(n uint64) string { return string(binary.BigEndian.AppendUint64([]byte{len64}, n)) }

// Not parallel: it measures what is allocated.
func TestFileItems(t *testing.T) {
	redisJSON := long(moduleID("ReJSON-RL", 3))
	module := redisJSON + "\x02\x05\x01\x07\x03abcd\x0412345678\x05\x03abc\x05\xc0\x05\x05\xc3\x04\x20\x02aaa\x00"
	for name, c := range map[string]struct {
		items string
		want  string // of the items, or of the error
		err   error
	}{
		"slot info":                     {items: "\xfe\x00\xf4\x01\x02\x03\x00\x01k\x01v", want: `k 0 0 "v"`},
		"seconds":                       {items: "\xfd\x01\x00\x00\x00\x00\x01k\x01v", want: `k 0 1000 "v"`},
		"a time before all times":       {items: "\xfc\x00\x00\x00\x00\x00\x00\x00\x80\x00\x01k\x01v", want: `k 0 1 "v"`},
		"no time":                       {items: "\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x00\x01k\x01v", want: `k 0 0 "v"`},
		"use":                           {items: "\xf8\x05\xf9\x07\x00\x01k\x01v", want: `k 0 0 "v"`},
		"an integer as a key":           {items: "\x00\xc0\x05\x01v", want: `5 0 0 "v"`},
		"an empty key":                  {items: "\x00\x00\x01v", want: ` 0 0 "v"`},
		"an empty string":               {items: "\x00\x01k\x00", want: `k 0 0 ""`},
		"empty collections":             {items: "\x02\x01k\x00\x12\x01l\x00\x04\x01m\x00\x00\x01n\x01v", want: `n 0 0 "v"`},
		"a module":                      {items: "\x07\x01k" + module + "\x00\x01n\x01v", want: "k 0 0 module ReJSON-RL 3\n\nn 0 0 \"v\""},
		"what a module has besides":     {items: "\xf7" + redisJSON + "\x02\x01\x05\x03abc\x00\x00\x01n\x01v", want: `n 0 0 "v"`},
		"a module of before 4.0":        {items: "\x06\x01k\x01", err: ErrFormat, want: `in key "k" of database 0: bad data format: a module's value as Redis before 4.0`},
		"an unknown type":               {items: "\xfe\x02\x1f\x03key\x01", err: ErrFormat, want: `at byte 16, in key "key" of database 2: bad data format: type 31`},
		"functions of a candidate":      {items: "\xf6\x01f", err: ErrEarlyFunction, want: "at byte 10: "},
		"an opcode after a time":        {items: "\xfd\x01\x00\x00\x00\xfe\x01\x00\x01k\x01v", err: ErrFormat},
		"the end after a time":          {items: "\xfd\x01\x00\x00\x00", err: ErrFormat},
		"a database of a large number":  {items: "\xfe" + long(1<<40), err: ErrFormat},
		"a packed part that lies":       {items: "\x10\x01k\x03abc", err: ErrFormat, want: `in key "k" of database 0: bad data format: the head of a packed`},
		"a node that is empty":          {items: "\x12\x01k\x01\x01\x00", err: ErrFormat, want: "a list's node is empty"},
		"a pending entry twice":         {items: "\x15\x01k\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01g\x00\x00\x00\x02" + strings.Repeat("\x00", 50), err: ErrFormat},
		"compressed to nothing":         {items: "\x00\x01k\xc3\x02\x7f\x00a", err: ErrFormat},
		"a string in another encoding":  {items: "\x00\x01k\xc4", err: ErrFormat},
		"a module with a strange part":  {items: "\x07\x01k" + redisJSON + "\x09", err: ErrFormat},
		"a module without a name":       {items: "\x07\x01k\x00\x00", err: ErrFormat},
		"a set with a member of 2^60":   {items: "\x02\x01k\x01" + long(1<<60), err: ErrFormat},
		"a set of 2^60 members":         {items: "\x02\x01k" + long(1<<60) + "\x01a", err: ErrFormat},
		"a set of 2^64-1 members":       {items: "\x02\x01k" + long(1<<64-1) + "\x01a", err: ErrFormat},
		"a string of 500 MB":            {items: "\x00\x01k" + long(500<<20) + "abc", err: ErrFormat},
		"a key of 500 MB":               {items: "\x00" + long(500<<20) + "abc", err: ErrFormat},
		"a packed part of 500 MB":       {items: "\x10\x01k" + long(500<<20) + "abc", err: ErrFormat},
		"a compressed string of 500 MB": {items: "\x00\x01k\xc3" + long(500<<20) + long(500<<20) + "abc", err: ErrFormat},
		"a compressed part of 500 MB":   {items: "\x10\x01k\xc3" + long(500<<20) + long(500<<20) + "abc", err: ErrFormat},
		"a hash of 2^60 fields":         {items: "\x04\x01k" + long(1<<60) + "\x01a\x01b", err: ErrFormat},
		"a list of 2^60 nodes":          {items: "\x12\x01k" + long(1<<60) + "\x01\x01a", err: ErrFormat},
		"2^60 pending entries":          {items: "\x15\x01k\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01g\x00\x00\x00" + long(1<<59), err: ErrFormat},
		"a module's string of 2^62":     {items: "\x07\x01k" + redisJSON + "\x05" + long(1<<62), err: ErrFormat},
	} {
		t.Run(name, func(t *testing.T) {
			// Each may need a window, and what grows with what is there.
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, keys, _, err := readFile(bytes.NewReader(made(12, c.items)), Options{})
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
			if c.err != nil {
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			}
			var got []string
			for _, key := range []string{"k", "n", "5", ""} {
				if k, ok := keys[key]; ok {
					got = append(got, fmt.Sprintf("%s %d %d %s", key, k.db, k.expire, k.text))
				}
			}
			if all := strings.Join(got, "\n"); err != nil || all != c.want || len(got) != len(keys) {
				t.Errorf("%v\n got %s\nwant %s", err, all, c.want)
			}
		})
	}
}

func TestFileHeads(t *testing.T) {
	t.Parallel()
	none := string(made(12, ""))
	zero := none[:len(none)-8] + strings.Repeat("\x00", 8)
	for in, want := range map[string]error{
		"": ErrNoFile, "REDIS": ErrNoFile, "*1\r\n$4\r\nPING\r\n": ErrNoFile, "REDIS00x1\xff": ErrNoFile, "REDIS0000\xff": ErrNoFile,
		string(made(13, "")): ErrVersion, string(made(80, "")): ErrVersion, none[:len(none)-1]: ErrFormat,
		none[:len(none)-1] + "x": ErrChecksum, "REDIS0004\xff": ErrVersion, string(made(5, "")): nil, none: nil, zero: nil,
	} {
		f, _, _, err := readFile(strings.NewReader(in), Options{})
		if !errors.Is(err, want) || want == nil && f.Unchecked != (in == zero) {
			t.Errorf("%.30q: %v, want %v", in, err, want)
		}
	}
	if f, _, _, err := readFile(strings.NewReader(none[:len(none)-1]+"x"), Options{SkipChecksum: true}); err != nil || f.Unchecked {
		t.Errorf("without its checksum: %v", err)
	}
	f, err := NewFile(strings.NewReader(none[:9]), Options{})
	must(t, err)
	for range 3 { // an error stays
		if _, err = f.Next(); !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	}
}
