package executor

import (
	"container/list"
	"sync"

	"redoubt/keyspace"
)

// waiting has the queue of waiters of each key, in the order of their arrival.
type waiting struct {
	mu   sync.Mutex
	at   map[dbKey]*list.List
	gone map[dbKey]int // how many waiters are run again when the key is gone
	last uint64
	n    int // waiters of this process; Space.Waiting may count other processes', too
}

type dbKey struct {
	db  int
	key string
}

func (q *waiting) add(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.at == nil {
		q.at = make(map[dbKey]*list.List)
		q.gone = make(map[dbKey]int)
	}
	q.last++
	q.n++
	w.seq = q.last
	for i, key := range w.block.Keys {
		p := dbKey{w.call.DB, string(key)}
		l := q.at[p]
		if l == nil {
			l = list.New()
			q.at[p] = l
		}
		if i > 0 && l.Len() > 0 && l.Back().Value == w {
			w.nodes = append(w.nodes, nil) // named twice
			continue
		}
		w.nodes = append(w.nodes, l.PushBack(w))
		if w.block.Gone {
			q.gone[p]++
		}
	}
}

func (q *waiting) remove(w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n--
	for i, key := range w.block.Keys {
		p := dbKey{w.call.DB, string(key)}
		if l := q.at[p]; l != nil && w.nodes[i] != nil {
			if l.Remove(w.nodes[i]); l.Len() == 0 {
				delete(q.at, p)
			}
			if w.block.Gone {
				if q.gone[p]--; q.gone[p] == 0 {
					delete(q.gone, p)
				}
			}
		}
	}
}

// after appends to buf up to limit waiters of a key that came after the one with the
// number seq.
func (q *waiting) after(p dbKey, seq uint64, limit int, buf []*Waiter) []*Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.at[p]
	if l == nil {
		return buf
	}
	for e := l.Front(); e != nil && len(buf) < limit; e = e.Next() {
		if w := e.Value.(*Waiter); w.seq > seq {
			buf = append(buf, w)
		}
	}
	return buf
}

// anyGone reports whether a waiter of a key is run again when the key is gone.
func (q *waiting) anyGone(p dbKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.gone[p] > 0
}

// keys lists the keys of a database that have waiters.
func (q *waiting) keys(db int) (keys []keyspace.Ready) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := range q.at {
		if p.db == db {
			keys = append(keys, keyspace.Ready{DB: db, Key: []byte(p.key)})
		}
	}
	return keys
}

// has reports whether a key has waiters.
func (q *waiting) has(p dbKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.at[p] != nil
}

// some lists up to most keys that have waiters.
func (q *waiting) some(most int) (list []dbKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := range q.at {
		if len(list) == most {
			break
		}
		list = append(list, p)
	}
	return list
}
