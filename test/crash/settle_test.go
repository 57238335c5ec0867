package crash

import "testing"

// The same with collections, of which an element may be lost, or half of a
// command may have happened.
func TestSettleOfCollections(t *testing.T) {
	t.Parallel()
	c := newClient(2, 1)
	c.acked = state{c.db: {}}
	put := op{[]string{"HSET"}, func(s state) string {
		return edit(s, c.db, "k", newHash, func(h hashModel) string { h["f"], h["g"] = fieldModel{value: "1"}, fieldModel{"2", 5}; return "2" })
	}}
	gone := op{[]string{"HDEL"}, func(s state) string {
		return edit(s, c.db, "k", newHash, func(h hashModel) string { delete(h, "f"); delete(h, "g"); return "2" })
	}}
	for text, ok := range map[string]bool{
		"": true, "hash f=1 g=2@5": true, "hash f=1": false, "hash f=1 g=2": false, "hash f=1 g=2@5 h=3": false, "list f=1 g=2@5": false,
	} {
		found := state{c.db: {}}
		if text != "" {
			found[c.db]["k"] = value{text: text}
		}
		c.acked, c.inflight = state{c.db: {}}, []op{put}
		if err := c.settle(found); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		c.acked, c.inflight = state{c.db: {}}, nil
		put.apply(c.acked)
		if err := c.settle(found); (err == nil) != (text == "hash f=1 g=2@5") {
			t.Errorf("acknowledged, %q: %v", text, err)
		}
		if gone.apply(c.acked); len(c.acked[c.db]) != 0 {
			t.Error("the key of an empty hash stays")
		}
	}
}

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
		{"an expiry from nowhere", state{0: {"a": {text: "1", at: 5}}}, false},
	} {
		cl := &client{acked: db("a", "1"), inflight: []op{both, set("c", "3")}}
		if err := cl.settle(c.found); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
