package cql

import "testing"

// A front end that is told no address of its own finds it on the way to a node.
func TestAddress(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"c1": "c1:9042", "c1:9142": "c1:9142", "10.0.0.1": "10.0.0.1:9042", "::1": "[::1]:9042", "[::1]": "[::1]:9042", "[::1]:9142": "[::1]:9142",
	} {
		if got := (&store{o: Options{Hosts: []string{host, "c2"}}}).Address(); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}
