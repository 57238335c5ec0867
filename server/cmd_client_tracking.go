package server

import (
	"strings"

	"redoubt/command"
	"redoubt/number"
)

// CLIENT TRACKING and the commands around it. How it works is in tracking.go.

const (
	errCaching      = command.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	errCachingYes   = command.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	errCachingNo    = command.Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	errTrackPrefix  = command.Error("ERR PREFIX option requires BCAST mode to be enabled")
	errTrackSwitch  = command.Error("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
	errTrackBcast   = command.Error("ERR OPTIN and OPTOUT are not compatible with BCAST")
	errTrackBoth    = command.Error("ERR You can't specify both OPTIN mode and OPTOUT mode")
	errTrackMode    = command.Error("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	errTrackTwice   = command.Error("ERR A client can only redirect to a single other client")
	errTrackNoOther = command.Error("ERR The client ID you want redirect to does not exist")
)

// tracked is how keys are tracked for the session; nothing is set if they are not.
func (s *session) tracked() (t trackState) {
	if k := s.tracker; k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.trackState
	}
	return t
}

// redirects is where messages are redirected to, -1 without tracking.
func (t *trackState) redirects() int64 {
	if !t.on {
		return -1
	}
	return t.redirect
}

func clientTracking(c *localCall) error {
	o, err := c.trackOptions()
	if err != nil {
		return err
	}
	switch {
	case c.is(2, "off"):
		c.s.endTracking()
		c.w.OK()
		return nil
	case !c.is(2, "on"):
		return command.ErrSyntax
	}
	old := c.s.tracked()
	switch {
	case len(o.prefixes) > 0 && !o.bcast:
		return errTrackPrefix
	case old.on && old.bcast != o.bcast:
		return errTrackSwitch
	case o.bcast && (o.optin || o.optout):
		return errTrackBcast
	case o.optin && o.optout:
		return errTrackBoth
	case o.optin && old.optout || o.optout && old.optin:
		return errTrackMode
	}
	if err := overlap(o.prefixes, old.prefixes); err != nil {
		return err
	}
	c.s.beginTracking(o)
	c.w.OK()
	return nil
}

func (c *localCall) trackOptions() (o trackOptions, err error) {
	for i := 3; i < len(c.args); i++ {
		more := i+1 < len(c.args)
		switch {
		case c.is(i, "redirect") && more:
			i++
			if o.redirect != 0 {
				return o, errTrackTwice
			}
			n, ok := number.ParseInt(c.args[i])
			if !ok {
				return o, command.ErrNotInteger
			}
			if o.redirect = n; c.srv.clients.find(n) == nil {
				return o, errTrackNoOther
			}
		case c.is(i, "bcast"):
			o.bcast = true
		case c.is(i, "optin"):
			o.optin = true
		case c.is(i, "optout"):
			o.optout = true
		case c.is(i, "noloop"):
			o.noloop = true
		case c.is(i, "prefix") && more:
			i++
			o.prefixes = append(o.prefixes, string(c.args[i]))
		default:
			return o, command.ErrSyntax
		}
	}
	return o, nil
}

// overlap says which of the new prefixes would tell of a key that another one, new
// or old, tells of.
func overlap(list, old []string) error {
	const no = ". Prefixes for a single client must not overlap."
	begins := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	text := func(s string) string { return "'" + cString([]byte(s), len(s)) + "'" }
	for i, p := range list {
		for _, q := range old {
			if begins(p, q) {
				return command.Error("ERR Prefix " + text(p) + " overlaps with an existing prefix " + text(q) + no)
			}
		}
		for _, q := range list[i+1:] {
			if begins(p, q) {
				return command.Error("ERR Prefix " + text(p) + " overlaps with another provided prefix " + text(q) + no)
			}
		}
	}
	return nil
}

func clientCaching(c *localCall) error {
	t := c.s.tracked()
	switch {
	case !t.on:
		return errCaching
	case c.is(2, "yes"):
		if !t.optin {
			return errCachingYes
		}
	case c.is(2, "no"):
		if !t.optout {
			return errCachingNo
		}
	default:
		return command.ErrSyntax
	}
	c.s.tracker.caching = true
	c.w.OK()
	return nil
}

func clientTrackingInfo(c *localCall) error {
	t := c.s.tracked()
	flags := []string{"off"}
	if t.on {
		flags[0] = "on"
	}
	for _, f := range []struct {
		on   bool
		name string
	}{
		{t.bcast, "bcast"}, {t.optin, "optin"}, {t.optin && t.caching, "caching-yes"}, {t.optout, "optout"},
		{t.optout && t.caching, "caching-no"}, {t.noloop, "noloop"}, {t.broken, "broken_redirect"},
	} {
		if f.on {
			flags = append(flags, f.name)
		}
	}
	c.w.Map(3)
	c.w.BulkString("flags")
	c.w.Set(len(flags))
	for _, f := range flags {
		c.w.BulkString(f)
	}
	c.w.BulkString("redirect")
	c.w.Int(t.redirects())
	c.w.BulkString("prefixes")
	c.w.Array(len(t.prefixes))
	for _, p := range t.prefixes {
		c.w.BulkString(p)
	}
	return nil
}
