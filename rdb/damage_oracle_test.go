package rdb_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testserver"
	"redoubt/rdb"
)

// TestDamagedLikeRedis changes payloads at random, gives them a right checksum, and
// has a real Redis restore them: what it refuses must be refused here, and where both
// accept they must have read the same. (Where only Redis accepts, we are stricter.)
func TestDamagedLikeRedis(t *testing.T) {
	testserver.Oracle(t)
	steps, seed := 3000, uint64(time.Now().UnixNano())
	if n, err := strconv.Atoi(os.Getenv("REDOUBT_STEPS")); err == nil {
		steps = n
	}
	if n, err := strconv.ParseUint(os.Getenv("REDOUBT_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("REDOUBT_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	s := startServer(t)
	s.do("CONFIG", "SET", "sanitize-dump-payload", "yes")
	var list [][]byte
	var names map[string][]byte
	for _, path := range rdb.RecordedFiles(t) {
		if s.version >= rdb.VersionOf(path) {
			names = rdb.Recorded(t, path)
		}
	}
	for _, m := range rdb.Samples() {
		if p := names[m.Name]; p != nil && len(p) < 3000 && m.Packed {
			list = append(list, p)
		}
	}
	for _, o := range rdb.Old() {
		if len(o.Payload) < 3000 && o.Since <= s.version {
			list = append(list, o.Payload)
		}
	}
	both, none, stricter := 0, 0, 0
	for i := range steps {
		value, err := rdb.Plain(list[r.IntN(len(list))])
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(3) {
			value = damage(r, value)
		}
		p := rdb.Seal(10, value)
		got, err := rdb.Describe(p, rdb.Options{})
		s.do("DEL", "k")
		reply := s.do("RESTORE", "k", "0", string(p))
		theirs := ""
		if reply.Str == "OK" {
			var failed error // they do not mind what we do
			if theirs, failed = rdb.Describe([]byte(s.do("DUMP", "k").Str), rdb.Options{}); failed != nil {
				theirs = failed.Error()
			}
		}
		switch {
		case err != nil && reply.Str == "OK":
			stricter++
			if testing.Verbose() {
				t.Logf("stricter: %v", err)
			}
		case err != nil:
			none++
		case reply.Str != "OK":
			t.Errorf("step %d: Redis says %s, we read\n%.500s\n%s", i, reply, got, hex.EncodeToString(p))
		case sorted(got) != sorted(theirs): // groups and consumers are sorted by their names there
			t.Errorf("step %d:\n  we read %.1000s\nthey read %.1000s\n%s", i, got, theirs, hex.EncodeToString(p))
		default:
			both++
		}
	}
	t.Logf("%d accepted by both, %d by none, %d by Redis alone", both, none, stricter)
	if both == 0 || none == 0 {
		t.Error("the damage is not of all kinds")
	}
}

func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// damage changes something behind the type.
func damage(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	at := 1 + r.IntN(len(b)-1)
	switch r.IntN(6) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
	case 1:
		b[at] = []byte{0, 1, 2, 0x7f, 0x80, 0xc0, 0xf0, 0xf1, 0xf4, 0xfe, 0xff}[r.IntN(11)]
	case 2:
		b[at]++
	case 3:
		b[at]--
	case 4:
		if len(b) > 2 {
			b = slices.Delete(b, at, at+1)
		}
	case 5:
		b[at] = b[1+r.IntN(len(b)-1)]
	}
	return b
}
