package keyspace

import (
	"bytes"
	"strings"
	"testing"

	"redoubt/engine"
)

func TestFleetRows(t *testing.T) {
	t.Parallel()
	id := [MemberIDSize]byte{1, 2, 0xff}
	row := MemberRow(id)
	lo, hi := MemberRows()
	if bytes.Compare(row, lo) < 0 || bytes.Compare(row, hi) >= 0 || bytes.Compare(MemberRow([MemberIDSize]byte(bytes.Repeat([]byte{0xff}, MemberIDSize))), hi) >= 0 {
		t.Errorf("row %x is not within [%x,%x)", row, lo, hi)
	}
	if bytes.Compare(SecretRow(), hi) < 0 {
		t.Error("the secret lies among the members")
	}
	if got, ok := MemberID(row); !ok || got != id {
		t.Errorf("id of %x is %x, %v", row, got, ok)
	}
	for _, other := range [][]byte{nil, lo, SecretRow(), row[:10], append(bytes.Clone(row), 0)} {
		if _, ok := MemberID(other); ok {
			t.Errorf("%x is taken for the row of a member", other)
		}
	}
	var teller Describer
	equal(t, "a member", teller.Row(row, []byte(`{"host":"h"}`)), "process 0102ff"+strings.Repeat("0", 34)+` = "{\"host\":\"h\"}"`)
	equal(t, "the secret", teller.Row(SecretRow(), make([]byte, 32)), "secret of the processes = 32 bytes")
	teller.Values = true
	equal(t, "the secret with values", teller.Row(SecretRow(), bytes.Repeat([]byte("x"), 32)), "secret of the processes = 32 bytes")
}

func TestCheckFleetRows(t *testing.T) {
	t.Parallel()
	c := &checker{}
	for _, k := range []struct {
		row, value []byte
		want       string
	}{
		{MemberRow([20]byte{1}), []byte(`{"host":"h","more":[1]}`), ""},
		{MemberRow([20]byte{1}), nil, `it does not say what process that is: ""`},
		{MemberRow([20]byte{1}), []byte(`{"host"`), `it does not say what process that is: "{\"host\""`},
		{MemberRow([20]byte{1}), []byte(`[]`), `it does not say what process that is: "[]"`},
		{SecretRow(), make([]byte, 32), ""},
		{SecretRow(), make([]byte, 31), "it has 31 bytes, not 32"},
	} {
		equal(t, "a row", c.fleet(k.row, k.value), k.want)
	}
	s := newTestStore(t)
	populate(s)
	s.raw(func(b *engine.Batch) {
		b.Put(MemberRow([20]byte{1}), []byte("{}"))
		b.Put(SecretRow(), make([]byte, 32))
	})
	if list := s.check(); len(list) != 0 {
		t.Errorf("of good rows: %q", list)
	}
	s.raw(func(b *engine.Batch) { b.Put(SecretRow(), []byte("short")) })
	if list := s.check(); len(list) != 1 || list[0] != "system: secret of the processes: it has 5 bytes, not 32" {
		t.Errorf("of a short secret: %q", list)
	}
}
