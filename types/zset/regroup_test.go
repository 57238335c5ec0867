package zset

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"redoubt/engine/enginetest"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
)

// A set whose groups are larger than they would be made now, since an older version
// made them, is used and changed like any other.
func TestLargerGroups(t *testing.T) {
	smallRanks(t, 4, 64)
	rng := rand.New(rand.NewPCG(enginetest.Seed(t), 1))
	s := typestest.New(t)
	m := model{make(map[string]float64)}
	add := func(n int) {
		change(s, "z", &never, func(z *ZSet) {
			for range n {
				member, score := fmt.Sprintf("m%d", rng.IntN(5000)), float64(rng.IntN(1000))
				z.Add([]byte(member), score)
				m.scores[member] = score
			}
		})
	}
	add(2000)
	for range 300 {
		groupMax = 4
		if add(1 + rng.IntN(20)); rng.IntN(3) > 0 {
			change(s, "z", &never, func(z *ZSet) {
				z.Pop(1+rng.Int64N(20), rng.IntN(2) == 0, func(member []byte, _ float64) { delete(m.scores, string(member)) })
			})
		}
		groupMax = 64 // what is there may be larger than what is made
		elems := m.elems()
		s.Do(func(tx *keyspace.Tx) {
			if err := verify(tx, "z", elems); err != nil {
				t.Fatal(err)
			}
		})
		read(s, func(z *ZSet) {
			n := rng.IntN(len(elems))
			if rank, _, ok := z.Rank(elems[n][scoreSize:], false); !ok || rank != int64(n) {
				t.Fatalf("element %d has rank %d, %v", n, rank, ok)
			}
		})
	}
}
