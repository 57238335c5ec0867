package keyspace

import (
	"encoding/binary"
	"slices"
	"testing"
)

// Catalog and members each have a range that no other system row is in.
func TestApart(t *testing.T) {
	t.Parallel()
	at := func(row []byte) int {
		i, found := slices.BinarySearch(Apart(), binary.BigEndian.Uint16(row))
		if !found {
			i--
		}
		return i
	}
	member := MemberRow([20]byte{1})
	others := [][]byte{sysKey(sysNextKS), sysKey(sysFormat), sysKey16(sysDatabase, 3), sysKey(sysSecret), sysKey(sysCopy), sysKey(sysLibrary)}
	for _, o := range others {
		if at(o) == at(sysKey(sysCatalog)) || at(o) == at(member) {
			t.Errorf("row % x lies with the catalog or the members", o)
		}
	}
	if at(sysKey(sysCatalog)) == at(member) || at(member) < 0 {
		t.Error("catalog and members lie together")
	}
}
