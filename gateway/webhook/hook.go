package webhook

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"
)

// Prefix is the prefix of the names of webhooks' subscribers.
const Prefix = "webhook-"

// Target is the part of a webhook's configuration that is the same for all of its channels.
type Target struct {
	ID           string // the name of its subscriber on each channel
	Method       string
	Timeout      time.Duration // of one attempt
	MaxConns     int           // to a host
	IdleTime     time.Duration // after which a connection is closed
	MaxRedirects int
	Secret       []byte // of the signature; nil: there is none
	Retry        Retry
}

// Hook is a webhook of one channel.
type Hook struct {
	*Target
	URL     string
	Headers map[string]string
	// DeadLetter is the channel for messages that could not be delivered; "": there is none.
	DeadLetter string
}

// Retry says when a failed delivery is tried again.
type Retry struct {
	Count      int // 0: never
	Interval   time.Duration
	Multiplier float64 // of the interval, for each further retry
	Jitter     time.Duration
	Force      bool // also after answers that are final
}

// NewTarget returns the defaults.
func NewTarget() *Target {
	return &Target{
		Method: http.MethodPut, Timeout: 30 * time.Second, MaxConns: 1024, IdleTime: 3 * time.Minute, MaxRedirects: 10,
		Retry: Retry{Count: 3, Interval: 3 * time.Second, Multiplier: 1.5, Jitter: 1500 * time.Millisecond},
	}
}

// maxPause is the longest time between two attempts.
const maxPause = time.Hour

// pause returns how long to wait before the n-th retry, counted from 1.
func (r *Retry) pause(n int) time.Duration {
	d := r.base(n)
	if r.Jitter > 0 {
		d += rand.N(2*r.Jitter+1) - r.Jitter
	}
	return max(0, d)
}

func (r *Retry) base(n int) time.Duration {
	return time.Duration(min(float64(maxPause), float64(r.Interval)*math.Pow(r.Multiplier, float64(n-1))))
}

// Longest returns how long one message may take with all retries.
func (t *Target) Longest() time.Duration {
	d := t.Timeout
	for n := 1; n <= t.Retry.Count; n++ {
		d += t.Retry.base(n) + t.Retry.Jitter + t.Timeout
	}
	return d
}

// final reports whether a retry after this status is useless. 400, 404, 408 and 409 are not
// final: proxies in front of a receiver may return them for a while.
func final(status int) bool {
	switch status {
	case 400, 404, 408, 409:
		return false
	case 426, 431, 451, 501:
		return true
	}
	return status >= 401 && status <= 418
}
