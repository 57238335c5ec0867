//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"redoubt/internal/respclient"
)

// The suite of what a session can do besides single commands: transactions,
// scripts, messages.

// getSetScript is what EVALSHA runs.
const getSetScript = `local old = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
return old`

// sessionCase is a load, and what runs beside it on the same server.
type sessionCase struct {
	loadCase
	beside func(*process) (stop func() error, err error)
}

func sessionCases(sha string) (all []sessionCase) {
	multi := together(newRequest("MULTI"), newRequest("SET", anyKey, anyValue), newRequest("GET", anyKey), newRequest("EXEC"))
	watch := together(newRequest("WATCH", anyKey), newRequest("GET", anyKey), newRequest("MULTI"), newRequest("SET", anyKey, anyValue), newRequest("EXEC"))
	evalsha, publish := newRequest("EVALSHA", sha, "1", anyKey, anyValue), newRequest("PUBLISH", "news", anyValue)
	list := []sessionCase{
		{loadCase: loadCase{name: "MULTI SET GET EXEC", requests: mix{&multi}}},
		{loadCase: loadCase{name: "MULTI beside a long one", requests: mix{&multi}}, beside: longTransaction},
		{loadCase: loadCase{name: "WATCH GET MULTI SET EXEC", requests: mix{&watch}}},
		{loadCase: loadCase{name: "EVALSHA of GET, SET", requests: mix{&evalsha}}},
		{loadCase: loadCase{name: "PUBLISH to 0", requests: mix{&publish}}},
		{loadCase: loadCase{name: "PUBLISH to 1", requests: mix{&publish}}, beside: subscribers(1)},
		{loadCase: loadCase{name: "PUBLISH to 10", requests: mix{&publish}}, beside: subscribers(10)},
		{loadCase: loadCase{name: "PUBLISH to 100", requests: mix{&publish}}, beside: subscribers(100)},
	}
	for _, p := range []int{1, 16} {
		for _, c := range list {
			if c.pipeline = p; chosen(c.name, p) {
				all = append(all, c)
			}
		}
	}
	return all
}

func runSession() error {
	s, err := startPair(server{args: []string{"--appendfsync", "everysec"}},
		server{args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}})
	if err != nil {
		return err
	}
	var out document
	out.heading(s, loadText()+"all keys written before; a transaction counts as its 4 or 5 replies; the long one beside it is MULTI, SORT of a list of "+
		strconv.Itoa(longList)+" elements, EXEC, again and again by one client; "+explained())
	if _, err := s.fillAndSettle(); err != nil {
		return err
	}
	sha := ""
	for _, p := range s.both() {
		if sha, err = p.loadScript(); err != nil {
			return err
		}
	}
	out.header(true)
	for _, c := range sessionCases(sha) {
		x, y, err := s.turns(func(p *process) (r result, err error) {
			if c.beside != nil {
				stop, err := c.beside(p)
				if err != nil {
					return r, err
				}
				defer func() {
					if e := stop(); err == nil {
						err = e
					}
				}()
			}
			l := p.load(c.loadCase)
			l.mayMiss = true
			r, _, err = p.measure(l)
			return r, err
		})
		if err != nil {
			return err
		}
		out.line(c.title(), x, y, true)
	}
	return out.write()
}

func (p *process) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

func (p *process) loadScript() (sha string, err error) {
	c, err := respclient.Dial(p.addr())
	if err != nil {
		return "", err
	}
	defer c.Close()
	v, err := c.Do("SCRIPT", "LOAD", getSetScript)
	if err == nil && v.IsError() {
		err = fmt.Errorf("SCRIPT LOAD on %s: %s", p.name, v)
	}
	return v.Str, err
}

// longList is how many elements a long transaction sorts.
const longList = 200_000

// longTransaction has one client run a transaction that takes long, on a key of its
// own, until it is stopped.
func longTransaction(p *process) (func() error, error) {
	c, err := respclient.Dial(p.addr())
	if err != nil {
		return nil, err
	}
	c.Timeout = time.Minute
	push := []string{"RPUSH", "long"}
	for i := range 1000 {
		push = append(push, strconv.Itoa(i*7919%longList))
	}
	if v, err := c.Do("DEL", "long"); err != nil || v.IsError() {
		return nil, fmt.Errorf("prepare a long transaction: %v %w", v, err)
	}
	for range longList / 1000 {
		if v, err := c.Do(push...); err != nil || v.IsError() {
			return nil, fmt.Errorf("prepare a long transaction: %v %w", v, err)
		}
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		defer c.Close()
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			for _, words := range [][]string{{"MULTI"}, {"SORT", "long", "LIMIT", "0", "1"}, {"EXEC"}} {
				if v, err := c.Do(words...); err != nil || v.IsError() {
					done <- fmt.Errorf("long transaction: %v %w", v, err)
					return
				}
			}
		}
	}()
	return func() error { close(stop); return <-done }, nil
}

// subscribers has clients listen to the channel and throw away what they hear.
func subscribers(n int) func(*process) (func() error, error) {
	return func(p *process) (func() error, error) {
		var conns []net.Conn
		var wg sync.WaitGroup
		stop := func() error {
			for _, c := range conns {
				c.Close()
			}
			wg.Wait()
			return nil
		}
		for range n {
			c, err := respclient.Dial(p.addr())
			if err == nil {
				conns = append(conns, c.Conn())
				_, err = c.Do("SUBSCRIBE", "news")
			}
			if err != nil {
				return nil, fmt.Errorf("subscribe: %w", err)
			}
			wg.Go(func() { _, _ = io.Copy(io.Discard, c.Conn()) }) // until it is closed
		}
		return stop, nil
	}
}
