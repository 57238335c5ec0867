package bus

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"redoubt/keyspace"
)

// One followed peer: a goroutine that connects, receives, and connects again.

// run keeps a connection to the peer until ctx ends.
func (p *peer) run(ctx context.Context) {
	f := p.f
	wait := f.o.Backoff[0]
	told := false    // the failure to connect was logged, since the last connection
	refused := false // Handler.Refused was called, since the last connection
	for ctx.Err() == nil {
		l, err := p.connect(ctx)
		if err == nil {
			wait, told, refused = f.o.Backoff[0], false, false
			f.o.Log.Info("following a front end", "peer", p.ID, "addr", p.Addr)
			err = p.follow(ctx, l)
			if ctx.Err() == nil {
				f.o.Log.Warn("the connection to a front end broke", "peer", p.ID, "addr", p.Addr, "err", err)
			}
		} else if ctx.Err() == nil && !told {
			told = true
			f.o.Log.Warn("cannot connect to a front end", "peer", p.ID, "addr", p.Addr, "err", err)
		}
		if l == nil && ctx.Err() == nil && !refused && gone(err) {
			refused = true
			f.o.Handler.Refused(p.ID)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // no secret
		}
		wait = min(2*wait, f.o.Backoff[1])
	}
}

// gone reports whether the error of a connection shows that the peer is not there: its
// system refuses connections to the port, or another front end has the address.
func gone(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errOther) }

func (p *peer) connect(ctx context.Context) (*link, error) {
	o := &p.f.o
	ctx, cancel := context.WithTimeout(ctx, o.Dead)
	defer cancel()
	raw, err := o.Dial(ctx, p.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	var wrap func(net.Conn) *tls.Conn
	if o.TLS != nil {
		wrap = func(c net.Conn) *tls.Conn { return tls.Client(c, o.TLS) }
	}
	// A small queue suffices: frames to a hub are small, and the hub always reads them.
	l, err := secure(raw, o.Timing, 1<<20, &p.f.traffic, wrap, func(c net.Conn) error { return greet(c, o.Secret, o.Self, p.ID) })
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("greet: %w", err)
	}
	return l, nil
}

// follow receives until the connection breaks or ctx ends.
func (p *peer) follow(ctx context.Context, l *link) error {
	f := p.f
	f.connections.Add(1)
	stop := context.AfterFunc(ctx, func() { l.close(errLeft) })
	defer stop()
	f.mu.Lock()
	p.link, p.sent, p.acked, p.has = l, nil, 0, Interest{}
	p.ask()
	f.news()
	f.mu.Unlock()
	f.work.Go(l.write)
	l.close(p.listen(l))

	f.mu.Lock()
	p.link, p.acked = nil, 0
	f.news()
	f.mu.Unlock()
	f.lost.Add(1)
	if f.ctx.Err() == nil {
		f.o.Handler.Lost(p.ID)
	}
	return l.reason()
}

func (p *peer) listen(l *link) error {
	r := frameReader{r: bufio.NewReaderSize(l.conn, 32<<10), max: maxFrame}
	var fx keyspace.Effects
	for {
		kind, body, err := r.next()
		if err != nil {
			return err
		}
		p.f.traffic.received.Add(1)
		p.f.bytes.Add(r.bytes)
		r.bytes = 0
		switch kind {
		case frameBeat:
		case frameAck:
			n, err := readAck(body)
			if err == nil {
				err = p.acknowledged(n)
			}
			if err != nil {
				return err
			}
		case frameEffects:
			fx.Reset()
			if err := readEffects(body, &fx); err != nil {
				return err
			}
			p.f.frames.Add(1)
			p.f.o.Handler.Effects(p.ID, &fx)
		default:
			return unexpected(kind)
		}
	}
}

// acknowledged notes that the hub has taken an interest. Acknowledgements come in the order
// in which the interests were sent.
func (p *peer) acknowledged(n uint64) error {
	f := p.f
	f.mu.Lock()
	if len(p.sent) == 0 || p.sent[0].number != n {
		f.mu.Unlock()
		return errors.New("an interest was acknowledged that was not sent")
	}
	now := p.sent[0].Interest
	p.sent = p.sent[1:]
	gained := now.Without(p.has)
	p.has = now
	f.mu.Unlock()
	f.o.Handler.Synced(p.ID, gained)
	f.mu.Lock()
	defer f.mu.Unlock()
	p.acked = n
	f.news()
	return nil
}
