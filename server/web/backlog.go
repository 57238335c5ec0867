package web

import (
	"context"
	"sync"
	"time"

	"redoubt/gateway/store"
)

// The lag of subscribers, for the metrics. For all channels that would need a walk over all
// keys; so only channels that had a message since they were last read to the end are watched,
// up to maxWatched. Heard notes them, and each round checks them.

// backlog has the watched channels.
type backlog struct {
	mu       sync.Mutex
	channels map[string]lag
}

// lag is how far the subscribers of one channel are behind.
type lag struct {
	messages int64 // the sum over subscribers
	oldest   time.Duration
	noted    bool // the channel had a message since its last check
}

const (
	maxWatched = 1024
	// roundEvery is the time between two rounds, and remoteRound that on a remote store,
	// where each check is a request.
	roundEvery  = time.Second
	remoteRound = 10 * time.Second
	// maxReaders is the number of subscribers above which a channel is not measured: each
	// costs a search.
	maxReaders = 1000
)

// note notes a channel that got a message. The key may change afterwards.
func (b *backlog) note(channel []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, known := b.channels[string(channel)]
	if l.noted || !known && len(b.channels) >= maxWatched {
		return
	}
	if b.channels == nil {
		b.channels = make(map[string]lag)
	}
	l.noted = true
	b.channels[string(channel)] = l
}

// sum returns how many channels are watched, and the lag of all of their subscribers.
func (b *backlog) sum() (channels int, messages int64, oldest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.channels {
		messages += l.messages
		oldest = max(oldest, l.oldest)
	}
	return len(b.channels), messages, oldest
}

// names returns the channels for a round and resets noted.
func (b *backlog) names() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, l := range b.channels {
		l.noted = false
		b.channels[name] = l
		list = append(list, name)
	}
	return list
}

// looked notes the lag of a channel. A channel that is read to the end is no longer watched.
func (b *backlog) looked(name string, messages int64, oldest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.channels[name]
	l.messages, l.oldest = messages, oldest
	if messages == 0 && !l.noted {
		delete(b.channels, name)
		return
	}
	b.channels[name] = l
}

// watch checks the channels in rounds until ctx ends.
func (w *Web) watch(ctx context.Context) {
	every := roundEvery
	if w.o.Host.Executor().Engine().Capabilities().Remote {
		every = remoteRound
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(ctx)
		}
	}
}

// look is one round.
func (w *Web) look(ctx context.Context) {
	for _, name := range w.backlog.names() {
		messages, oldest, err := w.lag(ctx, name)
		if ctx.Err() != nil {
			return
		}
		if err != nil { // the key is no channel any more, or the store is unavailable
			messages, oldest = 0, 0
		}
		w.backlog.looked(name, messages, oldest)
	}
}

// lag measures the lag of the subscribers of a channel.
func (w *Web) lag(ctx context.Context, name string) (messages int64, oldest time.Duration, err error) {
	info, err := w.chinfo(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	if n, _ := info["subscribers"].(int64); n == 0 || n > maxReaders {
		return 0, 0, nil
	}
	if info, err = w.chinfo(ctx, name, "FULL"); err != nil {
		return 0, 0, err
	}
	list, _ := info["subscriptions"].([]store.Reply)
	for _, s := range list {
		fields := pairs(s)
		n, _ := fields["backlog"].(int64)
		messages += n
		if age, ok := fields["oldest-age"].(int64); ok && n > 0 {
			oldest = max(oldest, time.Duration(age)*time.Millisecond)
		}
	}
	return messages, oldest, nil
}

func (w *Web) chinfo(ctx context.Context, name string, more ...string) (map[string]store.Reply, error) {
	reply, err := w.commands.Run(ctx, store.Args(append([]string{"CHINFO", name}, more...)...)...)
	return pairs(reply), err
}

// pairs converts a list of names and values into a map.
func pairs(r store.Reply) map[string]store.Reply {
	list, _ := r.([]store.Reply)
	fields := make(map[string]store.Reply)
	for i := 0; i+1 < len(list); i += 2 {
		if name, ok := list[i].([]byte); ok {
			fields[string(name)] = list[i+1]
		}
	}
	return fields
}
