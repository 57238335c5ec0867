package executor

import (
	"redoubt/command"
	"redoubt/engine"
	"redoubt/wire"
)

// Rows that calls will read are fetched ahead, all at once. Each batch has one plan of wanted
// rows (engine.Wanted) with two sources: the keys of commands that were parsed and are not
// run yet (Prefetch), and the keys that a transaction watches. Rows that calls turn out to
// read beyond those of their keys are a plan of the rehearsal (rehearsal.go); rows that a
// handler names by keyspace.Tx.Expect are a plan of its transaction.

const (
	maxWanted = 256
	longKey   = 1 << 10 // to copy a longer key costs more than a prefetch saves
)

// Prefetch adds the keys of a command that will be run soon to the plan, for Fetch.
func (b *Batch) Prefetch(cmd *command.Command, args [][]byte, db int) {
	if len(cmd.Keys) == 0 || b.wanted.Len() >= maxWanted {
		return
	}
	if i, one := cmd.OneKeyAt(); one {
		if i < len(args) {
			b.want(args[i], db)
		}
		return
	}
	b.args, b.db = args, db
	cmd.EachKey(args, b.eachWanted)
}

// PrefetchFirst is Prefetch for the first command of input that is not parsed yet, if
// its first key is its first argument.
func (b *Batch) PrefetchFirst(t *command.Table, in []byte, db int) {
	name, key := wire.Peek(in)
	if key == nil {
		return
	}
	if cmd := t.Lookup(name); cmd != nil && cmd.Run != nil && len(cmd.Keys) > 0 && cmd.Keys[0].Begin.Index == 1 {
		b.want(key, db)
	}
}

// want adds the meta row of a key to the plan.
func (b *Batch) want(key []byte, db int) {
	n := b.wanted.Len()
	if len(key) > longKey || n >= maxWanted {
		return
	}
	if n == 0 {
		b.wantedLatches = b.wantedLatches[:0]
	}
	b.wantedRow = b.x.space.AppendRowKey(b.wantedRow[:0], db, key)
	b.wanted.Add(b.wantedRow)
	b.wantedLatches = append(b.wantedLatches, b.x.latches.Stripe(key))
}

// forget empties the plan.
func (b *Batch) forget() {
	b.wanted.Reset()
	b.wantedLatches = b.wantedLatches[:0]
}

// Fetch fetches the rows of the plan, and brings the latches of their keys into the processor's
// cache. On an event loop it returns how many of the rows are not in memory, so that the
// batch cannot read them.
func (b *Batch) Fetch() (cold int) {
	if b.x.remote && b.mode == Loop {
		b.forget()
		return 0 // a loop does not wait for another machine
	}
	if ok, err := b.begin(); ok && err == nil && b.wanted.Len() > 1 {
		cold = b.wanted.Fetch(b.tx.Rows.View)
	} else {
		b.wanted.Reset()
	}
	sum := uint32(0)
	for _, i := range b.wantedLatches { // a tight loop: the cache misses overlap
		sum += b.x.latches.Used(i)
	}
	b.touched += sum
	b.wantedLatches = b.wantedLatches[:0]
	if b.mode != Loop {
		return 0 // cold rows have been loaded
	}
	return cold
}

// Fetched returns a copy of the plan that the last Fetch was about.
func (b *Batch) Fetched() *engine.Wanted { return b.wanted.Clone() }

// Warm loads rows into memory and waits for them. It is a hint: a row may be evicted
// again before it is read, and an error of the store is returned by the read.
func (x *Executor) Warm(rows *engine.Wanted) {
	x.reading <- struct{}{}
	defer func() { <-x.reading }()
	view, err := x.eng.Begin(engine.ViewOptions{})
	if err != nil {
		return
	}
	defer view.Close()
	rows.Fetch(view)
	x.Stats.Warmed.Add(1)
}

// fetchAhead fetches the rows that calls on a remote store will read, as far as they can be
// known.
func (b *Batch) fetchAhead(calls []*Call, watch *Watch) {
	b.forget()
	for _, c := range calls {
		b.Prefetch(c.Cmd, c.Args, c.DB)
	}
	if watch != nil {
		watch.prefetch(b)
	}
	if list := rehearsable(calls); len(list) > 1 {
		b.rehearse(list)
	} else if b.wanted.Len() > 1 {
		b.wanted.Fetch(b.tx.Rows.View)
		b.read = true
	}
	b.forget()
}

// fetchFor is fetchAhead for a call or, if it has a queue, for the commands in it.
func (b *Batch) fetchFor(c *Call) {
	if b.mode == Snapshot || b.grouped {
		return
	}
	calls := []*Call{c}
	if c.Queue != nil {
		calls = calls[:0]
	}
	for i := range c.Queue {
		q := &c.Queue[i]
		calls = append(calls, &Call{Cmd: q.Cmd, Args: q.Args, DB: c.DB, Reply: c.Reply, Caller: c.Caller, By: c.By})
	}
	b.fetchAhead(calls, c.Watch)
}

func (w *Watch) prefetch(b *Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		b.want([]byte(k.at.key), k.at.db)
	}
}
