package rdb_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"redoubt/rdb"
)

// recordedLibraries is what FUNCTION DUMP of Redis 7.2.6 gave for two libraries, one
// of them compressed.
const recordedLibraries = "" +
	"f5c3405041171823216c7561206e616d653d620a6c6f63616c2074203d202230e0be001e220a72656469732e72656769737465725f66756e6374696f" +
	"6e282762272c20e0000d07292072657475726e20fd03656e6429f5404423216c7561206e616d653d610a72656469732e72656769737465725f66756e" +
	"6374696f6e282761272c2066756e6374696f6e28292072657475726e2027612720656e64290b00740708cbb7c884fa"

func TestLibraries(t *testing.T) {
	t.Parallel()
	payload, err := hex.DecodeString(recordedLibraries)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := rdb.Libraries(payload)
	if err != nil || len(sources) != 2 {
		t.Fatalf("%q, %v", sources, err)
	}
	all := strings.Join(sources, "\n")
	for _, part := range []string{"#!lua name=a\n", "#!lua name=b\n", "register_function('a'", strings.Repeat("0", 200)} {
		if !strings.Contains(all, part) {
			t.Errorf("%q is missing in %q", part, sources)
		}
	}
	for _, list := range [][]string{nil, {"#!lua name=x\n"}, sources, {strings.Repeat("x", 100000), "y"}} {
		again, err := rdb.Libraries(rdb.AppendLibraries(nil, list))
		if err != nil || strings.Join(again, "|") != strings.Join(list, "|") {
			t.Errorf("%d libraries became %d, %v", len(list), len(again), err)
		}
	}
	for i := range payload {
		broken := append([]byte(nil), payload...)
		broken[i] ^= 1
		if _, err := rdb.Libraries(broken); !errors.Is(err, rdb.ErrPayload) {
			t.Errorf("byte %d is wrong: %v", i, err)
		}
	}
	var e rdb.Encoder
	e.String([]byte("value"))
	if _, err := rdb.Libraries(e.End()); !errors.Is(err, rdb.ErrNoFunction) {
		t.Errorf("a value: %v", err)
	}
}
