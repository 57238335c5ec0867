package crash

import "testing"

// TestSettle checks the checker: what it must accept and what it must not.
func TestSettle(t *testing.T) {
	t.Parallel()
	set := func(k, v string) op {
		return op{[]string{"SET", k, v}, func(s state) string { s[0][k] = value{text: v}; return "OK" }}
	}
	both := op{[]string{"MSET"}, func(s state) string {
		s[0]["a"], s[0]["b"] = value{text: "2"}, value{text: "2"}
		return "OK"
	}}
	db := func(pairs ...string) state {
		s := state{0: map[string]value{}}
		for i := 0; i < len(pairs); i += 2 {
			s[0][pairs[i]] = value{text: pairs[i+1]}
		}
		return s
	}
	for _, c := range []struct {
		name  string
		found state
		ok    bool
	}{
		{"none in flight happened", db("a", "1"), true},
		{"the first happened", db("a", "2", "b", "2"), true},
		{"both happened", db("a", "2", "b", "2", "c", "3"), true},
		{"an acknowledged write is lost", db(), false},
		{"half of one", db("a", "2"), false},
		{"the second without the first", db("a", "1", "c", "3"), false},
		{"a stranger", db("a", "1", "x", "1"), false},
		{"an expiry from nowhere", state{0: {"a": {"1", 5}}}, false},
	} {
		cl := &client{acked: db("a", "1"), inflight: []op{both, set("c", "3")}}
		if err := cl.settle(c.found); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
