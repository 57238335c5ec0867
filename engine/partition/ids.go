package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"redoubt/engine"
)

// Ids are taken in blocks from a row that says below which number all ids are that were
// given. A block begins at the time in milliseconds << 18, or behind the last block if that
// is later: so an id is above all that another store of this kind had given before.

type ids struct {
	mu        sync.Mutex
	next, end uint64
}

// idBlock is how many ids a process takes at once.
const idBlock = 4096

var idRow = []byte(ownRows + "i")

// NextID implements engine.Shared.
func (e *Engine) NextID() (uint64, error) {
	e.ids.mu.Lock()
	defer e.ids.mu.Unlock()
	if e.ids.next == e.ids.end {
		if err := e.nextBlock(); err != nil {
			return 0, fmt.Errorf("take a block of ids: %w", err)
		}
	}
	e.ids.next++
	return e.ids.next - 1, nil
}

func (e *Engine) nextBlock() error {
	return e.transact(func(v *view, b *engine.Batch) error {
		row, found, err := v.Get(idRow, nil)
		if err != nil {
			return err
		}
		from := uint64(time.Now().UnixMilli()) << logical
		if found {
			if len(row) != 8 {
				return fmt.Errorf("the row of ids has %d bytes: %w", len(row), engine.ErrCorrupt)
			}
			from = max(from, binary.BigEndian.Uint64(row))
		}
		b.Put(idRow, binary.BigEndian.AppendUint64(nil, from+idBlock))
		e.ids.next, e.ids.end = from, from+idBlock
		return nil
	})
}

// transact runs f on a view that may use the engine's own rows, and commits what f writes,
// until there is no conflict. f may be run again after an unknown outcome.
func (e *Engine) transact(f func(v *view, b *engine.Batch) error) error {
	for begin := time.Now(); ; {
		v := e.view(engine.ViewOptions{})
		v.own = true
		var b engine.Batch
		err := f(v, &b)
		if err == nil && !b.Empty() {
			_, err = v.Commit(&b)
		}
		v.Close()
		if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknownOutcome) || time.Since(begin) > e.opt.Timeout {
			return err
		}
		sleep(e.ctx, time.Millisecond)
	}
}
