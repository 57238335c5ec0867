package copier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Writing is a pipeline: one goroutine reads the source and cuts it into portions, several
// write them, and one puts written portions into order again and sets the mark.

// portion is what one commit writes.
type portion struct {
	number int
	batch  engine.Batch
	census keyspace.Census
	first  []byte
	last   []byte
	rows   int64
	bytes  int64
}

func (p *portion) add(key, value []byte) {
	if p.rows == 0 {
		p.first = append(p.first[:0], key...)
	}
	p.batch.Put(key, value)
	p.census.Add(key, value)
	p.last = append(p.last[:0], key...)
	p.rows++
	p.bytes += int64(len(key) + len(value))
}

// write copies the rows after the mark.
func (c *copying) write(ctx context.Context) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// A fixed number of portions bounds memory, and no send blocks on a full channel.
	n := 3*c.Writers + 1
	idle, work, done := make(chan *portion, n), make(chan *portion, n), make(chan *portion, n)
	for range n {
		idle <- new(portion)
	}
	var writers sync.WaitGroup
	for range c.Writers {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for p := range work {
				if ctx.Err() != nil {
					continue
				}
				if err := c.commit(ctx, &p.batch); err != nil {
					stop(fmt.Errorf("write %d rows from %s on: %w", p.rows, new(keyspace.Describer).Key(p.first), err))
					continue
				}
				done <- p
			}
		}()
	}
	marked := make(chan error, 1)
	go func() { marked <- c.follow(ctx, done, idle, stop) }()

	err = c.read(ctx, idle, work)
	close(work)
	writers.Wait()
	close(done)
	markErr := <-marked
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return errors.Join(err, markErr)
}

// read cuts the rows after the mark into portions.
func (c *copying) read(ctx context.Context, idle <-chan *portion, work chan<- *portion) (err error) {
	from := c.mark.last
	if len(from) > 0 {
		from = append(append([]byte(nil), from...), 0)
	}
	it := c.from.Rows.Iter(from, nil, false)
	defer func() {
		if e := it.Close(); e != nil {
			err = fmt.Errorf("read the source: %w", e)
		}
	}()
	var p *portion
	number := 0
	send := func() {
		if p != nil && p.rows > 0 {
			work <- p
			p = nil
			number++
		}
	}
	for it.Next() {
		key, value := it.Key(), it.Value()
		if !keyspace.Copied(key) {
			continue
		}
		if p != nil && p.bytes+int64(len(key)+len(value)) > int64(c.Bytes) {
			send()
		}
		if p == nil {
			select {
			case p = <-idle:
			case <-ctx.Done():
				return ctx.Err()
			}
			p.batch.Reset()
			p.number, p.census, p.rows, p.bytes = number, keyspace.Census{}, 0, 0
		}
		if p.add(key, value); p.rows >= int64(c.Rows) {
			send()
		}
	}
	if ctx.Err() == nil {
		send()
	}
	return ctx.Err()
}

// follow puts written portions into order and keeps the mark. It sets the mark a last time
// when done is closed, also after an error.
func (c *copying) follow(ctx context.Context, done <-chan *portion, idle chan<- *portion, stop context.CancelCauseFunc) error {
	early := make(map[int]*portion)
	next, unmarked := 0, 0
	for p := range done {
		early[p.number] = p
		for p = early[next]; p != nil; p = early[next] {
			delete(early, next)
			c.mark.add(p)
			idle <- p
			next++
			unmarked++
		}
		c.Progress(Progress{"copied", c.mark.rows, c.mark.bytes, percent(c.mark.last)})
		if unmarked >= c.MarkEvery && ctx.Err() == nil {
			if err := c.set(ctx); err != nil {
				stop(err) // go on receiving; no writer blocks, since done has room for every portion
				continue
			}
			unmarked = 0
		}
	}
	if unmarked == 0 {
		return nil
	}
	// Even if the context has ended, the mark is set: it saves work to a later run.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return c.set(last)
}

// set sets the mark.
func (c *copying) set(ctx context.Context) error {
	var b engine.Batch
	b.Put(keyspace.CopyRow(), c.mark.encode())
	if err := c.commit(ctx, &b); err != nil {
		return fmt.Errorf("note how far the copy has come: %w", err)
	}
	return nil
}

func percent(key []byte) int {
	if len(key) < 2 {
		return 0
	}
	return min(100, (int(key[0])<<8|int(key[1]))*100/keyspace.Slots)
}

// again reports whether a commit that has only puts may be retried.
func again(err error) bool {
	return errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrUnknownOutcome) || engine.Transient(err)
}

// once commits a batch.
func (c *copying) once(b *engine.Batch) error {
	view, err := c.to.Begin(engine.ViewOptions{})
	if err != nil {
		return err
	}
	defer view.Close()
	_, err = view.Commit(b)
	return err
}

// commit commits a batch that may be committed twice, with retries.
func (c *copying) commit(ctx context.Context, b *engine.Batch) error {
	begun, pause := time.Now(), 2*time.Millisecond
	for {
		err := c.once(b)
		if err == nil || !again(err) || time.Since(begun) > c.Patience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}
