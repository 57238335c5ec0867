package command

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// The events and the number of changes that the commands on places and SORT make.
// With REDOUBT_ORACLE=1 a real Redis of version 7.2 is asked as well.
func TestGeoAndSortEvents(t *testing.T) {
	here := newBench(t)
	here.limits.Limits.ZSetEntries, here.limits.Limits.ZSetValue, here.limits.Limits.ListSize = 128, 64, -2
	var redis *redisConn
	if os.Getenv("REDOUBT_ORACLE") != "" {
		redis = startRedis(t)
		redis.call(t, "CONFIG", "SET", "notify-keyspace-events", "KEAmn")
	}
	for _, step := range []struct {
		call    string
		changes int
		events  string
	}{
		{"GEOADD g 13 38 a 15 37 b", 2, "new g,zadd g"},
		{"GEOADD g 13 38 a", 0, ""},
		{"GEOADD g 13 39 a 1 1 c", 2, "zadd g"},
		{"GEOADD g XX 1 1 x", 0, ""},
		{"GEOADD none XX 1 1 x", 0, ""},
		{"GEOADD g NX 2 2 a", 0, ""},
		{"GEOADD g 200 2 a", 0, ""},
		{"GEODIST none a b", 0, "keymiss none"},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS 1 km", 0, ""},
		{"GEOSEARCH none FROMMEMBER a BYRADIUS 1 km", 0, "keymiss none"},
		{"GEOSEARCHSTORE d g FROMMEMBER a BYRADIUS 500 km", 2, "new d,geosearchstore d"},
		{"GEOSEARCHSTORE d g FROMMEMBER a BYRADIUS 1 km STOREDIST", 1, "geosearchstore d"},
		{"GEOSEARCHSTORE d g FROMLONLAT 90 0 BYRADIUS 1 km", 1, "del d"},
		{"GEOSEARCHSTORE d g FROMLONLAT 90 0 BYRADIUS 1 km", 0, ""},
		{"GEOSEARCHSTORE d none FROMLONLAT 90 0 BYRADIUS 1 km", 0, "keymiss none"},
		{"GEORADIUS g 13 38 500 km STORE d", 2, "new d,georadiusstore d"},
		{"GEORADIUSBYMEMBER g a 1 km STOREDIST d", 1, "georadiusstore d"},
		{"GEORADIUSBYMEMBER none a 1 km STOREDIST d", 1, "keymiss none,del d"},
		{"RPUSH l 3 1 2", 3, "new l,rpush l"},
		{"SORT l", 0, ""},
		{"SORT none", 0, "keymiss none"},
		{"SORT_RO l BY w_*", 0, "keymiss w_3,keymiss w_1,keymiss w_2"},
		{"SORT l STORE d", 3, "new d,sortstore d"},
		{"SORT l LIMIT 0 1 GET # GET # STORE d", 2, "sortstore d"},
		{"SORT l LIMIT 0 0 STORE d", 1, "del d"},
		{"SORT none STORE d", 0, "keymiss none"},
		{"SORT l STORE l", 3, "sortstore l"},
	} {
		args := strings.Fields(step.call)
		reply, got := here.run(args...)
		want := strings.FieldsFunc(step.events, func(r rune) bool { return r == ',' })
		if got.changes != step.changes || !slices.Equal(got.events, want) {
			t.Errorf("%s: %d changes, events %q; want %d and %q", step.call, got.changes, got.events, step.changes, want)
		}
		if redis == nil {
			continue
		}
		redis.drain(t)
		redis.events = redis.events[:0]
		before := redis.changes(t)
		theirs := redis.call(t, args...)
		redis.drain(t)
		if !bytes.Equal(reply, theirs) {
			t.Errorf("%s: %q, Redis says %q", step.call, reply, theirs)
		}
		if n := redis.changes(t) - before; n != step.changes || !slices.Equal(redis.events, want) {
			t.Errorf("%s: Redis has %d changes, events %q; want %d and %q", step.call, n, redis.events, step.changes, want)
		}
	}
}
