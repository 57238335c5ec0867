package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"redoubt/gateway/store"
)

// The headers that a request has besides those of its webhook.
const (
	// SignatureHeader has the HMAC-SHA256 of the timestamp, a dot and the body.
	SignatureHeader = "X-Redoubt-Signature"
	// TimestampHeader has the Unix time at which the request was signed.
	TimestampHeader = "X-Redoubt-Timestamp"
)

// maxAnswer is how many bytes of an answer are read, so that the connection can be reused.
const maxAnswer = 64 << 10

// body is what is sent for a message.
type body struct {
	Type      string          `json:"type"`
	ChannelID string          `json:"channelID"`
	MessageID string          `json:"messageID"`
	Content   json.RawMessage `json:"content"`
}

// deadLetter is what is published for a message that was given up.
type deadLetter struct {
	body
	Webhook  string `json:"webhook"`
	Error    string `json:"error"`
	Attempts int    `json:"attempts"`
}

const (
	bodyType       = "dsps.channel.outgoing-webhook"
	deadLetterType = "redoubt.channel.dead-letter"
)

// errFinal marks a failure that a retry cannot mend.
var errFinal = errors.New("not tried again")

// deliver makes one attempt to deliver a message. It returns how long to wait before the next
// attempt, zero if the message was delivered or given up. An error is one of the store, or
// the end of ctx.
func (d *Dispatcher) deliver(ctx context.Context, t *task, m store.Message) (time.Duration, error) {
	b, err := json.Marshal(body{bodyType, t.channel, m.ID, raw(m.Content)})
	if err != nil {
		return 0, err
	}
	t.attempt++
	err = d.send(ctx, t.hook, b)
	if err == nil {
		d.Figures.Delivered.Add(1)
		return 0, nil
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	d.Figures.Failed.Add(1)
	retry := &t.hook.Retry
	if t.attempt <= retry.Count && (retry.Force || !errors.Is(err, errFinal)) {
		d.Figures.Retried.Add(1)
		pause := max(time.Millisecond, retry.pause(t.attempt))
		d.o.Log.Info("a webhook failed and is tried again", "channel", t.channel, "webhook", t.taskKey.hook, "message", m.ID, "attempt", t.attempt, "after", pause, "err", err)
		return pause, nil
	}
	d.o.Log.Warn("a message could not be delivered to a webhook", "channel", t.channel, "webhook", t.taskKey.hook, "message", m.ID,
		"attempts", t.attempt, "dead_letter", t.hook.DeadLetter, "err", err)
	if err := d.bury(ctx, t, m, err); err != nil {
		return 0, err
	}
	d.Figures.GivenUp.Add(1)
	return 0, nil
}

// raw returns the content of a message, as a JSON string if it is not JSON: RESP clients may
// publish any bytes.
func raw(content []byte) json.RawMessage {
	if json.Valid(content) {
		return content
	}
	text, err := json.Marshal(string(content))
	if err != nil { // which does not happen to a string
		return json.RawMessage("null")
	}
	return text
}

// bury publishes a message that was given up to the dead-letter channel. The new message's
// identifier follows from the old one, so that burying twice publishes once. Messages of a
// dead-letter channel are not buried again.
func (d *Dispatcher) bury(ctx context.Context, t *task, m store.Message, reason error) error {
	to := t.hook.DeadLetter
	var old struct{ Type string }
	if to == "" || to == t.channel || json.Unmarshal(m.Content, &old) == nil && old.Type == deadLetterType {
		return nil
	}
	letter := deadLetter{body{deadLetterType, t.channel, m.ID, raw(m.Content)}, t.taskKey.hook, reason.Error(), t.attempt}
	content, err := json.Marshal(letter)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(t.channel + "/" + t.taskKey.hook + "/" + m.ID))
	if err := store.Publish(ctx, d.o.Store, to, hex.EncodeToString(sum[:16]), content); err != nil {
		return fmt.Errorf("dead-letter channel %s: %w", to, err)
	}
	d.Figures.DeadLettered.Add(1)
	d.Hint(to)
	return nil
}

// send sends a request and reads the answer.
func (d *Dispatcher) send(ctx context.Context, h *Hook, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, h.Method, h.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", errFinal, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "redoubt")
	for name, value := range h.Headers {
		req.Header.Set(name, value)
	}
	if h.Secret != nil {
		at := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set(TimestampHeader, at)
		req.Header.Set(SignatureHeader, Sign(h.Secret, at, body))
	}
	res, err := d.clients.of(h.Target).Do(req)
	if err != nil {
		if errors.Is(err, errForbidden) {
			err = fmt.Errorf("%w: %w", errFinal, err)
		}
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	switch {
	case res.StatusCode >= 200 && res.StatusCode <= 299:
		return nil // even if reading the rest of the answer failed
	case final(res.StatusCode):
		return fmt.Errorf("the receiver answered %s: %w", res.Status, errFinal)
	case err != nil:
		return fmt.Errorf("the receiver answered %s: %w", res.Status, err)
	}
	return fmt.Errorf("the receiver answered %s", res.Status)
}

// Sign returns the value of SignatureHeader for a body and the value of TimestampHeader.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
