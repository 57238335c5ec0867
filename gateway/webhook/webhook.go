// Package webhook delivers the messages of channels to HTTP servers.
//
// A webhook is a durable subscriber of its channels, which the database makes in the same
// execution as a channel's first message. So the place of a webhook in a channel survives
// crashes, and a publisher never waits for it. One process at a time delivers: the leader.
// Messages are sent in the order of the channel, each only after the one before was accepted
// by the receiver, or was given up (and put on the dead-letter channel, if there is one). A
// message is acknowledged after that: every message is delivered at least once.
//
// A pair of channel and webhook is a task. A task with nothing to do costs no goroutine: it
// waits in the database for a message, and is forgotten after a minute. Tasks with messages
// take turns in a bounded number of workers, and hold one message at a time. docs/adr/0029
// says why.
package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/gateway/store"
)

// Options configure a Dispatcher.
type Options struct {
	Store store.Store
	// Hooks returns the webhooks of a channel.
	Hooks func(channel string) ([]*Hook, error)
	// Channels calls visit for each channel that has webhooks with messages to deliver. It is
	// called when this process becomes the leader, after Refresh, and every Every.
	Channels func(ctx context.Context, visit func(channel string)) error
	// Leads reports whether this process is the leader, which delivers.
	Leads func() bool
	// AllowPrivate reports whether requests may go to loopback, private and link-local addresses.
	AllowPrivate func() bool
	Log          *slog.Logger
	// Workers is how many deliveries are under way at once; 0 is 64.
	Workers int
	// Every is the time between two calls of Channels; 0 is ten minutes. It is a safety net:
	// Hint is called for every message, and Refresh when hints may have been lost.
	Every time.Duration
}

const (
	defaultWorkers = 64
	defaultEvery   = 10 * time.Minute
	leadEvery      = 500 * time.Millisecond // between two calls of Leads
	idleTime       = time.Minute            // after which a task is forgotten
	turnLength     = 16                     // messages that a task may send in one turn
	storeRetry     = time.Second            // after an error of the store
)

// Figures count what was done since the start.
type Figures struct {
	Delivered, Failed, Retried, GivenUp, DeadLettered atomic.Int64
}

// Dispatcher delivers.
type Dispatcher struct {
	o       Options
	Figures Figures
	clients clients
	slots   chan struct{}
	hints   hints // channels that got a message

	mu    sync.Mutex
	tasks map[taskKey]*task
	ready []*task // tasks that wait for a worker
	led   context.Context
	lose  context.CancelFunc // ends led; nil: this process does not lead
	busy  sync.WaitGroup
}

type taskKey struct{ channel, hook string }

// task delivers the messages of one channel to one webhook. It is in one of these states:
// among ready, in the hands of a worker, waiting for a message (fetch is set), or waiting for
// the time of a retry (timer is set).
type task struct {
	taskKey
	hook    *Hook
	again   bool // a message came while a worker ran the task
	working bool
	queued  bool
	fetch   *fetch
	timer   *time.Timer
	attempt int    // how often the present message was tried
	message string // its identifier
	handle  string // of what was delivered and is not acknowledged yet
}

// fetch is a task's blocking fetch under way.
type fetch struct {
	cancel func() // nil until the store has said how
}

// New makes a Dispatcher. Run starts it.
func New(o Options) *Dispatcher {
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	d := &Dispatcher{o: o, slots: make(chan struct{}, o.Workers), hints: hints{wake: make(chan struct{}, 1)}, tasks: make(map[taskKey]*task)}
	d.clients.allowPrivate = o.AllowPrivate
	return d
}

// Run delivers until ctx ends, and returns when nothing is under way any more.
func (d *Dispatcher) Run(ctx context.Context) {
	tick := time.NewTicker(leadEvery)
	defer tick.Stop()
	var looked time.Time
	var looking sync.WaitGroup
	var active atomic.Bool // a look at all channels is under way
	for {
		switch leads := d.o.Leads(); {
		case leads && d.lose == nil:
			d.mu.Lock()
			d.led, d.lose = context.WithCancel(ctx)
			d.mu.Unlock()
			looked = time.Time{}
		case !leads && d.lose != nil:
			d.stop()
		}
		list, lost := d.hints.take()
		if d.lose != nil {
			for _, c := range list {
				d.notice(c)
			}
		}
		if lost {
			looked = time.Time{}
		}
		if d.lose != nil && time.Since(looked) >= d.o.Every && active.CompareAndSwap(false, true) {
			looked = time.Now()
			led := d.led
			looking.Go(func() {
				defer active.Store(false)
				if err := d.o.Channels(led, func(c string) { d.notice(c) }); err != nil && led.Err() == nil {
					d.o.Log.Warn("looking for channels with webhooks failed; it is tried again", "err", err)
					select {
					case <-led.Done():
					case <-time.After(storeRetry):
					}
					d.Refresh()
				}
			})
		}
		select {
		case <-ctx.Done():
			d.stop()
			looking.Wait()
			d.clients.close()
			return
		case <-d.hints.wake:
		case <-tick.C:
		}
	}
}

// Hint notes that a channel got a message. It does not wait, and is cheap if the channel was
// noted just before.
func (d *Dispatcher) Hint(channel string) { d.hints.add(channel) }

// Refresh makes the dispatcher call Channels soon, since hints may have been lost.
func (d *Dispatcher) Refresh() {
	d.hints.mu.Lock()
	defer d.hints.mu.Unlock()
	d.hints.lost = true
	d.hints.stir()
}

// hints are channels that got a message since take was called last.
type hints struct {
	mu   sync.Mutex
	list map[string]struct{}
	lost bool          // some hints are missing from list
	wake chan struct{} // has one value when there are some
}

// maxHints is how many hints are kept; if there are more, all channels are looked at.
const maxHints = 65536

func (h *hints) add(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.list[channel]; known {
		return
	}
	if len(h.list) >= maxHints {
		h.lost = true
		return
	}
	if h.list == nil {
		h.list = make(map[string]struct{})
	}
	h.list[channel] = struct{}{}
	h.stir()
}

// stir wakes Run. mu is held.
func (h *hints) stir() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hints) take() (list []string, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.list {
		list = append(list, c)
	}
	lost = h.lost
	h.list, h.lost = nil, false
	return list, lost
}

func (h *hints) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.list)
}

// Tasks returns the number of tasks.
func (d *Dispatcher) Tasks() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tasks)
}

// Reload makes tasks use the webhooks of new rules. Deliveries under way are finished.
func (d *Dispatcher) Reload() {
	d.mu.Lock()
	channels := make(map[string]bool)
	for k, t := range d.tasks {
		channels[k.channel] = true
		if !t.working {
			d.dropLocked(t)
		} else {
			delete(d.tasks, k) // its worker then drops the task
		}
	}
	d.mu.Unlock()
	d.clients.close() // the new ones have connections of their own
	for c := range channels {
		d.Hint(c)
	}
}

// stop forgets all tasks, cancels the deliveries under way and waits for them.
func (d *Dispatcher) stop() {
	d.mu.Lock()
	if d.lose != nil {
		d.lose()
	}
	for _, t := range d.tasks {
		if !t.working {
			d.dropLocked(t)
		}
	}
	clear(d.tasks)
	clear(d.ready)
	d.ready = d.ready[:0]
	d.lose = nil
	d.mu.Unlock()
	d.busy.Wait()
}

// notice gives the webhooks of a channel tasks that look for messages.
func (d *Dispatcher) notice(channel string) {
	hooks, err := d.o.Hooks(channel)
	if err != nil {
		d.o.Log.Warn("a webhook cannot be used", "err", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lose == nil {
		return
	}
	for _, h := range hooks {
		k := taskKey{channel, h.ID}
		t := d.tasks[k]
		if t == nil {
			t = &task{taskKey: k, hook: h}
			d.tasks[k] = t
		}
		switch {
		case t.working:
			t.again = true
		case t.timer == nil: // a retry keeps its time
			d.queueLocked(t)
		}
	}
}

// queueLocked puts a task into the queue of the workers.
func (d *Dispatcher) queueLocked(t *task) {
	t.cancelWait()
	if t.queued || d.tasks[t.taskKey] != t {
		return
	}
	t.queued = true
	d.ready = append(d.ready, t)
	select {
	case d.slots <- struct{}{}:
		d.busy.Add(1)
		go d.work(d.led)
	default: // all workers are busy: one will take it
	}
}

// cancelWait cancels a task's blocking fetch and its timer.
func (t *task) cancelWait() {
	if t.fetch != nil && t.fetch.cancel != nil {
		t.fetch.cancel()
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.fetch, t.timer = nil, nil
}

// dropLocked forgets a task.
func (d *Dispatcher) dropLocked(t *task) {
	t.cancelWait()
	if d.tasks[t.taskKey] == t {
		delete(d.tasks, t.taskKey)
	}
}

// next returns the next task for a worker. If there is none it returns nil and releases the
// worker's slot.
func (d *Dispatcher) next() *task {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.ready) > 0 {
		t := d.ready[0]
		d.ready[0] = nil
		d.ready = d.ready[1:]
		t.queued = false
		if d.tasks[t.taskKey] == t {
			t.working, t.again = true, false
			return t
		}
	}
	<-d.slots
	return nil
}

// work runs tasks until none is ready.
func (d *Dispatcher) work(ctx context.Context) {
	defer d.busy.Done()
	for t := d.next(); t != nil; t = d.next() {
		wait, err := d.turn(ctx, t)
		d.mu.Lock()
		t.working = false
		switch {
		case d.tasks[t.taskKey] != t: // forgotten meanwhile
		case ctx.Err() != nil || errors.Is(err, store.ErrNoSubscriber): // the channel's time is over
			d.dropLocked(t)
		case err != nil:
			d.o.Log.Warn("a webhook's place in its channel could not be read or stored; it is tried again", "channel", t.channel, "webhook", t.taskKey.hook, "err", err)
			d.laterLocked(t, storeRetry)
		case wait > 0:
			d.laterLocked(t, wait)
		case wait < 0 || t.again:
			d.queueLocked(t)
		default:
			d.awaitLocked(t)
		}
		d.mu.Unlock()
	}
}

// laterLocked queues a task after some time.
func (d *Dispatcher) laterLocked(t *task, wait time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if t.timer == timer {
			t.timer = nil
			d.queueLocked(t)
		}
	})
	t.timer = timer
}

// awaitLocked makes a task wait for a message. The message itself is discarded: a worker
// fetches it again in the task's turn.
func (d *Dispatcher) awaitLocked(t *task) {
	f := new(fetch)
	t.fetch = f
	outcome := func(b store.Batch, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if t.fetch != f { // the task was queued or dropped meanwhile
			return
		}
		t.fetch = nil
		switch {
		case d.tasks[t.taskKey] != t:
		case len(b.Messages) > 0 || b.Handle != "":
			d.queueLocked(t)
		case err != nil && !errors.Is(err, store.ErrNoSubscriber):
			d.laterLocked(t, storeRetry)
		default:
			d.dropLocked(t)
		}
	}
	// The store may answer from inside AwaitFetch, and the lock is held here.
	go func() {
		cancel := store.AwaitFetch(d.o.Store, t.channel, t.taskKey.hook, 1, idleTime, "", outcome)
		d.mu.Lock()
		defer d.mu.Unlock()
		if t.fetch != f { // answered, or not wanted any more
			cancel()
			return
		}
		f.cancel = cancel
	}()
}

// turn delivers some messages of a task. wait is how long to wait before the next turn: not
// at all if negative, until a message comes if zero.
func (d *Dispatcher) turn(ctx context.Context, t *task) (wait time.Duration, err error) {
	for range turnLength {
		if t.handle != "" {
			if err := store.Ack(ctx, d.o.Store, t.channel, t.taskKey.hook, t.handle); err != nil {
				return 0, err
			}
			t.handle = ""
		}
		b, err := store.Fetch(ctx, d.o.Store, t.channel, t.taskKey.hook, 1, "")
		if err != nil {
			return 0, err
		}
		if len(b.Messages) == 0 {
			if t.handle = b.Handle; t.handle != "" {
				continue // all that there was has expired
			}
			return 0, nil
		}
		if m := b.Messages[0]; m.ID != t.message {
			t.message, t.attempt = m.ID, 0
		}
		wait, err := d.deliver(ctx, t, b.Messages[0])
		if err != nil || wait > 0 {
			return wait, err
		}
		t.handle, t.message = b.Handle, ""
	}
	return -1, nil
}
