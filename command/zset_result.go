package command

import (
	"redoubt/keyspace"
	"redoubt/types/zset"
)

// The result of an operation on sorted sets: a reply, or a key.

// operation is union, inter or diff.
type operation = func(a *zalgebra, visit func(member []byte, score float64) bool)

func (c *Ctx) zreplied(op operation, diffs bool) error {
	a := &zalgebra{c: c, diffs: diffs}
	if err := a.read(c.Args[1:]); err != nil {
		return err
	}
	list := sortTable{weighed: true}
	list.compare = list.byWeight
	if !list.init(c.Tx, 0, 0) {
		return nil
	}
	op(a, func(member []byte, score float64) bool { return list.add(member, score, nil, false) })
	if c.Tx.Err() != nil {
		return nil
	}
	list.sort()
	c.elementHead(int64(len(list.order)), a.withScores)
	for _, at := range list.order {
		if !c.element(list.element(at), list.weight(at), a.withScores) {
			return nil
		}
	}
	return nil
}

func (c *Ctx) zstored(op operation, event string) error {
	a := &zalgebra{c: c, store: true, diffs: event == "zdiffstore"}
	if err := a.read(c.Args[2:]); err != nil {
		return err
	}
	dst := zset.Create(c.Tx, c.Args[1], &c.Limits.Limits)
	defer dst.Release()
	op(a, func(member []byte, score float64) bool {
		dst.Insert(member, score)
		return c.Tx.Err() == nil
	})
	c.stored(dst, keyspace.ZSetEv, event, c.Args[1], 1)
	return nil
}
