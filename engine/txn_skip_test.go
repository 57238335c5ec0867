package engine

import "testing"

// Rows that a batch has put and deleted again are not those that the view has: a
// walk must not pass over the latter because there are as many of them.
func TestSkipOnlyWhatIsDeleted(t *testing.T) {
	t.Parallel()
	base := map[string]string{"a1": "", "a3": "", "a5": "", "a7": "", "b": ""}
	for _, reverse := range []bool{false, true} {
		var b Batch
		txn := &Txn{View: rankedView{sliceView{rows: base}}, Batch: &b}
		for _, k := range []string{"a2", "a4", "a6", "a8"} {
			b.Put([]byte(k), nil)
			b.Delete([]byte(k))
		}
		count := func() (n int) {
			it := txn.Iter([]byte("a"), []byte("b"), reverse)
			for it.Next() {
				n++
			}
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := count(); n != 4 {
			t.Errorf("reverse %v: %d rows are left of 4", reverse, n)
		}
		for _, k := range []string{"a1", "a3", "a5"} {
			b.Delete([]byte(k))
		}
		if n := count(); n != 1 {
			t.Errorf("reverse %v: %d rows are left of 1", reverse, n)
		}
		b.Delete([]byte("a7"))
		if n := count(); n != 0 {
			t.Errorf("reverse %v: %d rows are left of none", reverse, n)
		}
	}
}
