package command

import (
	"bytes"
	"cmp"
	"slices"

	"redoubt/keyspace"
	"redoubt/types/zset"
)

// What becomes of the outcome of an operation on sorted sets: a reply, or a key.

// operation is union, inter or diff.
type operation = func(a *zalgebra, visit func(member []byte, score float64) bool)

func (c *Ctx) zreplied(op operation, diffs bool) error {
	a := &zalgebra{c: c, diffs: diffs}
	if err := a.read(c.Args[1:]); err != nil {
		return err
	}
	list := &zlist{}
	a.acc = list
	op(a, list.take)
	list.sort()
	c.elementHead(int64(len(list.elems)), a.withScores)
	for _, e := range list.elems {
		if !c.element(e.member, e.score, a.withScores) {
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
	a.acc = dst
	op(a, func(member []byte, score float64) bool {
		dst.Insert(member, score)
		return c.Tx.Err() == nil
	})
	c.storedZSet(dst, event)
	return nil
}

// storedZSet saves a new set and replies its size.
func (c *Ctx) storedZSet(dst *zset.ZSet, event string) {
	dst.Save()
	switch {
	case dst.Len() > 0:
		c.Tx.Changed(keyspace.ZSetEv, event, dst.Key())
	case dst.Replaces():
		c.Tx.Changed(keyspace.Generic, "del", dst.Key())
	}
	c.Reply.Int(dst.Len())
}

// zlist is a result in memory.
type zlist struct {
	elems []zelem
	index map[string]int
}

type zelem struct {
	member []byte
	score  float64
}

func (l *zlist) take(member []byte, score float64) bool {
	l.elems = append(l.elems, zelem{bytes.Clone(member), score})
	return true
}

// Score implements zaccumulator.
func (l *zlist) Score(member []byte) (float64, bool) {
	i, ok := l.index[string(member)]
	if !ok {
		return 0, false
	}
	return l.elems[i].score, true
}

// Insert implements zaccumulator.
func (l *zlist) Insert(member []byte, score float64) {
	if l.index == nil {
		l.index = make(map[string]int)
	}
	l.index[string(member)] = len(l.elems)
	l.take(member, score)
}

// Replace implements zaccumulator.
func (l *zlist) Replace(member []byte, _, score float64) bool {
	l.elems[l.index[string(member)]].score = score
	return true
}

func (l *zlist) sort() {
	slices.SortFunc(l.elems, func(a, b zelem) int {
		return cmp.Or(cmp.Compare(a.score, b.score), bytes.Compare(a.member, b.member))
	})
}
