package enginetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"redoubt/engine"
)

// Cold is an engine for the tests of the layers above: some of its rows, existing or not, are not
// in memory. NoWait views cannot read these; a row that another view has read or prefetched is
// warm afterwards.
type Cold struct {
	engine.Engine

	// Forgetful: a row is cold again right after it was read.
	Forgetful atomic.Bool
	// Jammed: the engine is congested.
	Jammed atomic.Bool
	// Waiting and NoWait count commits on views that may wait, and on NoWait views.
	Waiting, NoWait atomic.Int64

	mu      sync.Mutex
	cold    func(row []byte) bool
	reading func()
	warm    map[string]bool
}

// Chill wraps an engine. No row is cold before Set is called.
func Chill(e engine.Engine) *Cold { return &Cold{Engine: e, warm: make(map[string]bool)} }

// Set sets which rows are cold until they are read.
func (c *Cold) Set(cold func(row []byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cold = cold
	clear(c.warm)
}

// OnRead sets f, which is called whenever a view waits for a row.
func (c *Cold) OnRead(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = f
}

// Is reports whether a row is cold now.
func (c *Cold) Is(row []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cold != nil && c.cold(row) && !c.warm[string(row)]
}

// load is the read of a row from disk.
func (c *Cold) load(row []byte) {
	if !c.Is(row) {
		return
	}
	c.mu.Lock()
	reading := c.reading
	c.mu.Unlock()
	if reading != nil {
		reading()
	}
	if !c.Forgetful.Load() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.warm[string(row)] = true
	}
}

// Congested implements engine.Engine.
func (c *Cold) Congested() bool { return c.Jammed.Load() }

// Begin implements engine.Engine.
func (c *Cold) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := c.Engine.Begin(o)
	return &coldView{v, c, !o.NoWait}, err
}

type coldView struct {
	engine.View
	c    *Cold
	wait bool
}

func (v *coldView) read(row []byte) error {
	if v.wait {
		v.c.load(row)
	} else if v.c.Is(row) {
		return fmt.Errorf("row % x: %w", row, engine.ErrCold)
	}
	return nil
}

func (v *coldView) Get(key, dst []byte) ([]byte, bool, error) {
	if err := v.read(key); err != nil {
		return dst, false, err
	}
	return v.View.Get(key, dst)
}

func (v *coldView) GetMany(keys [][]byte, visit func(int, []byte, bool) error) error {
	for _, k := range keys {
		if err := v.read(k); err != nil {
			return err
		}
	}
	return v.View.GetMany(keys, visit)
}

func (v *coldView) Prefetch(keys [][]byte) (cold int) {
	for _, k := range keys {
		if v.c.Is(k) {
			cold++
		}
		if v.wait {
			v.c.load(k)
		}
	}
	return cold
}

func (v *coldView) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return &coldIter{Iterator: v.View.Iter(lo, hi, reverse), v: v}
}

func (v *coldView) Count(_, _ []byte) (int, bool) { return 0, false }

func (v *coldView) Nth(_, _ []byte, _ int, b []byte) ([]byte, bool, bool) { return b, false, false }

func (v *coldView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

func (v *coldView) Commit(b *engine.Batch) (engine.Ticket, error) {
	if v.wait {
		v.c.Waiting.Add(1)
	} else {
		v.c.NoWait.Add(1)
	}
	return v.View.Commit(b)
}

type coldIter struct {
	engine.Iterator
	v   *coldView
	err error
}

func (it *coldIter) Next() bool {
	if it.err != nil || !it.Iterator.Next() {
		return false
	}
	it.err = it.v.read(it.Iterator.Key())
	return it.err == nil
}

func (it *coldIter) Close() error {
	if err := it.Iterator.Close(); it.err == nil {
		return err
	}
	return it.err
}
