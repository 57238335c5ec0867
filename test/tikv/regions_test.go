package tikv_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"redoubt/engine/tikv"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/internal/testserver/ontikv"
	"redoubt/internal/testtikv"
)

// TestRegions has keys lie in several regions: those of one command are asked for by
// one request for each of them, and written in one transaction.
func TestRegions(t *testing.T) {
	t.Parallel()
	cluster := testtikv.Start(t, testtikv.RegionSize(128<<10))
	s := testserver.Start(t, ontikv.At(cluster.PD(), testtikv.Prefix(t), slack))
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for i := range 20 {
		send(t, c, "MSET"+each(50, fmt.Sprintf("k%d-# %s", i, strings.Repeat("x", 2000))))
	}
	e, asked := s.Engine.(*tikv.Engine), int64(0)
	await(t, func() bool {
		before := e.RPCs()["BatchGet"]
		list := send(t, c, "MGET"+each(100, "k#-7"))[0].Elems
		asked = e.RPCs()["BatchGet"] - before
		if len(list) != 100 || list[3].Str != strings.Repeat("x", 2000) || list[99].Str != "" {
			t.Fatalf("MGET: %.100v", list)
		}
		return asked > 2
	})
	r, err := http.Get("http://" + cluster.PD() + "/pd/api/v1/regions")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	regions := strings.Count(string(text), `"start_key"`)
	t.Logf("%d requests, %d regions", asked, regions)
	if asked > int64(regions) {
		t.Errorf("%d requests for keys in %d regions", asked, regions)
	}
	send(t, c, "MSET"+each(100, "k#-7 y"), "MULTI", "SET k1-7 a", "SET k9-7 b", "EXEC")
	if v := send(t, c, "MGET k1-7 k9-7 k3-7")[0]; fmt.Sprint(v.Elems[0].Str, v.Elems[1].Str, v.Elems[2].Str) != "aby" {
		t.Errorf("MGET: %v", v)
	}
}
