package differential

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redoubt/internal/respclient"
)

// A target answers operations.
type target interface {
	name() string
	// run does the operations on an empty store and returns the replies as
	// bytes, made comparable by tidy.
	run(ops []op, proto int) ([]string, error)
}

// modelTarget is the model with a clock of its own.
type modelTarget struct {
	live bool
}

func (modelTarget) name() string { return "model" }

func (t modelTarget) run(ops []op, proto int) ([]string, error) {
	clock := int64(epoch)
	now := func() int64 { return clock }
	if t.live {
		now = func() int64 { return time.Now().UnixMilli() }
	}
	m := newModel(now)
	m.proto = proto
	replies := make([]string, len(ops))
	for i, o := range ops {
		switch {
		case o.wait > 0 && t.live:
			time.Sleep(o.wait)
		case o.wait > 0:
			clock += o.wait.Milliseconds()
		case o.scan:
			replies[i] = m.scan(o.args)
		default:
			replies[i] = tidy(o, m.do(o.args))
		}
	}
	return replies, nil
}

// scan is the outcome of a whole SCAN: an error, or its keys in order.
func (m *model) scan(a []string) string {
	pattern, kind := "*", ""
	for i := 0; i < len(a); i += 2 {
		switch strings.ToLower(a[i]) {
		case "count":
			n, ok := integer(a[i+1])
			if !ok {
				return fail(notInt)
			}
			if n < 1 {
				return fail(syntax)
			}
		case "match":
			pattern = a[i+1]
		case "type":
			kind = strings.ToLower(a[i+1])
		}
	}
	var found []string
	for _, k := range m.live() {
		if e, _ := m.get(k); match(pattern, k) && (kind == "" || kind == kindOf(e)) {
			found = append(found, k)
		}
	}
	return strings.Join(found, "\x01")
}

// serverTarget is a server at an address.
type serverTarget struct {
	label, addr string
	// reset sets the clock back to epoch, advance moves it; with a live clock
	// the first does nothing and the second sleeps.
	reset   func()
	advance func(time.Duration)
	// burst is how many commands are sent before their replies are read.
	burst int
	// pieces has bursts sent in small pieces, cut anywhere.
	pieces bool
	// multi has each burst sent as a transaction, eval each command by a script.
	multi, eval bool
}

func (t *serverTarget) name() string { return t.label }

func (t *serverTarget) run(ops []op, proto int) ([]string, error) {
	t.reset()
	c, err := respclient.DialProto(t.addr, proto)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if v, err := c.Do("FLUSHALL"); err != nil || v.Str != "OK" {
		return nil, fmt.Errorf("FLUSHALL: %v, %w", v, err)
	}
	replies := make([]string, len(ops))
	var pending []int
	var out []byte
	flush := func() error {
		if t.multi && len(pending) > 0 {
			list := make([]op, len(pending))
			for at, i := range pending {
				list[at] = ops[i]
			}
			got, err := t.inMulti(c, list)
			if err != nil {
				return err
			}
			for at, i := range pending {
				replies[i] = tidy(ops[i], got[at])
			}
			pending, out = pending[:0], out[:0]
			return nil
		}
		if err := t.send(c, out); err != nil {
			return err
		}
		for _, i := range pending {
			v, err := c.Read()
			if err != nil {
				return fmt.Errorf("%s: %w", show(ops[i]), err)
			}
			if !v.Fits(proto) {
				return fmt.Errorf("%s: reply %q is not RESP%d", show(ops[i]), c.Raw(), proto)
			}
			replies[i] = tidy(ops[i], string(c.Raw()))
		}
		pending, out = pending[:0], out[:0]
		return nil
	}
	for i, o := range ops {
		if o.wait == 0 && !o.scan {
			if t.eval {
				out = append(out, byScript(o.args)...)
			} else {
				out = respclient.AppendCommand(out, o.args...)
			}
			if pending = append(pending, i); len(pending) < t.burst {
				continue
			}
		}
		if err := flush(); err != nil {
			return nil, err
		}
		if o.wait > 0 {
			t.advance(o.wait)
		}
		if o.scan {
			if replies[i], err = scanAll(c, o.args); err != nil {
				return nil, err
			}
		}
	}
	return replies, flush()
}

func (t *serverTarget) send(c *respclient.Client, out []byte) error {
	for n := 1; t.pieces && len(out) > n && len(out) < 10_000; n = n*7%61 + 1 { // sizes all over the place, the same each time
		if err := c.Write(out[:n]); err != nil {
			return err
		}
		out = out[n:]
	}
	return c.Write(out)
}

// scanAll runs a whole SCAN.
func scanAll(c *respclient.Client, options []string) (string, error) {
	var found []string
	cursor := "0"
	for range 10_000 {
		v, err := c.Do(append([]string{"SCAN", cursor}, options...)...)
		if err != nil {
			return "", err
		}
		if v.IsError() {
			return string(c.Raw()), nil
		}
		if len(v.Elems) != 2 {
			return "", fmt.Errorf("SCAN: %s", v)
		}
		for _, k := range v.Elems[1].Elems {
			found = append(found, k.Str)
		}
		if cursor = v.Elems[0].Str; cursor == "0" {
			slices.Sort(found)
			return strings.Join(slices.Compact(found), "\x01"), nil
		}
	}
	return "", fmt.Errorf("SCAN does not end")
}

// tidy takes the order out of a reply whose order means nothing, and the
// choice out of RANDOMKEY.
func tidy(o op, reply string) string {
	switch strings.ToLower(o.args[0]) {
	case "randomkey":
		if strings.HasPrefix(reply, "$") && reply != "$-1\r\n" {
			return "some key"
		}
	case "hgetall", "hkeys", "hvals", "hscan", "hrandfield":
		return tidyHash(o, reply)
	case "smembers", "sinter", "sunion", "sdiff", "spop", "srandmember", "sscan":
		return tidySet(o, reply)
	case "xpending", "xinfo":
		return tidyStream(reply)
	case "object":
		return strings.Replace(reply, "$9\r\nquicklist", "$8\r\nlistpack", 1) // see listValue
	case "keys":
		if head, rest, ok := strings.Cut(reply, "\r\n"); ok && reply[0] == '*' {
			return head + strings.Join(sortedBulks(rest), "")
		}
	}
	return reply
}

// sortedBulks cuts the elements of an array of strings apart.
func sortedBulks(rest string) (elems []string) {
	for rest != "" {
		head, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.Atoi(head[1:])
		if err != nil {
			return []string{rest}
		}
		end := len(head) + 2 + n + 2
		elems = append(elems, rest[:end])
		rest = rest[end:]
	}
	slices.Sort(elems)
	return elems
}

// same compares two replies. With a live clock, what is left of a time may
// differ by what passed between the servers.
func same(o op, x, y string, live bool) bool {
	if x == y {
		return true
	}
	if !live || o.wait > 0 || o.scan {
		return false
	}
	unit := int64(1)
	name := strings.ToLower(o.args[0])
	switch name {
	case "ttl", "expiretime":
	case "pttl", "pexpiretime":
		unit = 1000
	default:
		return false
	}
	m, ok1 := integer(strings.TrimSpace(strings.TrimPrefix(x, ":")))
	n, ok2 := integer(strings.TrimSpace(strings.TrimPrefix(y, ":")))
	// A moment that was given as such is far away, and must be exact.
	exact := strings.HasSuffix(name, "time") && m > 30_000_000_000*unit
	return ok1 && ok2 && m > 0 && n > 0 && !exact && max(m, n)-min(m, n) <= 3*unit
}

// show writes an operation as a line of a command script.
func show(o op) string {
	if o.wait > 0 {
		return "@advance " + o.wait.String()
	}
	words := make([]string, len(o.args))
	for i, a := range o.args {
		words[i] = a
		if a == "" || strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+._#") != "" {
			words[i] = respclient.Quote(a)
		}
	}
	if o.scan {
		return "> SCAN (whole) " + strings.Join(words, " ")
	}
	return "> " + strings.Join(words, " ")
}

// difference is a place where two targets disagree.
type difference struct {
	ops   []op
	at    int
	x, y  target
	rx    string
	ry    string
	proto int
}

// compare runs the operations everywhere and finds the first difference from
// the first target, nil if there is none.
func compare(ops []op, proto int, live bool, targets []target) (*difference, error) {
	var first []string
	for i, t := range targets {
		replies, err := t.run(ops, proto)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name(), err)
		}
		if i == 0 {
			first = replies
			continue
		}
		s, _ := t.(*serverTarget)
		for j := range ops {
			if s != nil && s.eval && throughLua(first[j], replies[j]) {
				continue
			}
			if !same(ops[j], first[j], replies[j], live) {
				return &difference{ops, j, targets[0], t, first[j], replies[j], proto}, nil
			}
		}
	}
	return nil, nil
}

// shrink leaves out operations as long as two targets still disagree.
func (d *difference) shrink(live bool) *difference {
	pair := []target{d.x, d.y}
	best := *d
	best.ops = d.ops[:d.at+1]
	for size := len(best.ops) / 2; size > 0; {
		smaller := false
		for from := 0; from+size <= len(best.ops); {
			rest := slices.Concat(best.ops[:from], best.ops[from+size:])
			if n, err := compare(rest, d.proto, live, pair); err == nil && n != nil {
				best = *n
				best.ops = n.ops[:n.at+1]
				smaller = true
			} else {
				from += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return &best
}

func (d *difference) String() string {
	var b strings.Builder
	for _, o := range d.ops[:d.at+1] {
		fmt.Fprintln(&b, "  "+show(o))
	}
	cut := func(s string) string {
		if len(s) > 600 {
			return fmt.Sprintf("%q... (%d bytes)", s[:600], len(s))
		}
		return fmt.Sprintf("%q", s)
	}
	fmt.Fprintf(&b, "  RESP%d, %s: %s\n  RESP%d, %s: %s", d.proto, d.x.name(), cut(d.rx), d.proto, d.y.name(), cut(d.ry))
	return b.String()
}
