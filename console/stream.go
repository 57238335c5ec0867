package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Streams of events: the figures of each second, and messages.

// writeTime is how long a browser may take to read an event.
const writeTime = 10 * time.Second

// events makes a response a stream of events, and returns how to send one and how to leave.
func (c *Console) events(w http.ResponseWriter) (send func(name string, data []byte) error, leave func(), err error) {
	select {
	case c.stream <- struct{}{}:
	default:
		return nil, nil, errors.New("Too many pages are open. Close one of them.") //nolint:staticcheck // people read it
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		<-c.stream
		return nil, nil, err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send = func(name string, data []byte) error {
		if err := control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data); err != nil {
			return err
		}
		return control.Flush()
	}
	return send, func() { <-c.stream }, nil
}

// history sends the last hour: a line of JSON, and the columns.
func (c *Console) history(w http.ResponseWriter, _ *http.Request, l *login) error {
	if !l.user.May("info") {
		return forbidden("INFO")
	}
	header, columns := c.o.History.Snapshot()
	w.Header().Set("Content-Type", "application/octet-stream")
	for _, part := range [][]byte{header, {'\n'}, columns} {
		if _, err := w.Write(part); err != nil {
			return nil //nolint:nilerr // the browser has gone
		}
	}
	return nil
}

// live sends each second as it comes, until the login is over.
func (c *Console) live(w http.ResponseWriter, r *http.Request, l *login) error {
	if !l.user.May("info") {
		return forbidden("INFO")
	}
	send, leave, err := c.events(w)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := c.withStop(r.Context())
	defer cancel()
	for {
		sample, newer := c.o.History.Latest()
		if sample != nil && send("sample", sample) != nil {
			return nil // the browser has gone
		}
		select {
		case <-newer:
		case <-l.stop:
			return nil
		case <-ctx.Done():
			return nil
		}
		now := c.o.Now()
		if l.over(now) || !l.user.May("info") {
			_ = send("over", []byte("{}")) // the browser may have gone
			return nil
		}
		l.touch(now)
	}
}

const (
	batchTime = 200 * time.Millisecond // how long messages are collected
	batchMost = 200                    // messages in a batch; others are only counted
	maxNames  = 64                     // channels and patterns
)

// batch are messages that came together.
type batch struct {
	Messages []Value `json:"messages"`
	Skipped  int     `json:"skipped"`
}

// listen sends messages of channels and patterns, or what MONITOR shows.
func (c *Console) listen(w http.ResponseWriter, r *http.Request, l *login) error {
	query := r.URL.Query()
	var ask []Args
	for _, kind := range []struct{ name, command string }{{"channel", "SUBSCRIBE"}, {"pattern", "PSUBSCRIBE"}, {"shard", "SSUBSCRIBE"}} {
		for _, name := range query[kind.name] {
			ask = append(ask, Args{[]byte(kind.command), []byte(name)})
		}
	}
	if query.Get("monitor") != "" {
		ask = []Args{{[]byte("MONITOR")}}
	}
	if len(ask) == 0 || len(ask) > maxNames {
		return badRequest{fmt.Errorf("name 1 to %d channels or patterns", maxNames)}
	}
	conn, err := c.o.Host.Dial(r.RemoteAddr, l.user)
	if err != nil {
		return err
	}
	defer conn.Close()
	send, leave, err := c.events(w)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := c.withStop(r.Context())
	defer cancel()
	came := make(chan Value, batchMost)
	ended := make(chan error, 1)
	go func() { ended <- hear(ctx, conn, ask, came) }()
	tick := time.NewTicker(batchTime)
	defer tick.Stop()
	var b batch
	quiet := 0
	for {
		select {
		case v, ok := <-came:
			if !ok { // the server has closed the connection, or refused a command
				text := quoted([]byte((<-ended).Error()))
				_ = send("end", text) // the browser may have gone
				return nil
			}
			if len(b.Messages) < batchMost {
				b.Messages = append(b.Messages, v)
			} else {
				b.Skipped++
			}
			continue
		case <-tick.C:
		case <-l.stop:
			return nil
		case <-ctx.Done():
			return nil
		}
		if quiet++; len(b.Messages) == 0 && quiet < 25 { // an empty one from time to time shows that all is well
			continue
		}
		if l.over(c.o.Now()) {
			return nil
		}
		l.touch(c.o.Now())
		quiet = 0
		data, err := json.Marshal(b)
		if err != nil {
			return err
		}
		if send("messages", data) != nil {
			return nil // the browser has gone
		}
		b = batch{}
	}
}

// hear reads a connection to its end, and closes came.
func hear(ctx context.Context, conn Conn, ask []Args, came chan<- Value) error {
	defer close(came)
	defer conn.Close()
	t := newTalk(conn)
	sent := make(chan error, 1)
	go func() { sent <- t.send(ask) }()
	defer func() { <-sent }()
	for {
		t.left, t.elements = maxReply, maxElements
		v, err := t.read(0)
		if err != nil {
			return errNoAnswer
		}
		if v.Kind == '-' {
			return errors.New(string(v.Text))
		}
		select {
		case came <- v:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *Console) directives(w http.ResponseWriter, _ *http.Request, l *login) error {
	if !l.user.May("config", "get", "*") {
		return forbidden("CONFIG GET")
	}
	answer(w, c.o.Host.Directives())
	return nil
}
