package store

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Message is one message of a channel.
type Message struct {
	ID      string
	Content []byte
}

// Batch is what a fetch returns.
type Batch struct {
	Messages []Message
	More     bool
	Handle   string // "": there is nothing to acknowledge
}

// Errors of channels.
var (
	// ErrNoSubscriber: the subscriber does not exist or has expired.
	ErrNoSubscriber = errors.New("no such subscriber")
	// ErrHandle: the handle is malformed or belongs to another subscriber.
	ErrHandle = errors.New("the handle is malformed")
)

// meaning turns an error reply into one of the errors above.
func meaning(err error) error {
	var e Error
	if errors.As(err, &e) {
		switch e.Code() {
		case "NOSUBSCRIBER":
			return errors.Join(ErrNoSubscriber, err)
		case "BADHANDLE":
			return errors.Join(ErrHandle, err)
		}
	}
	return err
}

// Publish publishes a message. A message whose identifier was seen lately changes nothing.
func Publish(ctx context.Context, s Store, channel, id string, content []byte) error {
	_, err := s.Run(ctx, []byte("CHPUBLISH"), []byte(channel), []byte(id), content)
	return meaning(err)
}

// Subscribe makes a subscriber, or renews its life.
func Subscribe(ctx context.Context, s Store, channel, subscriber string) error {
	_, err := s.Run(ctx, Args("CHSUBSCRIBE", channel, subscriber)...)
	return meaning(err)
}

// Unsubscribe removes a subscriber, if there is one.
func Unsubscribe(ctx context.Context, s Store, channel, subscriber string) error {
	_, err := s.Run(ctx, Args("CHUNSUBSCRIBE", channel, subscriber)...)
	return meaning(err)
}

// Ack acknowledges all messages up to a handle.
func Ack(ctx context.Context, s Store, channel, subscriber, handle string) error {
	_, err := s.Run(ctx, Args("CHACK", channel, subscriber, handle)...)
	return meaning(err)
}

// Fetch returns, without waiting, messages that the subscriber has not acknowledged. With
// the handle after it begins behind that handle.
func Fetch(ctx context.Context, s Store, channel, subscriber string, count int, after string) (Batch, error) {
	reply, err := s.Run(ctx, fetchArgs(channel, subscriber, count, 0, after)...)
	return batch(reply, err)
}

// AwaitFetch is Fetch, but waits for messages up to block. For done and cancel see
// Store.Await.
func AwaitFetch(s Store, channel, subscriber string, count int, block time.Duration, after string, done func(Batch, error)) (cancel func()) {
	return s.Await(fetchArgs(channel, subscriber, count, block, after), func(r Reply, err error) { done(batch(r, err)) })
}

func fetchArgs(channel, subscriber string, count int, block time.Duration, after string) [][]byte {
	args := Args("CHFETCH", channel, subscriber, "COUNT", strconv.Itoa(count))
	if block > 0 {
		args = append(args, Args("BLOCK", strconv.FormatInt(max(1, block.Milliseconds()), 10))...)
	}
	if after != "" {
		args = append(args, Args("AFTER", after)...)
	}
	return args
}

// batch reads the reply of a fetch. A nil reply is that of a fetch that timed out.
func batch(reply Reply, err error) (b Batch, _ error) {
	if err != nil || reply == nil {
		return b, meaning(err)
	}
	parts, ok := reply.([]Reply)
	if !ok || len(parts) != 3 {
		return b, ErrReply
	}
	list, ok := parts[0].([]Reply)
	more, isInt := parts[1].(int64)
	if !ok || !isInt {
		return b, ErrReply
	}
	b.More = more != 0
	if parts[2] != nil {
		handle, ok := parts[2].([]byte)
		if !ok {
			return b, ErrReply
		}
		b.Handle = string(handle)
	}
	for _, item := range list {
		m, ok := item.([]Reply) // its clock, identifier and content
		if !ok || len(m) != 3 {
			return b, ErrReply
		}
		id, ok := m[1].([]byte)
		content, isBytes := m[2].([]byte)
		if !ok || !isBytes {
			return b, ErrReply
		}
		b.Messages = append(b.Messages, Message{string(id), content})
	}
	return b, nil
}
