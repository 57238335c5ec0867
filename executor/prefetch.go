package executor

import (
	"redoubt/command"
	"redoubt/wire"
)

// Rows that will be needed soon.

// Prefetch notes the keys of a command that will be run soon; Fetch then gives
// the engine the chance to bring their rows nearer, all at once.
func (b *Batch) Prefetch(cmd *command.Command, args [][]byte, db int) {
	if len(cmd.Keys) == 0 || len(b.soon) >= maxSoon && !b.fetched {
		return
	}
	if i, one := cmd.OneKeyAt(); one {
		if i < len(args) {
			b.expect(args[i], db)
		}
		return
	}
	b.args, b.db = args, db
	cmd.EachKey(args, b.eachExpect)
}

func (b *Batch) expect(key []byte, db int) {
	if b.fetched {
		b.forget()
	}
	if len(key) > longKey || len(b.soon) >= maxSoon {
		return
	}
	at := len(b.soonBytes)
	b.soonBytes = b.x.space.AppendRowKey(b.soonBytes, db, key)
	b.soon = append(b.soon, b.soonBytes[at:len(b.soonBytes):len(b.soonBytes)])
	b.soonLatches = append(b.soonLatches, b.x.latches.of(key))
}

const (
	maxSoon = 256
	longKey = 1 << 10 // copying it would cost more than a prefetch brings
)

// PrefetchFirst is Prefetch for the first command of some input that was not
// parsed yet, if it has its key in the first argument.
func (b *Batch) PrefetchFirst(t *command.Table, in []byte, db int) {
	name, key := wire.Peek(in)
	if key == nil {
		return
	}
	if cmd := t.Lookup(name); cmd != nil && cmd.Run != nil && len(cmd.Keys) > 0 && cmd.Keys[0].Begin.Index == 1 {
		b.expect(key, db)
	}
}

// Fetch fetches what Prefetch noted. It returns how many of those rows the batch
// cannot read, since they are not in memory and it may not wait.
func (b *Batch) Fetch() (cold int) {
	if b.fetched {
		b.forget()
	}
	if b.x.remote && b.mode == Loop {
		b.fetched = true
		return 0 // a loop does not wait for another machine
	}
	if ok, err := b.begin(); ok && err == nil && len(b.soon) > 1 {
		cold = b.tx.Rows.View.Prefetch(b.soon)
	}
	sum := uint32(0)
	for _, i := range b.soonLatches { // a tight loop: the cache misses overlap
		sum += b.x.latches.tab[i].used.Load()
	}
	b.touched += sum
	b.fetched = true
	if b.mode != Loop {
		return 0 // what was cold has been loaded
	}
	return cold
}

func (b *Batch) forget() {
	b.fetched = false
	b.soon, b.soonBytes, b.soonLatches = b.soon[:0], b.soonBytes[:0], b.soonLatches[:0]
}
