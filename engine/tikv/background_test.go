package tikv

import (
	"errors"
	"testing"
	"time"

	"redoubt/engine"
)

// Background work gets on while clients have all their viewLimit, and takes none of them.
func TestBackground(t *testing.T) {
	t.Parallel()
	e := newMock(t).open(t, Options{MaxTransactions: 1, Timeout: time.Minute})
	defer e.Close()
	begin := func(background bool) *view {
		t.Helper()
		v, err := e.Begin(engine.ViewOptions{Background: background})
		if err != nil {
			t.Fatal(err)
		}
		return v.(*view)
	}
	read := func(v *view) error {
		_, _, err := v.Get([]byte("row"), nil)
		return err
	}
	client := begin(false)
	defer client.Close()
	if err := read(client); err != nil {
		t.Fatal(err)
	}
	before := e.RPCs()
	for range 3 {
		work := begin(true)
		err := read(work)
		var b engine.Batch
		b.Put([]byte("row"), []byte("value"))
		if err == nil {
			_, err = work.Commit(&b)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer work.Close()
	}
	if c, a := e.viewLimit.Taken(), e.background.Taken(); c != 1 || a != 3 {
		t.Errorf("%d viewLimit of clients are taken, %d others", c, a)
	}
	after := e.RPCs()
	if after["Prewrite"] != before["Prewrite"] || after[backgroundKind]-before[backgroundKind] < 9 {
		t.Errorf("requests before %v, after %v", before, after)
	}
	late := begin(false)
	defer late.Close()
	late.deadline = time.Now().Add(10 * time.Millisecond)
	if err := read(late); !errors.Is(err, engine.ErrOverloaded) {
		t.Errorf("a second client: %v", err)
	}
}
