package server_test

import (
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testmaster"
	"redoubt/internal/testserver"
)

// A server that becomes a replica: in a transaction, with clients that wait, and without its
// master.
func TestBecomesReplica(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"mem", "local", "shared"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := testserver.Start(t, testserver.Options{Engine: engine})
			m := testmaster.Start(t, testmaster.Options{Password: "not known"}) // so the link never comes up
			dial := func() *respclient.Client {
				c, err := respclient.Dial(s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			}
			c, waits := dial(), dial()
			want := func(line, reply string) {
				t.Helper()
				v, err := c.Do(strings.Fields(line)...)
				if err != nil || !strings.HasPrefix(v.Str, reply) {
					t.Errorf("%s: %v, %v, want %s", line, v, err, reply)
				}
			}
			if err := waits.Send("BLPOP", "l", "0"); err != nil {
				t.Fatal(err)
			}
			testmaster.Wait(t, "a client waits", func() bool {
				v, err := c.Do("INFO", "clients")
				return err == nil && strings.Contains(v.Str, "blocked_clients:1\r")
			})
			want("MULTI", "OK")
			want("SET a 1", "QUEUED")
			want("REPLICAOF 127.0.0.1 "+m.Port(), "QUEUED")
			want("SET b 2", "QUEUED")
			if v, err := c.Do("EXEC"); err != nil || v.String() != "1) OK\n2) OK\n3) OK" {
				t.Errorf("EXEC: %v, %v", v, err)
			}
			if v, err := waits.Read(); err != nil || !strings.HasPrefix(v.Str, "UNBLOCKED force unblock") {
				t.Errorf("the client that waits: %v, %v", v, err)
			}
			if _, err := waits.Read(); err == nil {
				t.Error("the client that waited is not closed")
			}
			want("GET b", "2")
			want("SET a 3", "READONLY You can't write against a read only replica.")
			want("EVAL return(redis.call('set','a',1)) 0", "READONLY You can't write against a read only replica. script:")
			want("CONFIG GET replicaof", "")
			want("CONFIG SET replica-serve-stale-data no", "OK")
			want("GET b", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
			want("INFO replication", "# Replication\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:"+m.Port()+"\r\nmaster_link_status:down\r\n")
			want("CONFIG SET replica-read-only no replica-serve-stale-data yes", "OK")
			want("SET a 4", "OK")
			want("REPLICAOF NO ONE", "OK")
			want("CONFIG SET replica-read-only yes", "OK")
			want("SET a 5", "OK")
		})
	}
}
