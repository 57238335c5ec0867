package cql_test

import (
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// TestCrossSlot refuses keys of several slots, if the configuration says so.
func TestCrossSlot(t *testing.T) {
	t.Parallel()
	for _, allowed := range []string{"no", "yes"} {
		s := testserver.Start(t, testserver.Options{Engine: "partitioned", Args: []string{"--cql-cross-slot", allowed}})
		c, err := respclient.Dial(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, step := range []struct{ command, refused, reply string }{
			{"MSET {t}a 1 {t}b 2", "", "OK"},
			{"MSET a 1 b 2", "CROSSSLOT Keys in request don't hash to the same slot", "OK"},
			{"MGET {t}a {t}b", "", `1) "1"`},
			{"RENAME {t}a {t}c", "", "OK"},
			{"EXISTS a b", "CROSSSLOT", "2"},
			{"MULTI", "", "OK"},
			{"SET a 2", "", "QUEUED"},
			{"SET b 2", "", "QUEUED"},
			{"EXEC", "CROSSSLOT", "1) OK"},
			{"EXEC", "ERR EXEC without MULTI", "ERR EXEC without MULTI"},
			{"MULTI", "", "OK"},
			{"DEL a b", "CROSSSLOT", "QUEUED"},
			{"EXEC", "EXECABORT", "1) (integer) 2"},
			{"MULTI", "", "OK"},
			{"SET {t}a 1", "", "QUEUED"},
			{"INCR {t}a", "", "QUEUED"},
			{"EXEC", "", "1) OK"},
			{"EVAL return{redis.call('set','{t}x',1),redis.call('get','{t}y')} 1 {t}a", "", "1) OK"},
			{"EVAL return{redis.call('set','{t}x',1),redis.call('get','y')} 1 {t}a", "keys that do not hash to the same slot", "1) OK"},
			{"EVAL return{redis.call('set','x',1),redis.call('get','y')} 0", "keys that do not hash to the same slot", "1) OK"},
			{"DBSIZE", "", ""},
			{"FLUSHALL", "", "OK"},
		} {
			v, err := c.Do(strings.Fields(step.command)...)
			want := step.reply
			if allowed == "no" && step.refused != "" {
				want = step.refused
			}
			if err != nil || !strings.Contains(v.String(), want) {
				t.Errorf("cross-slot %s: %s: %v, %v, want %s", allowed, step.command, v, err, want)
			}
		}
	}
}
