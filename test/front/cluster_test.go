package front

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// CLUSTER LINKS and INFO tell of the connections between front ends, in Redis's forms.
func TestClusterLinks(t *testing.T) {
	t.Parallel()
	s := onMemory(t, 3, steady, "--cluster-enabled", "yes")
	link := regexp.MustCompile(`^\[direction (to|from) node ([0-9a-f]{40}) create-time \d{13} events rw? send-buffer-allocated \d+ send-buffer-used \d+\]$`)
	count := regexp.MustCompile(`(?s)cluster_known_nodes:3\r\n.*cluster_stats_messages_sent:(\d+)\r\ncluster_stats_messages_received:(\d+)\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n$`)
	for i := range 3 {
		c := s.dial(i)
		s.until("all front ends are linked", func() bool { return len(c.value("CLUSTER", "LINKS").Elems) == 4 })
		seen := map[string]bool{}
		for _, l := range c.value("CLUSTER", "LINKS").Elems {
			m := link.FindStringSubmatch(text(l))
			if m == nil {
				t.Fatalf("front end %d: %s", i, text(l))
			}
			seen[m[1]+" "+m[2]] = true
		}
		for j := range 3 {
			id := s.dial(j).do("CLUSTER", "MYID")
			for _, way := range []string{"to ", "from "} {
				if seen[way+id] != (i != j) {
					t.Errorf("front end %d is linked %s%d: %v", i, way, j, seen[way+id])
				}
			}
		}
		before := 0
		for range 2 { // beats go on
			s.until(fmt.Sprintf("front end %d has sent and received more than %d", i, before), func() bool {
				m := count.FindStringSubmatch(c.do("CLUSTER", "INFO"))
				if m == nil {
					return false
				}
				sent, err1 := strconv.Atoi(m[1])
				received, err2 := strconv.Atoi(m[2])
				if err1 != nil || err2 != nil || sent <= before || received <= before {
					return false
				}
				before = max(sent, received)
				return true
			})
		}
		if info := c.do("INFO", "clients"); !strings.Contains(info, "cluster_connections:4\r\n") {
			t.Errorf("front end %d: %s", i, info)
		}
	}
}
