//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"redoubt/histogram"
	"redoubt/internal/respclient"
)

// How long a message takes from its publisher to subscribers that wait for it.
//
// Messages are published at fixed times, whatever came of those before, and a message's
// time runs from that moment: a server that stalls is told nothing less, and nothing is
// left out. One thread and one epoll serve publishers and subscribers, as in load.go.
// On Redoubt a subscriber is one connection that waits in CHREAD. On Redis it has two: one
// that SUBSCRIBE has made wait for wake-ups, and one for the script, which it runs once
// there was a wake-up. Each subscriber must get every message once, in order.

// deliveryCase is some subscribers at some channels.
type deliveryCase struct {
	name                  string
	channels, subscribers int // subscribers in all
	rate                  int // messages a second in all
}

var deliveryCases = []deliveryCase{
	{"DELIVERY to 100 in 100 channels", 100, 100, 5000},
	{"DELIVERY to 100 in one channel", 1, 100, 5000},
	{"DELIVERY to 100 in one channel slowly", 1, 100, 500},
}

// publishers is how many connections publish; all messages of a channel go over one, in order.
const publishers = 8

// deliveries measures them all.
func (s pair) deliveries(out *document, dialects map[*process]dialect) error {
	head := false
	for no, c := range deliveryCases {
		if !chosen(c.name, 1) {
			continue
		}
		if !head {
			head = true
			out.printf("\nMessages published at fixed times; the time of a delivery runs from the moment at which its message was to be published; cpu is microseconds of the server for each delivery; medians.\n" +
				"\n| case | published a second | redoubt deliveries a second | redis | redoubt p50 / p99 / p99.9 / max ms | redis p50 / p99 / p99.9 / max ms | redoubt cpu | redis cpu | cpu ratio |\n|---|---|---|---|---|---|---|---|---|\n")
		}
		round := 0
		x, y, err := s.turns(func(p *process) (result, error) {
			round++
			before, err := p.cpu()
			if err != nil {
				return result{}, err
			}
			dialect := dialects[p]
			if p == s.ours {
				dialect = ourChannels{block: true}
			}
			d := &delivery{deliveryCase: c, port: p.port, dialect: dialect, wakes: p == s.theirs, prefix: fmt.Sprintf("delivery-%d-%d", no, round)}
			if err := d.run(*duration); err != nil {
				return result{}, fmt.Errorf("%s on %s: %w", c.name, p.name, err)
			}
			after, err := p.cpu()
			h := &d.times
			return result{
				rps: float64(h.Count()) / d.took.Seconds(), p50: h.Milliseconds(0.5), p99: h.Milliseconds(0.99), p999: h.Milliseconds(0.999), most: h.Most().Seconds() * 1e3,
				cpu: (after - before).Seconds() * 1e6 / float64(max(h.Count(), 1)),
			}, err
		})
		if err != nil {
			return err
		}
		times := func(r result) string {
			return fmt.Sprintf("%.2f / %.2f / %.2f / %.1f", r[p50], r[p99], r[p999], r[most])
		}
		out.printf("| %s | %d | %.0f | %.0f | %s | %s | %.2f | %.2f | **%.2f** |\n",
			c.name, c.rate, x[rps], y[rps], times(x), times(y), x[cpu], y[cpu], y[cpu]/x[cpu])
	}
	return nil
}

// delivery is a case while it runs.
type delivery struct {
	deliveryCase
	port    int
	dialect dialect
	wakes   bool // subscribers are woken on a connection of their own
	prefix  string

	epoll  int
	timer  int
	begin  time.Time
	conns  []*peer
	pubs   []*peer
	all    int // messages to be published
	sent   int
	times  histogram.Histogram
	left   int // deliveries to come
	took   time.Duration
	filler string
}

// peer is one connection.
type peer struct {
	fd   int
	in   []byte
	take func(reply) error

	// Of a subscriber:
	channel, name string
	handle        string
	next          int // the number of the message that must come next
	busy, again   bool
}

func (d *delivery) run(length time.Duration) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(d.epoll)
	defer func() {
		for _, p := range d.conns {
			unix.Close(p.fd)
		}
	}()
	if err := d.connect(); err != nil {
		return err
	}
	if d.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	defer unix.Close(d.timer)
	if err := unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, d.timer, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1}); err != nil {
		return err
	}
	interval := unix.NsecToTimespec(int64(time.Second) / int64(d.rate))
	d.all = max(1, int(length.Seconds()*float64(d.rate)))
	d.left = d.all * d.subscribers / d.channels
	d.begin = time.Now()
	if err := unix.TimerfdSettime(d.timer, 0, &unix.ItimerSpec{Interval: interval, Value: interval}, nil); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	events := make([]unix.EpollEvent, 256)
	for d.left > 0 {
		n, err := unix.EpollWait(d.epoll, events, int(stuck/time.Millisecond))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
		if n == 0 {
			return fmt.Errorf("%d deliveries are missing", d.left)
		}
		for _, e := range events[:n] {
			if e.Fd < 0 {
				err = d.tick()
			} else {
				err = d.receive(d.conns[e.Fd])
			}
			if err != nil {
				return err
			}
		}
	}
	d.took = time.Since(d.begin)
	return nil
}

// connect makes publishers and subscribers, which wait when it returns.
func (d *delivery) connect() error {
	d.filler = strings.Repeat("v", max(0, *size-contentHead))
	control, err := respclient.Dial("127.0.0.1:" + strconv.Itoa(d.port))
	if err != nil {
		return err
	}
	defer control.Close()
	for range publishers {
		p, err := d.open(func(r reply) error { return noError(r) })
		if err != nil {
			return err
		}
		d.pubs = append(d.pubs, p)
	}
	for i := range d.subscribers {
		channel, name := d.channel(i), "reader-"+strconv.Itoa(i)
		if err := do(control, d.dialect.subscribe(channel, name)...); err != nil {
			return err
		}
		s, err := d.open(nil)
		if err != nil {
			return err
		}
		s.channel, s.name, s.next = channel, name, i%d.channels
		s.take = func(r reply) error { return d.delivered(s, r) }
		if !d.wakes {
			if err := d.read(s); err != nil {
				return err
			}
			continue
		}
		w, err := d.open(func(reply) error { return d.woken(s) })
		if err != nil {
			return err
		}
		if err := w.send(respclient.AppendCommand(nil, "SUBSCRIBE", wakeChannel(channel))); err != nil {
			return err
		}
	}
	return nil
}

func (d *delivery) channel(i int) string { return d.prefix + "-" + strconv.Itoa(i%d.channels) }

func (d *delivery) open(take func(reply) error) (*peer, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &peer{fd: fd, take: take, in: make([]byte, 0, 64<<10)}
	d.conns = append(d.conns, p)
	return p, errors.Join(
		unix.Connect(fd, &unix.SockaddrInet4{Port: d.port, Addr: [4]byte{127, 0, 0, 1}}),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetNonblock(fd, true),
		unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(len(d.conns) - 1)}),
	)
}

// contentHead is the size of what a message's content begins with: its number and the time at
// which it was to be published, in nanoseconds from the beginning.
const contentHead = 12 + 1 + 15 + 1

// tick publishes what is due.
func (d *delivery) tick() error {
	var b [8]byte
	if _, err := unix.Read(d.timer, b[:]); err != nil && !errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("timer: %w", err)
	}
	for range binary.NativeEndian.Uint64(b[:]) {
		if d.sent == d.all {
			return nil
		}
		due := time.Duration(d.sent+1) * (time.Second / time.Duration(d.rate))
		content := fmt.Sprintf("%012d %015d %s", d.sent, due.Nanoseconds(), d.filler)
		words := d.dialect.publish(d.channel(d.sent), "m-"+strconv.Itoa(d.sent), content, channelLife)
		if err := d.pubs[d.sent%d.channels%publishers].send(respclient.AppendCommand(nil, words...)); err != nil {
			return err
		}
		d.sent++
	}
	return nil
}

// read has a subscriber acknowledge what it has and ask for more.
func (d *delivery) read(s *peer) error {
	s.busy = true
	return s.send(respclient.AppendCommand(nil, d.dialect.read(s.channel, s.name, s.handle)...))
}

// woken is a wake-up of a subscriber on Redis.
func (d *delivery) woken(s *peer) error {
	if s.busy {
		s.again = true
		return nil
	}
	return d.read(s)
}

// delivered takes what a subscriber has read.
func (d *delivery) delivered(s *peer, r reply) error {
	if err := noError(r); err != nil {
		return err
	}
	s.busy = false
	parts, err := r.elements()
	if err != nil {
		return err
	}
	if len(parts) != 3 {
		return fmt.Errorf("a read answered %.80q", r.body)
	}
	messages, err := parts[0].elements()
	if err != nil {
		return err
	}
	now := time.Since(d.begin)
	for _, m := range messages {
		content := m.body // on Redis behind the id
		if m.kind == '*' {
			three, err := m.elements()
			if err != nil || len(three) != 3 {
				return fmt.Errorf("a message is %.80q: %w", m.body, err)
			}
			content = three[2].body
		} else if _, after, ok := strings.Cut(string(content), "\n"); ok {
			content = []byte(after)
		}
		if err := d.arrived(s, content, now); err != nil {
			return err
		}
	}
	if parts[2].body != nil {
		s.handle = string(parts[2].body)
	}
	if more := string(parts[1].body) == "1"; !d.wakes || s.again || more {
		s.again = false
		return d.read(s)
	}
	return nil
}

// arrived checks a message and notes its time.
func (d *delivery) arrived(s *peer, content []byte, now time.Duration) error {
	if len(content) < contentHead {
		return fmt.Errorf("%s has got %.40q", s.name, content)
	}
	number, err1 := strconv.Atoi(string(content[:12]))
	due, err2 := strconv.ParseInt(string(content[13:28]), 10, 64)
	if err1 != nil || err2 != nil || number != s.next {
		return fmt.Errorf("%s in %s waits for the message %d and has got %.40q", s.name, s.channel, s.next, content)
	}
	s.next += d.channels
	d.times.Add(now - time.Duration(due))
	d.left--
	return nil
}

func noError(r reply) error {
	if r.kind == '-' {
		return fmt.Errorf("error reply: %.200q", r.body)
	}
	return nil
}

func (p *peer) send(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(p.fd, b)
		switch {
		case err == nil:
			b = b[n:]
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLOUT}}, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("poll: %w", err)
			}
		default:
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// receive takes the whole replies of what has come.
func (d *delivery) receive(p *peer) error {
	if len(p.in) == cap(p.in) {
		return fmt.Errorf("a reply is longer than %d bytes", cap(p.in))
	}
	n, err := unix.Read(p.fd, p.in[len(p.in):cap(p.in)])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case n == 0:
		return errors.New("the server closed a connection")
	}
	p.in = p.in[:len(p.in)+n]
	used := 0
	for {
		r, n, err := nextReply(p.in[used:])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		used += n
		if err := p.take(r); err != nil {
			return err
		}
	}
	p.in = p.in[:copy(p.in, p.in[used:])]
	return nil
}
