package stream

import (
	"bytes"
	"encoding/binary"
)

// Pending is an entry that was delivered to a consumer and not acknowledged.
type Pending struct {
	ID       ID
	Time     int64 // of the last delivery
	Count    int64 // of deliveries
	Consumer []byte
}

const pendingHead = 8 + 8

func (g *Group) pendingRow(id ID) []byte {
	return g.s.done(appendID(g.rowOf(rowPending), id))
}

func (c *Consumer) ownedRow(id ID) []byte {
	b := binary.BigEndian.AppendUint32(c.g.rowOf(rowOwned), c.number)
	return c.g.s.done(appendID(b, id))
}

// Find finds a pending entry.
func (g *Group) Find(id ID) (Pending, bool) {
	if g.pending == 0 || g.top.Less(id) {
		return Pending{}, false
	}
	v, found := g.s.tx.GetRow(g.pendingRow(id))
	if !found {
		return Pending{}, false
	}
	return g.decode(id, v)
}

// Prefetch prefetches the pending rows of entries, and if whole also the entries, where that
// is worth while.
func (g *Group) Prefetch(ids []ID, whole bool) {
	if g.pending == 0 && !whole || !g.s.tx.WorthPrefetching(len(ids)) {
		return
	}
	for _, id := range ids {
		if g.pending > 0 && !g.top.Less(id) {
			g.s.tx.Expect(g.pendingRow(id))
		}
		if whole {
			g.s.expect(id)
		}
	}
	g.s.tx.FetchExpected()
}

func (g *Group) decode(id ID, v []byte) (Pending, bool) {
	if len(v) < pendingHead {
		g.s.corrupt("a pending entry's row is malformed")
		return Pending{}, false
	}
	return Pending{
		ID: id, Time: int64(binary.BigEndian.Uint64(v)), Count: int64(binary.BigEndian.Uint64(v[8:])), Consumer: v[pendingHead:],
	}, true
}

func (g *Group) put(p Pending) {
	var buf [64]byte
	b := binary.BigEndian.AppendUint64(buf[:0], uint64(p.Time))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Count))
	g.s.tx.PutRow(g.pendingRow(p.ID), append(b, p.Consumer...))
}

// Assign makes an entry pending for a consumer. old and pending are what Find returned.
func (g *Group) Assign(old Pending, pending bool, c *Consumer, p Pending) {
	p.Consumer = c.Name
	g.put(p)
	switch {
	case !pending:
		g.pending++
		if g.top.Less(p.ID) {
			g.top = p.ID
		}
	case bytes.Equal(old.Consumer, c.Name):
		return
	default:
		g.disown(old)
	}
	c.pending++
	g.changed, c.changed = true, true
	g.s.tx.PutRow(c.ownedRow(p.ID), nil)
}

// Claim is Assign at the request of the consumer, which counts as active.
func (g *Group) Claim(old Pending, pending bool, c *Consumer, p Pending) {
	g.Assign(old, pending, c, p)
	c.act()
}

// disown removes an entry from its consumer's pending ones.
func (g *Group) disown(p Pending) {
	c := g.Consumer(p.Consumer)
	if c == nil {
		g.s.corrupt("a pending entry's consumer does not exist")
		return
	}
	c.pending--
	c.changed = true
	g.s.tx.DeleteRow(c.ownedRow(p.ID))
}

// Drop removes a pending entry. p is what Find returned.
func (g *Group) Drop(p Pending) {
	g.disown(p)
	g.s.tx.DeleteRow(g.pendingRow(p.ID))
	g.pending--
	g.changed = true
}

// Ack removes a pending entry, and reports whether it was pending.
func (g *Group) Ack(id ID) bool {
	held := g.s.tx.Held()
	p, pending := g.Find(id)
	if pending {
		g.Drop(p)
	}
	g.s.release(held)
	return pending
}

// IDs are collected in pages before rows are written. Pages begin small, since most
// calls want few, and grow: each new iterator costs more the more was written.
const (
	firstPage = 16
	lastPage  = 16 << 10
)

// Read delivers up to count entries (0: all) after the group's position to a consumer.
// The entries become pending unless noAck. visit must not write.
func (g *Group) Read(c *Consumer, count int64, noAck bool, visit func(id ID, e Entry)) (n int64) {
	var ids []ID
	for page := 16 * firstPage; ; page = min(4*page, lastPage) {
		from, ok := g.Last.Next()
		if !ok {
			return n
		}
		ids = ids[:0]
		g.s.Each(from, MaxID, false, func(id ID, e Entry) bool {
			visit(id, e)
			ids = append(ids, id)
			n++
			return n != count && len(ids) < page
		})
		for _, id := range ids {
			g.deliver(id, c, noAck)
		}
		if len(ids) < page || n == count || g.s.tx.Heavy(n*4*rowWork) {
			return n
		}
	}
}

func (g *Group) deliver(id ID, c *Consumer, noAck bool) {
	g.advance(id)
	if noAck {
		return
	}
	// The entry may be pending already: XGROUP SETID can set a group back.
	held := g.s.tx.Held()
	old, pending := g.Find(id)
	g.Assign(old, pending, c, Pending{ID: id, Time: g.s.tx.Now, Count: 1})
	g.s.release(held)
	c.act()
}

// History visits up to count (0: all) pending entries of a consumer from an ID on.
// Deleted entries are nil; the others count as delivered again.
func (g *Group) History(c *Consumer, from ID, count int64, visit func(id ID, e Entry)) {
	n := int64(0)
	c.eachOwned(from, MaxID, func(ids []ID) bool {
		if left := count - n; count > 0 && left < int64(len(ids)) {
			ids = ids[:left]
		}
		g.Prefetch(ids, true)
		for _, id := range ids {
			held := g.s.tx.Held()
			e, found := g.s.Get(id)
			if !found {
				e = nil
			} else if p, ok := g.Find(id); ok {
				p.Time = g.s.tx.Now
				p.Count++
				g.put(p)
			}
			visit(id, e)
			g.s.release(held)
			if n++; n == count {
				return false
			}
		}
		return g.s.tx.Err() == nil && !g.s.tx.Heavy(n*4*rowWork)
	})
}

// eachOwned visits the IDs of a consumer's pending entries, a page at a time, until
// visit returns false. visit may write.
func (c *Consumer) eachOwned(from, to ID, visit func(ids []ID) bool) {
	if c.pending == 0 {
		return
	}
	s, p := c.g.s, c.prefix()
	var ids []ID
	for page, more := firstPage, true; more; page = min(4*page, lastPage) {
		ids = ids[:0]
		it := s.rows(p, from, to, false)
		for len(ids) < page && it.Next() {
			k := rest(it.Key())
			if len(k) != len(p)+idSize {
				s.corrupt("a row of a consumer's is malformed")
				break
			}
			ids = append(ids, decodeID(k[len(p):]))
		}
		s.tx.CloseRows(it)
		if more = len(ids) == page; more {
			from, more = ids[len(ids)-1].Next()
		}
		if len(ids) == 0 || s.tx.Err() != nil || !visit(ids) {
			return
		}
	}
}

// EachPending visits the pending entries in [from, to] of the group or, if c is not nil,
// of a consumer, until visit returns false. p is valid during the call, and visit must
// not write.
func (g *Group) EachPending(c *Consumer, from, to ID, visit func(p Pending) bool) {
	if g.pending == 0 || to.Less(from) {
		return
	}
	if c != nil {
		g.eachPendingOf(c, from, to, visit)
		return
	}
	prefix := g.prefix(rowPending)
	it := g.s.rows(prefix, from, to, false)
	defer g.s.tx.CloseRows(it)
	var w work
	for it.Next() {
		k := rest(it.Key())
		if len(k) != len(prefix)+idSize {
			g.s.corrupt("a pending entry's row is malformed")
			return
		}
		p, ok := g.decode(decodeID(k[len(prefix):]), it.Value())
		if !ok || !w.add(g.s.tx, 0) || !visit(p) {
			return
		}
	}
}

func (g *Group) eachPendingOf(c *Consumer, from, to ID, visit func(p Pending) bool) {
	var w work
	c.eachOwned(from, to, func(ids []ID) bool {
		g.Prefetch(ids, false)
		for _, id := range ids {
			held := g.s.tx.Held()
			p, ok := g.Find(id)
			if !ok {
				g.s.corrupt("a consumer's entry is not pending in its group")
				return false
			}
			next := visit(p)
			g.s.release(held)
			if !next || !w.add(g.s.tx, 2*rowWork) {
				return false
			}
		}
		return true
	})
}

// PendingEnds are the first and the last pending ID, if any.
func (g *Group) PendingEnds() (first, last ID) {
	g.EachPending(nil, ID{}, MaxID, func(p Pending) bool {
		first = p.ID
		return false
	})
	it := g.s.rows(g.prefix(rowPending), first, g.top, true)
	defer g.s.tx.CloseRows(it)
	if it.Next() {
		if k := rest(it.Key()); len(k) == 1+4+idSize {
			last = decodeID(k[5:])
		}
	}
	return first, last
}
