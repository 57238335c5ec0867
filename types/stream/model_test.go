package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// A model of a stream, as plain as can be: nodes hold entries, of which some are
// deleted, and groups hold what is pending.

type modelEntry struct {
	id      ID
	value   string
	deleted bool
}

type model struct {
	nodes        [][]modelEntry
	last, maxDel ID
	added        int64
	perNode      int
	groups       map[string]*modelGroup
}

type modelGroup struct {
	last      ID
	consumers map[string]bool
	pending   map[ID]Pending
}

func (m *model) live() (out []modelEntry) {
	for _, n := range m.nodes {
		for _, e := range n {
			if !e.deleted {
				out = append(out, e)
			}
		}
	}
	return out
}

func count(n []modelEntry) (live int) {
	for _, e := range n {
		if !e.deleted {
			live++
		}
	}
	return live
}

func (m *model) add(id ID, value string) {
	if n := len(m.nodes); n == 0 || len(m.nodes[n-1]) >= m.perNode {
		m.nodes = append(m.nodes, nil)
	}
	n := len(m.nodes) - 1
	m.nodes[n] = append(m.nodes[n], modelEntry{id: id, value: value})
	m.last = id
	m.added++
}

func (m *model) delete(id ID) bool {
	for i, n := range m.nodes {
		for j := range n {
			if n[j].id != id || n[j].deleted {
				continue
			}
			n[j].deleted = true
			if m.maxDel.Less(id) {
				m.maxDel = id
			}
			if count(n) == 0 {
				m.nodes = slices.Delete(m.nodes, i, i+1)
			}
			return true
		}
	}
	return false
}

func (m *model) trim(t Trim) (removed int64) {
	for len(m.nodes) > 0 {
		n := m.nodes[0]
		length := int64(len(m.live()))
		live := int64(count(n))
		if !t.ByID && length <= t.MaxLen || t.Limit > 0 && removed+live > t.Limit {
			break
		}
		whole := length-live >= t.MaxLen
		if t.ByID {
			whole = n[len(n)-1].id.Less(t.MinID)
		}
		if whole {
			removed += live
			m.nodes = m.nodes[1:]
			continue
		}
		if t.Approx {
			break
		}
		for j := range n {
			if t.ByID && !n[j].id.Less(t.MinID) || !t.ByID && length <= t.MaxLen {
				break
			}
			if !n[j].deleted {
				n[j].deleted = true
				length--
				removed++
			}
		}
		break
	}
	return removed
}

func (m *model) first() ID {
	if l := m.live(); len(l) > 0 {
		return l[0].id
	}
	return ID{}
}

// run drives a stream and its model with the same random operations.
func run(t *testing.T, seed uint64, steps int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	store := typestest.New(t)
	limits := types.DefaultLimits
	limits.StreamNodeEntries, limits.StreamNodeBytes = int64(1+rng.IntN(5)), 0
	m := &model{perNode: int(limits.StreamNodeEntries), groups: map[string]*modelGroup{}}
	key := []byte("key")
	someID := func() ID {
		if l := m.live(); len(l) > 0 && rng.IntN(4) > 0 {
			return l[rng.IntN(len(l))].id
		}
		return ID{uint64(rng.IntN(40)), uint64(rng.IntN(3))}
	}
	for step := range steps {
		store.Now += int64(rng.IntN(3))
		what := ""
		store.Do(func(tx *keyspace.Tx) {
			s, err := Open(tx, key, &limits)
			if err != nil {
				t.Fatal(err)
			}
			switch rng.IntN(20) {
			case 0, 1, 2, 3, 4, 5, 6:
				id := ID{m.last.Ms + uint64(rng.IntN(2)), m.last.Seq + uint64(rng.IntN(2))}
				value := fmt.Sprint(step)
				what = fmt.Sprintf("add %v", id)
				err := s.Add(id, [][]byte{[]byte("f"), []byte(value)})
				if (err == nil) != m.last.Less(id) {
					t.Errorf("add %v behind %v: %v", id, m.last, err)
				} else if err == nil {
					m.add(id, value)
				}
			case 7, 8, 9:
				ids := []ID{someID(), someID()}
				what = fmt.Sprintf("delete %v", ids)
				want := int64(0)
				for _, id := range ids {
					if m.delete(id) {
						want++
					}
				}
				if got := s.Delete(ids...); got != want {
					t.Errorf("delete %v: %d, want %d", ids, got, want)
				}
			case 10, 11:
				trim := Trim{Approx: rng.IntN(2) == 0, MaxLen: int64(rng.IntN(20)), ByID: rng.IntN(2) == 0, MinID: someID()}
				if trim.Approx && rng.IntN(2) == 0 {
					trim.Limit = int64(rng.IntN(10))
				}
				what = fmt.Sprintf("trim %+v", trim)
				want := m.trim(trim)
				if got := s.Trim(trim); got != want {
					t.Errorf("trim %+v: %d, want %d", trim, got, want)
				}
			default:
				what = groupStep(t, rng, tx, s, m, someID)
			}
			s.Save()
		})
		if t.Failed() {
			t.Fatalf("seed %d, step %d: %s", seed, step, what)
		}
		store.Do(func(tx *keyspace.Tx) {
			s, _ := Open(tx, key, &limits)
			compare(t, rng, s, m)
			checkRows(t, tx, s)
		})
		if t.Failed() {
			t.Fatalf("seed %d, step %d: after %s", seed, step, what)
		}
	}
}

func groupStep(t *testing.T, rng *rand.Rand, tx *keyspace.Tx, s *Stream, m *model, someID func() ID) string {
	name := []string{"g", "h", "group with a name"}[rng.IntN(3)]
	who := []string{"a", "b", "", "c"}[rng.IntN(4)]
	g, mg := (*Group)(nil), m.groups[name]
	if s.Exists() {
		g = s.Group([]byte(name))
	}
	if (g == nil) != (mg == nil) {
		t.Errorf("group %q: %v, want %v", name, g, mg)
		return name
	}
	if g == nil {
		last := someID()
		s.start()
		s.CreateGroup([]byte(name), last, NotCounted).Save()
		m.groups[name] = &modelGroup{last: last, consumers: map[string]bool{}, pending: map[ID]Pending{}}
		return "create " + name
	}
	if s.CreateGroup([]byte(name), ID{}, 0) != nil {
		t.Errorf("group %q was made twice", name)
	}
	defer g.Save()
	c := g.Consumer([]byte(who))
	if (c != nil) != mg.consumers[who] {
		t.Errorf("consumer %q: %v", who, c)
	}
	need := func() {
		if c == nil {
			c = g.AddConsumer([]byte(who))
			mg.consumers[who] = true
		}
	}
	switch rng.IntN(12) {
	case 0:
		if rng.IntN(3) == 0 {
			g.Destroy()
			g.changed, g.known = false, nil
			delete(m.groups, name)
		}
		return "destroy " + name
	case 1:
		if c != nil {
			n := 0
			for id, p := range mg.pending {
				if string(p.Consumer) == who {
					n++
					delete(mg.pending, id)
				}
			}
			if int(c.Pending()) != n {
				t.Errorf("%q has %d pending, want %d", who, c.Pending(), n)
			}
			c.Delete()
			delete(mg.consumers, who)
		}
		return "delete consumer " + who
	case 2:
		mg.last = someID()
		g.SetID(mg.last, NotCounted)
		return "set id of " + name
	case 3, 4, 5, 6:
		need()
		count, noAck := int64(rng.IntN(4)), rng.IntN(4) == 0
		var got, want []ID
		g.Read(c, count, noAck, func(id ID, _ Entry) { got = append(got, id) })
		for _, e := range m.live() {
			if mg.last.Less(e.id) && (count == 0 || int64(len(want)) < count) {
				want = append(want, e.id)
				mg.last = e.id
				if !noAck {
					mg.pending[e.id] = Pending{ID: e.id, Time: tx.Now, Count: 1, Consumer: []byte(who)}
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s read %v, want %v", name, got, want)
		}
		return "read " + name
	case 7:
		need()
		var got, want []ID
		g.History(c, ID{}, 3, func(id ID, e Entry) { got = append(got, id) })
		for _, p := range mg.list(who) {
			if len(want) == 3 {
				break
			}
			want = append(want, p.ID)
			if slices.ContainsFunc(m.live(), func(e modelEntry) bool { return e.id == p.ID }) {
				p.Time, p.Count = tx.Now, p.Count+1
				mg.pending[p.ID] = p
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("history of %s: %v, want %v", who, got, want)
		}
		return "history " + name
	case 8:
		need()
		id := someID()
		old, pending := g.Find(id)
		if _, want := mg.pending[id]; pending != want {
			t.Errorf("%v is pending: %v, want %v", id, pending, want)
		}
		p := Pending{ID: id, Time: 5, Count: 9, Consumer: []byte(who)}
		g.Claim(old, pending, c, p)
		mg.pending[id] = p
		return fmt.Sprint("claim ", id)
	}
	id := someID()
	_, want := mg.pending[id]
	delete(mg.pending, id)
	if got := g.Ack(id); got != want {
		t.Errorf("ack %v: %v, want %v", id, got, want)
	}
	return fmt.Sprint("ack ", id)
}

// list is what is pending, in order; of a consumer if one is named.
func (mg *modelGroup) list(who ...string) (out []Pending) {
	for _, p := range mg.pending {
		if len(who) == 0 || string(p.Consumer) == who[0] {
			out = append(out, p)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID.Less(out[j].ID) })
	return out
}

func compare(t *testing.T, rng *rand.Rand, s *Stream, m *model) {
	live := m.live()
	if s.Len() != int64(len(live)) || s.First != m.first() || s.Last != m.last || s.MaxDeleted != m.maxDel || s.Added != m.added ||
		s.Nodes() != int64(len(m.nodes)) || s.Groups() != int64(len(m.groups)) {
		t.Errorf("%+v\nwant %d entries from %v to %v, deleted up to %v, %d added, %d nodes, %d groups",
			*s, len(live), m.first(), m.last, m.maxDel, m.added, len(m.nodes), len(m.groups))
	}
	from, to, reverse := ID{uint64(rng.IntN(30)), 0}, MaxID, rng.IntN(2) == 0
	if rng.IntN(2) == 0 {
		to = ID{uint64(rng.IntN(30)), 1}
	}
	var got, want []string
	s.Each(from, to, reverse, func(id ID, e Entry) bool {
		_, items := e.Pairs()
		items.Next()
		v, _ := items.Next()
		got = append(got, fmt.Sprint(id, string(v)))
		return true
	})
	for _, e := range live {
		if !e.id.Less(from) && !to.Less(e.id) {
			want = append(want, fmt.Sprint(e.id, e.value))
		}
	}
	if n := s.Count(from, to, 1000); n != int64(len(want)) {
		t.Errorf("count %v to %v: %d, want %d", from, to, n, len(want))
	}
	if reverse {
		slices.Reverse(want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v to %v, reverse %v: %v\nwant %v", from, to, reverse, got, want)
	}
	s.EachGroup(func(g *Group) bool {
		mg := m.groups[string(g.Name)]
		if mg == nil || g.Last != mg.last || g.Pending() != int64(len(mg.pending)) || g.Consumers() != int64(len(mg.consumers)) {
			t.Errorf("group %+v, want %+v", g, mg)
			return false
		}
		comparePending(t, g, nil, mg.list())
		if all := mg.list(); len(all) > 0 {
			if first, last := g.PendingEnds(); first != all[0].ID || last != all[len(all)-1].ID {
				t.Errorf("pending from %v to %v, want %v", first, last, all)
			}
		}
		g.EachConsumer(func(c *Consumer) bool {
			list := mg.list(string(c.Name))
			if !mg.consumers[string(c.Name)] || c.Pending() != int64(len(list)) {
				t.Errorf("consumer %+v, want %v", c, list)
			}
			comparePending(t, g, c, list)
			return true
		})
		return true
	})
}

func comparePending(t *testing.T, g *Group, c *Consumer, want []Pending) {
	i := 0
	g.EachPending(c, ID{}, MaxID, func(p Pending) bool {
		if i < len(want) {
			w := want[i]
			if p.ID != w.ID || p.Time != w.Time || p.Count != w.Count || !bytes.Equal(p.Consumer, w.Consumer) {
				t.Errorf("pending %+v, want %+v", p, w)
			}
		}
		i++
		return true
	})
	if i != len(want) {
		t.Errorf("%d pending, want %d", i, len(want))
	}
}

// checkRows counts the rows of a stream: none is left over.
func checkRows(t *testing.T, tx *keyspace.Tx, s *Stream) {
	if !s.Exists() {
		return
	}
	var rows [6]int64
	it := tx.IterKind(s.ref, keyspace.SubRow, nil, nil, false)
	for it.Next() {
		rows[rest(it.Key())[0]]++
	}
	tx.CloseRows(it)
	want := [6]int64{s.Len(), s.nodes, s.Groups(), 0, 0, 0}
	s.EachGroup(func(g *Group) bool {
		want[rowConsumer] += g.Consumers()
		want[rowPending] += g.Pending()
		want[rowOwned] += g.Pending()
		return true
	})
	if rows != want {
		t.Errorf("rows %v, want %v", rows, want)
	}
	live := int64(0)
	first := true
	s.eachNode(func(n node) bool {
		if live += int64(n.live); first && s.nodes > 0 && (n.id != s.head || n.live != s.headLive) {
			t.Errorf("the head is %v with %d entries, but the first node %+v", s.head, s.headLive, n)
		}
		first = false
		return true
	})
	if live != s.Len() {
		t.Errorf("the nodes have %d entries, the stream %d", live, s.Len())
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	run(t, 11358862564566188734, 400) // a first node without entries, and a trim that removes nothing else
	for range rounds {
		run(t, rand.Uint64(), 300)
	}
}
