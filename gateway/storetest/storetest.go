// Package storetest is a database of channels for tests: the commands that the gateway
// uses, over plain maps, with handles that are readable.
package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"redoubt/gateway/store"
)

// Store is a store.Store. Fail, if set, may answer a command with an error.
type Store struct {
	Fail func(args []string) error
	// Hooks, if set, are subscribers that a channel has from its first message on.
	Hooks func(channel string) []string

	mu       sync.Mutex
	channels map[string]*channel
	keys     map[string]int64 // the Unix times at which keys expire
	waiters  map[*waiter]struct{}
}

type channel struct {
	messages    []store.Message
	subscribers map[string]int // how many messages each has acknowledged
}

type waiter struct {
	args  []string
	done  func(store.Reply, error)
	timer *time.Timer
}

// New returns an empty store.
func New() *Store {
	return &Store{channels: make(map[string]*channel), keys: make(map[string]int64), waiters: make(map[*waiter]struct{})}
}

// Waiting returns how many fetches wait.
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiters)
}

// Messages returns the identifiers of the messages of a channel.
func (s *Store) Messages(name string) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.at(name).messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// Content returns the content of a message, "" if there is none.
func (s *Store) Content(name, id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.at(name).messages {
		if m.ID == id {
			return string(m.Content)
		}
	}
	return ""
}

func (s *Store) at(name string) *channel {
	c := s.channels[name]
	if c == nil {
		c = &channel{subscribers: make(map[string]int)}
		s.channels[name] = c
	}
	return c
}

func words(args [][]byte) []string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = string(a)
	}
	return list
}

// Run implements store.Store.
func (s *Store) Run(ctx context.Context, args ...[]byte) (store.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list := words(args)
	if s.Fail != nil {
		if err := s.Fail(list); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	reply, err := s.run(list)
	woken := s.wake()
	s.mu.Unlock()
	for _, f := range woken {
		f()
	}
	return reply, err
}

// Await implements store.Store.
func (s *Store) Await(args [][]byte, done func(store.Reply, error)) (cancel func()) {
	list := words(args)
	block := 0
	for i, a := range list {
		if a == "BLOCK" {
			block, _ = strconv.Atoi(list[i+1])
		}
	}
	if s.Fail != nil {
		if err := s.Fail(list); err != nil {
			done(nil, err)
			return func() {}
		}
	}
	s.mu.Lock()
	reply, err := s.run(list)
	if err != nil || !empty(reply) || block == 0 {
		s.mu.Unlock()
		done(reply, err)
		return func() {}
	}
	w := &waiter{args: list, done: done}
	s.waiters[w] = struct{}{}
	w.timer = time.AfterFunc(time.Duration(block)*time.Millisecond, func() {
		if s.leave(w) {
			done(nil, nil)
		}
	})
	s.mu.Unlock()
	return func() { s.leave(w) }
}

func (s *Store) leave(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.waiters[w]
	delete(s.waiters, w)
	return waits
}

func empty(r store.Reply) bool {
	list, _ := r.([]store.Reply)
	messages, _ := list[0].([]store.Reply)
	return len(messages) == 0
}

func (s *Store) wake() (calls []func()) {
	for w := range s.waiters {
		reply, err := s.run(w.args)
		if err != nil || !empty(reply) {
			delete(s.waiters, w)
			w.timer.Stop()
			calls = append(calls, func() { w.done(reply, err) })
		}
	}
	return calls
}

func (s *Store) run(args []string) (store.Reply, error) {
	switch args[0] {
	case "EXISTS":
		if s.keys[args[1]] > time.Now().Unix() {
			return int64(1), nil
		}
		return int64(0), nil
	case "SET", "EXPIREAT":
		at := args[len(args)-1]
		if args[0] == "EXPIREAT" {
			at = args[2]
		}
		n, err := strconv.ParseInt(at, 10, 64)
		s.keys[args[1]] = max(s.keys[args[1]], n)
		return []byte("OK"), err
	}
	c := s.at(args[1])
	switch args[0] {
	case "CHPUBLISH":
		return s.publish(c, args)
	case "CHSUBSCRIBE":
		if _, has := c.subscribers[args[2]]; !has {
			c.subscribers[args[2]] = len(c.messages)
		}
		return int64(1), nil
	case "CHUNSUBSCRIBE":
		delete(c.subscribers, args[2])
		return int64(1), nil
	}
	at, has := c.subscribers[args[2]]
	if !has {
		return nil, store.Error("NOSUBSCRIBER there is none")
	}
	switch args[0] {
	case "CHACK":
		to, err := parse(args[3], args[1], args[2])
		if err != nil || to > len(c.messages) {
			return nil, store.Error("BADHANDLE it is wrong")
		}
		c.subscribers[args[2]] = max(at, to)
		return int64(1), nil
	case "CHFETCH":
		return fetch(c, args, at)
	}
	return nil, store.Error("ERR unknown command " + args[0])
}

func (s *Store) publish(c *channel, args []string) (store.Reply, error) {
	if s.Hooks != nil {
		for _, name := range s.Hooks(args[1]) {
			if _, has := c.subscribers[name]; !has {
				c.subscribers[name] = len(c.messages)
			}
		}
	}
	if !slices.ContainsFunc(c.messages, func(m store.Message) bool { return m.ID == args[2] }) {
		c.messages = append(c.messages, store.Message{ID: args[2], Content: []byte(args[3])})
	}
	return []store.Reply{int64(len(c.messages)), int64(1)}, nil
}

func fetch(c *channel, args []string, at int) (store.Reply, error) {
	count := 64
	for i := 3; i+1 < len(args); i += 2 {
		switch args[i] {
		case "COUNT":
			count, _ = strconv.Atoi(args[i+1])
		case "AFTER":
			to, err := parse(args[i+1], args[1], args[2])
			if err != nil {
				return nil, store.Error("BADHANDLE it is wrong")
			}
			at = max(at, to)
		}
	}
	end := min(at+count, len(c.messages))
	messages := []store.Reply{}
	for i, m := range c.messages[at:end] {
		messages = append(messages, []store.Reply{int64(at + i + 1), []byte(m.ID), m.Content})
	}
	var handle store.Reply
	if end > at {
		handle = []byte(fmt.Sprintf("%s.%s.%d", args[1], args[2], end))
	}
	more := int64(0)
	if end < len(c.messages) {
		more = 1
	}
	return []store.Reply{messages, more, handle}, nil
}

func parse(handle, channel, subscriber string) (int, error) {
	n, ok := strings.CutPrefix(handle, channel+"."+subscriber+".")
	if !ok {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(n)
}
