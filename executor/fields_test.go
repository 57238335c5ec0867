package executor

import (
	"fmt"
	"strings"
	"testing"

	"redoubt/engine"
)

// The sweep removes fields of hashes at their time, those of a large hash in
// steps, and the key with the last of them.
func TestSweepOfFields(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := *f.x.limits.Load()
	limits.HashEntries, limits.HashValue = 16, 64
	f.x.SetLimits(limits)
	const large = 3*512 + 7
	for i := range 100 { // packed
		f.do(fmt.Sprintf("hset small%d a 1 b 2", i))
		f.do(fmt.Sprintf("hpexpireat small%d %d fields 1 a", i, testNow+1000+i%7))
	}
	for from := 0; from < large; from += 100 {
		var names []string
		for i := from; i < min(from+100, large); i++ {
			names = append(names, fmt.Sprintf("f%d", i))
		}
		f.do("hset large " + strings.Join(names, " v ") + " v")
		f.do(fmt.Sprintf("hpexpireat large %d fields %d %s", testNow+1000, len(names), strings.Join(names, " ")))
	}
	f.do("hset large stays v late v")
	f.do(fmt.Sprintf("hpexpireat large %d fields 1 late", testNow+5000))
	f.do("hset gone a 1 b 2")
	f.do(fmt.Sprintf("hpexpireat gone %d fields 2 a b", testNow+1000))

	f.bg.Sweep(t.Context())
	f.want("before their time", f.do("hlen large"), fmt.Sprint(large+2))
	before := f.rows()
	equal(t, "rows by time", before[3], large+1)

	f.now.Add(1010)
	f.want("seen before the sweep", f.do("hlen large"), "2")
	f.want("the key of the last field", f.do("exists gone"), "0")
	most := 0
	f.eng.onVisible(func(engine.Ticket) { most++ })
	f.bg.Sweep(t.Context())
	f.eng.onVisible(nil)
	if most < large/512 {
		t.Errorf("%d commits: a step was larger than %d fields", most, 512)
	}
	f.want("keys", f.do("dbsize"), "101")
	rows := f.rows()
	equal(t, "fields of the large hash", rows[2], 2)
	equal(t, "rows by time", rows[3], 1)
	equal(t, "expire rows", rows[5], 1)
	for i := range 100 {
		f.want("small", f.do(fmt.Sprintf("hlen small%d", i)), "1")
	}
	f.bg.Sweep(t.Context()) // finds that nothing is due any more
	equal(t, "next", f.x.space.NextDue(), int64(testNow+5000))

	f.now.Add(5000)
	f.bg.Sweep(t.Context())
	f.want("what is left", f.do("hkeys large"), "[stays]")
	equal(t, "expire rows", f.rows()[5], 0)
}
