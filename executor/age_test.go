package executor

import (
	"testing"
)

func TestAge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("mset a 1 b 2")
	b := f.x.NewBatch()
	if ok, err := b.begin(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	key := []byte("a")
	b.Age(key, 1000, -1)
	equal(t, "not used for", b.Idle(key), 1000) // longer than there is a server
	equal(t, "counter", b.Freq(key), 0)
	b.Age(key, 0, 100)
	equal(t, "counter", b.Freq(key), 100)
	equal(t, "not used for", b.Idle(key), 0)
	equal(t, "of another key", b.Freq([]byte("b")), 5)
	b.Age(key, 1<<40, -1)
	equal(t, "longest", b.Idle(key), int64(b.seconds)-1)
	b.Age(key, 0, 7)
	b.Commit()
	f.now.Add(1000)
	f.do("get a") // that is a use
	if ok, err := b.begin(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	equal(t, "after a use", b.Freq(key), 5)
	b.Commit()
}
