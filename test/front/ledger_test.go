package front

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testtikv"
)

// Books are kept of what was answered: no update is lost or done twice, whatever
// happens to commits and to front ends. What has an unknown outcome may or may not
// be there.

// ledger is one kind of work, done by several workers at the same time.
type ledger interface {
	begin(c *client)
	work(w *worker, id, turn int)
	check(s *stage, c *client)
}

// counter are numbers that are counted up by one each time.
type counter struct {
	mu    sync.Mutex
	seen  map[string]map[int64]bool // the replies
	maybe map[string]int64          // unknown outcomes
}

func (b *counter) note(s *stage, name string, v int64, o outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		b.seen, b.maybe = map[string]map[int64]bool{}, map[string]int64{}
	}
	if b.seen[name] == nil {
		b.seen[name] = map[int64]bool{}
	}
	switch {
	case o == unknown:
		b.maybe[name]++
	case o == done && b.seen[name][v]:
		s.t.Errorf("%s was counted to %d twice: an update is lost", name, v)
	case o == done:
		b.seen[name][v] = true
	}
}

func (b *counter) compare(s *stage, name string, v int64) {
	n := int64(len(b.seen[name]))
	if v < n || v > n+b.maybe[name] {
		s.t.Errorf("%s is %d after %d increments, and %d that nobody knows of", name, v, n, b.maybe[name])
	}
}

// fields are counters in a large hash.
type fields struct{ counter }

func (b *fields) begin(c *client) { c.large("fields", "", "", "") }

func (b *fields) work(w *worker, _, _ int) {
	f := "f" + strconv.Itoa(w.rng.IntN(4))
	v, o := w.one("HINCRBY", "fields", f, "1")
	b.note(w.s, f, v.Int(), o)
}

func (b *fields) check(s *stage, c *client) {
	for f := range b.seen {
		n, _ := strconv.ParseInt(c.do("HGET", "fields", f), 10, 64)
		b.compare(s, f, n)
	}
	c.want(strconv.Itoa(600+len(b.seen)), "HLEN", "fields")
}

// scores are counters in a large sorted set, whose order follows.
type scores struct{ counter }

func (b *scores) begin(c *client) { c.large("", "scores", "", "") }

func (b *scores) work(w *worker, _, _ int) {
	m := "m" + strconv.Itoa(w.rng.IntN(4))
	v, o := w.do([]string{"MULTI"}, []string{"ZINCRBY", "scores", "1", m}, []string{"ZRANK", "scores", m}, []string{"ZSCORE", "scores", m},
		[]string{"ZCOUNT", "scores", "-inf", "(" + strconv.Itoa(1)}, []string{"EXEC"})
	var n int64
	if o == done && len(v.Elems) == 4 {
		n, _ = strconv.ParseInt(v.Elems[0].Str, 10, 64)
		if v.Elems[0].Str != v.Elems[2].Str || v.Elems[3].Int() != 600 || v.Elems[1].Int() < 600 || v.Elems[1].Int() > 603 {
			w.s.t.Errorf("one transaction sees %v", v)
		}
	}
	b.note(w.s, m, n, o)
}

func (b *scores) check(s *stage, c *client) {
	for m := range b.seen {
		n, _ := strconv.ParseInt(c.do("ZSCORE", "scores", m), 10, 64)
		b.compare(s, m, n)
	}
	order := c.value("ZRANGE", "scores", "0", "-1")
	c.want(strconv.Itoa(len(order.Elems)), "ZCARD", "scores")
	for i := 595; i < len(order.Elems); i++ {
		c.want(strconv.Itoa(i), "ZRANK", "scores", order.Elems[i].Str)
	}
}

// bank moves money between accounts that are strings and fields of a hash.
type bank struct{}

const (
	accounts = 4
	each     = 1000
)

func (b *bank) begin(c *client) {
	c.large("bank", "", "", "")
	for i := range accounts {
		c.do("SET", fmt.Sprint("account", i), strconv.Itoa(each))
		c.do("HSET", "bank", fmt.Sprint("account", i), strconv.Itoa(each))
	}
}

func (b *bank) work(w *worker, _, _ int) {
	from, to, n := fmt.Sprint("account", w.rng.IntN(accounts)), fmt.Sprint("account", w.rng.IntN(accounts)), 1+w.rng.IntN(50)
	less, more := strconv.Itoa(-n), strconv.Itoa(n)
	switch w.rng.IntN(5) {
	case 0:
		w.do([]string{"MULTI"}, []string{"INCRBY", from, less}, []string{"HINCRBY", "bank", to, more}, []string{"EXEC"})
	case 1:
		w.do([]string{"MULTI"}, []string{"HINCRBY", "bank", from, less}, []string{"INCRBY", to, more}, []string{"EXEC"})
	case 2: // a read-modify-write of the client's
		if _, o := w.one("WATCH", from, "bank"); o != done {
			return
		}
		a, o := w.one("GET", from)
		v, o2 := w.one("HGET", "bank", to)
		if o != done || o2 != done || a.IsNull || v.IsNull {
			return
		}
		x, _ := strconv.Atoi(a.Str)
		y, _ := strconv.Atoi(v.Str)
		w.do([]string{"MULTI"}, []string{"SET", from, strconv.Itoa(x - n)}, []string{"HSET", "bank", to, strconv.Itoa(y + n)}, []string{"EXEC"})
	case 3: // a script that does not say what it uses
		w.one("EVAL", "redis.call('DECRBY', ARGV[1], ARGV[3]); redis.call('HINCRBY', 'bank', ARGV[2], ARGV[3]); return 1", "0", from, to, more)
	case 4:
		b.sum(w)
	}
}

// sum looks at all accounts at once.
func (b *bank) sum(w *worker) {
	names := []string{}
	for i := range accounts {
		names = append(names, fmt.Sprint("account", i))
	}
	v, o := w.do([]string{"MULTI"}, append([]string{"MGET"}, names...), append([]string{"HMGET", "bank"}, names...), []string{"EXEC"})
	if o != done || len(v.Elems) != 2 {
		return
	}
	total := 0
	for _, e := range append(v.Elems[0].Elems, v.Elems[1].Elems...) {
		n, _ := strconv.Atoi(e.Str)
		total += n
	}
	if total != 2*accounts*each {
		w.s.t.Errorf("all accounts together have %d: %v", total, v)
	}
}

func (b *bank) check(s *stage, c *client) { b.sum(&worker{s: s, conn: c.Client}) }

// queue is what goes in at one side and must come out once.
type queue struct {
	put, take []string

	mu    sync.Mutex
	in    map[string]outcome
	out   map[string]bool
	maybe int // takes with an unknown outcome
	story map[string][]string
}

// tell notes what happened to an element.
func (q *queue) tell(e, format string, args ...any) {
	q.story[e] = append(q.story[e], time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (q *queue) begin(c *client) {
	q.in, q.out, q.story = map[string]outcome{}, map[string]bool{}, map[string][]string{}
	c.large("", "", map[bool]string{true: q.put[1]}[q.put[0] == "SADD"], "")
	if q.put[0] == "SADD" {
		for i := range 600 {
			q.in[fmt.Sprint("pad", i)] = done
		}
	}
}

func (q *queue) work(w *worker, id, turn int) {
	if w.rng.IntN(2) == 0 {
		e, began := fmt.Sprintf("%d-%d", id, turn), time.Now()
		v, o := w.one(append(slices.Clone(q.put), e)...)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.in[e] = o
		q.tell(e, "put at front end %d, begun %s ago: outcome %d, %v", w.at%w.s.Len(), time.Since(began), o, v)
		return
	}
	began := time.Now()
	v, o := w.one(q.take...)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tell(v.Str, "taken at front end %d, begun %s ago: outcome %d", w.at%w.s.Len(), time.Since(began), o)
	if o == unknown {
		q.maybe++
	}
	if o == done {
		q.took(w.s, v)
	}
}

func (q *queue) took(s *stage, v respclient.Value) bool {
	if v.IsNull {
		return false
	}
	if q.out[v.Str] {
		s.t.Errorf("%s gave %q twice: %q", q.take[0], v.Str, q.story[v.Str])
	}
	q.out[v.Str] = true
	return true
}

func (q *queue) check(s *stage, c *client) {
	for q.took(s, c.value(q.take...)) {
	}
	missing := 0
	for e, o := range q.in {
		if o == done && !q.out[e] {
			missing++
		}
	}
	for e := range q.out {
		if o, ok := q.in[e]; !ok || o == none {
			s.t.Errorf("%s gave %q, which was never put", q.take[0], e)
		}
	}
	if missing > q.maybe {
		s.t.Errorf("%d elements were put and did not come out; %d times nobody knows", missing, q.maybe)
	}
}

// stream is read by a group.
type stream struct {
	mu    sync.Mutex
	added map[string]outcome
	got   map[string]string // the value of each id
	acked map[string]outcome
}

func (b *stream) begin(c *client) {
	b.added, b.got, b.acked = map[string]outcome{}, map[string]string{}, map[string]outcome{}
	c.do("XGROUP", "CREATE", "stream", "g", "0", "MKSTREAM")
}

func (b *stream) work(w *worker, id, turn int) {
	switch w.rng.IntN(3) {
	case 0:
		e := fmt.Sprintf("%d-%d", id, turn)
		_, o := w.one("XADD", "stream", "*", "v", e)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.added[e] = o
	case 1:
		v, o := w.one("XREADGROUP", "GROUP", "g", fmt.Sprint("c", id), "COUNT", "3", "STREAMS", "stream", ">")
		if o == done && !v.IsNull {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.read(w.s, v)
		}
	case 2:
		b.mu.Lock()
		list := slices.Sorted(maps.Keys(b.got))
		b.mu.Unlock()
		if len(list) == 0 {
			return
		}
		e := list[w.rng.IntN(len(list))]
		_, o := w.one("XACK", "stream", "g", e)
		b.mu.Lock()
		defer b.mu.Unlock()
		if o < b.acked[e] || b.acked[e] == 0 {
			b.acked[e] = o + 1 // 1 is done
		}
	}
}

// read notes what was delivered, and says how much.
func (b *stream) read(s *stage, v respclient.Value) (n int) {
	if len(v.Elems) == 0 || len(v.Elems[0].Elems) < 2 {
		return 0
	}
	for _, e := range v.Elems[0].Elems[1].Elems {
		id := e.Elems[0].Str
		if _, twice := b.got[id]; twice {
			s.t.Errorf("entry %s was delivered twice", id)
		}
		b.got[id] = e.Elems[1].Elems[1].Str
		n++
	}
	return n
}

func (b *stream) check(s *stage, c *client) {
	for b.read(s, c.value("XREADGROUP", "GROUP", "g", "last", "COUNT", "100", "STREAMS", "stream", ">")) > 0 {
	}
	there, pending := map[string]bool{}, map[string]bool{}
	for _, e := range c.value("XRANGE", "stream", "-", "+").Elems {
		there[e.Elems[1].Elems[1].Str] = true
	}
	for _, e := range c.value("XPENDING", "stream", "g", "-", "+", "100000").Elems {
		pending[e.Elems[0].Str] = true
	}
	for e, o := range b.added {
		if o == done && !there[e] || o == none && there[e] {
			s.t.Errorf("XADD of %s: outcome %d, and there: %v", e, o, there[e])
		}
	}
	for id := range b.got {
		if a := b.acked[id]; a == 0 && !pending[id] || a == 1 && pending[id] {
			s.t.Errorf("entry %s was delivered, XACK %d, and is pending: %v", id, a, pending[id])
		}
	}
}

// TestLedgers has all kinds of work done while commits go wrong and front ends die.
func TestLedgers(t *testing.T) {
	onStores(t, 3, hasty, nil, func(_ *testing.T, s *stage) { s.keep(2**rounds, nil) })
}

// TestLedgersWhileTheStoreDies is that on small regions, with a store that is killed.
func TestLedgersWhileTheStoreDies(t *testing.T) {
	t.Parallel()
	cluster := testtikv.Start(t, testtikv.RegionSize(128<<10))
	s := onTiKV(t, 3, cluster.PD())
	s.keep(2**rounds, func() {
		s.t.Log("the store is killed at", time.Now().Format("05.000"))
		cluster.KillStore()
		<-time.After(time.Duration(s.rng.IntN(500)) * time.Millisecond)
		cluster.StartStore()
		s.t.Log("the store is back at", time.Now().Format("05.000"))
	})
}

// keep has ledgers kept for some rounds. In each of them a front end is killed, and
// more may go wrong.
func (s *stage) keep(rounds int, more func()) {
	books := []ledger{
		&fields{}, &scores{}, &bank{}, &stream{},
		&queue{put: []string{"LPUSH", "list"}, take: []string{"RPOP", "list"}},
		&queue{put: []string{"SADD", "set"}, take: []string{"SPOP", "set"}},
	}
	c := s.dial(0)
	for _, b := range books {
		b.begin(c)
	}
	ops, lost, kills, began := 0, 0, 0, time.Now()
	for range rounds {
		end := s.trouble()
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := range 2 * s.Len() * len(books) {
			w := s.worker(i/len(books), s.rng.Uint64())
			all.Go(func() {
				defer w.close()
				for range 40 {
					books[i%len(books)].work(w, i, turn.next())
				}
				mu.Lock()
				defer mu.Unlock()
				ops, lost = ops+w.ops, lost+w.lost
			})
		}
		<-time.After(time.Duration(20+s.rng.IntN(200)) * time.Millisecond)
		victim := s.rng.IntN(s.Len())
		s.Kill(victim)
		kills++
		if more != nil {
			more()
		}
		all.Wait()
		end()
		s.Restart(victim)
	}
	for i, b := range books {
		b.check(s, s.dial(i))
	}
	s.t.Logf("%d operations, %d of unknown outcome, %d front ends killed, %s", ops, lost, kills, time.Since(began).Round(time.Millisecond))
}

// turn makes names that nobody else has.
var turn turns

type turns struct {
	mu sync.Mutex
	n  int
}

func (t *turns) next() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	return t.n
}
