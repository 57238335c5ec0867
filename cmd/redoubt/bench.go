package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"redoubt/client"
	"redoubt/histogram"
	"redoubt/loader"
)

// redoubt bench: puts load on a server. Package loader does; this file says what is sent, and
// shows what came of it.

// benchPrefix is what the keys begin with that bench writes.
const benchPrefix = "redoubt-bench:"

// errIncomplete: some requests got no reply, or an error.
var errIncomplete = errors.New("not all requests were answered")

func benchServer(ctx context.Context, args []string, out, log io.Writer) error {
	f := flags("bench", log)
	at := f.String("server", defaultServer, "the `server`: redis://user:password@host:port, or rediss:// for TLS")
	rate := f.Float64("rate", 0, "open loop: send `N` requests a second, however long replies take; 0 is a closed loop")
	clients := f.Int("clients", 50, "the number of connections")
	pipeline := f.Int("pipeline", 1, "closed loop: how many requests a connection sends at once")
	duration := f.Duration("time", 10*time.Second, "for how long requests are sent")
	requests := f.Int64("count", 0, "how many requests are sent at the most; 0 is no bound")
	patience := f.Duration("patience", 5*time.Second, "how long replies are waited for at the end")
	keys := f.Int64("keys", 100_000, "how many keys there are")
	size := f.Int("size", 128, "how many bytes a value has")
	writes := f.Float64("writes", 10, "without a command: which percentage of the requests are SET, the others are GET")
	seed := f.Uint64("seed", 1, "of the random numbers")
	secure := tlsFlags(f)
	f.Usage = func() {
		fmt.Fprintf(log, "usage: redoubt bench [flags] [command word ...]\n\nThe command is sent with other words for {key}, {value} and {number} each time; its keys begin with %s\nWithout a command: GET and SET.\n\n", benchPrefix)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return failed(err)
	}
	switch {
	case *clients < 1 || *clients > 100_000:
		return failed(errors.New("--clients is from 1 to 100000"))
	case *pipeline < 1 || *pipeline > 10_000:
		return failed(errors.New("--pipeline is from 1 to 10000"))
	case *rate > 0 && *pipeline > 1:
		return failed(errors.New("--rate and --pipeline exclude each other: in an open loop a request is sent when it is due"))
	case *rate < 0 || *rate > 1e8:
		return failed(errors.New("--rate is from 0 to 100000000"))
	case *duration <= 0 || *patience <= 0:
		return failed(errors.New("--time and --patience are longer than nothing"))
	case *keys < 1 || *requests < 0 || *size < 0 || *size > 512<<20:
		return failed(errors.New("--keys is 1 or more, --count 0 or more, --size from 0 to 536870912"))
	}
	config, err := secure()
	if err != nil {
		return failed(err)
	}
	server, err := parseServer(*at, config)
	if err != nil {
		return failed(err)
	}
	p := newProgress(log, time.Second)
	p.begin(fmt.Sprintf("bench %s", server))
	words := words{command: f.Args(), keys: *keys, value: strings.Repeat("x", *size), writes: *writes / 100}
	r, err := loader.Run(ctx, loader.Options{
		Server: server, Clients: *clients, Pipeline: *pipeline, Rate: *rate, Time: *duration, Count: *requests, Patience: *patience, Seed: *seed,
		Request: words.request,
		Progress: func(elapsed time.Duration, times *histogram.Histogram, refused int64) {
			text := fmt.Sprintf("%2.0f s, %d/s, p50 %s, p99 %s", elapsed.Seconds(), times.Count(), short(times.At(0.5)), short(times.At(0.99)))
			if refused > 0 {
				text += fmt.Sprintf(", %d refused", refused)
			}
			p.show(text)
		},
	})
	p.end()
	if r == nil {
		return failed(err)
	}
	report(out, r, *rate)
	if err != nil {
		return failed(err)
	}
	if r.Refused+r.Unanswered+r.Unsent > 0 {
		return errIncomplete
	}
	return nil
}

// words make requests.
type words struct {
	command []string
	keys    int64
	value   string
	writes  float64 // the part of SET
}

func (w *words) request(b []byte, r *rand.Rand) []byte {
	key := benchPrefix + strconv.FormatInt(r.Int64N(w.keys), 10)
	if len(w.command) == 0 {
		if r.Float64() < w.writes {
			return client.AppendRequest(b, "SET", key, w.value)
		}
		return client.AppendRequest(b, "GET", key)
	}
	replace := strings.NewReplacer("{key}", key, "{value}", w.value, "{number}", strconv.FormatInt(r.Int64N(w.keys), 10))
	sent := make([]string, len(w.command))
	for i, word := range w.command {
		sent[i] = replace.Replace(word)
	}
	return client.AppendRequest(b, sent...)
}

// report shows the result of a load.
func report(out io.Writer, r *loader.Result, rate float64) {
	fmt.Fprintf(out, "%d replies in %s, %.0f/s\n", r.Answered, short(r.Took), float64(r.Answered)/r.Took.Seconds())
	if r.Refused > 0 {
		fmt.Fprintf(out, "%d of them were errors, such as: %.200q\n", r.Refused, r.Refusal)
	}
	if n := r.Unanswered + r.Unsent; n > 0 {
		fmt.Fprintf(out, "%d requests were not answered (%d of them could not be sent); they count below with the time they had waited\n", n, r.Unsent)
	}
	if r.Times.Count() == 0 {
		return
	}
	fmt.Fprintf(out, "\n  p50 %s  p90 %s  p99 %s  p99.9 %s  p99.99 %s  longest %s\n\n", short(r.Times.At(0.5)), short(r.Times.At(0.9)), short(r.Times.At(0.99)),
		short(r.Times.At(0.999)), short(r.Times.At(0.9999)), short(r.Times.Most()))
	bars(out, &r.Times)
	if rate == 0 {
		fmt.Fprint(out, "\nclosed loop: a connection that waits sends nothing, so a stall counts once for each connection; --rate N measures what users would wait\n")
		return
	}
	fmt.Fprintf(out, "\nopen loop: times run from the moment at which a request was due; this program itself was late by p50 %s, p99 %s\n", short(r.Late.At(0.5)), short(r.Late.At(0.99)))
	if late := r.Late.At(0.99); late > r.Times.At(0.99)/2 && late > time.Millisecond {
		fmt.Fprint(out, "note: that is much of what was measured. This machine is too slow for the rate: take another one, or a lower rate\n")
	}
}

// bars draws a histogram, a bar for each power of two.
func bars(out io.Writer, h *histogram.Histogram) {
	const width = 50
	type bar struct {
		upTo time.Duration
		n    int
	}
	list := []bar{{upTo: time.Microsecond}}
	most := 0
	h.Each(func(upTo time.Duration, n int) {
		for upTo > list[len(list)-1].upTo {
			list = append(list, bar{upTo: 2 * list[len(list)-1].upTo})
		}
		last := &list[len(list)-1]
		last.n += n
		most = max(most, last.n)
	})
	for len(list) > 1 && list[0].n == 0 {
		list = list[1:]
	}
	for _, b := range list {
		long := b.n * width / most
		if b.n > 0 {
			long = max(long, 1)
		}
		fmt.Fprintf(out, "  up to %9s %6.2f %% %9d %s\n", short(b.upTo), float64(b.n)*100/float64(h.Count()), b.n, strings.Repeat("#", long))
	}
}

// short formats a time with three digits.
func short(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if d >= u.unit {
			f := d.Seconds() / u.unit.Seconds()
			return strconv.FormatFloat(f, 'f', max(0, 2-len(strconv.Itoa(int(f)))+1), 64) + " " + u.name
		}
	}
	return fmt.Sprintf("%d ns", d)
}
