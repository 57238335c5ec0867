package tracking

import (
	"strings"

	"redoubt/command"
	"redoubt/number"
	"redoubt/server/admin"
	"redoubt/wire"
)

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

// State is the tracking state of a client; the zero value means no tracking.
type State struct {
	Options
	On      bool
	Broken  bool // the connection to which messages are redirected is gone
	caching bool // CLIENT CACHING was given
}

// Options are the options of CLIENT TRACKING ON.
type Options struct {
	redirect                     int64
	bcast, optin, optout, noloop bool
	prefixes                     []string
}

// Broadcasts reports BCAST mode: all changed keys with the client's prefixes are sent.
func (o *Options) Broadcasts() bool { return o.bcast }

// Redirect returns the client to which messages are redirected, 0 for none, -1 without tracking.
func (t *State) Redirect() int64 {
	if !t.On {
		return -1
	}
	return t.redirect
}

// Present returns the state of a tracker, which may be nil.
func (k *Tracker) Present() (t State) {
	if k == nil {
		return t
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.State
}

// Parse parses the arguments of CLIENT TRACKING for a client with the state old. It returns
// the options, and whether tracking is to be on.
func (t *Table) Parse(args [][]byte, old State) (o Options, on bool, err error) {
	if o, err = t.options(args); err != nil {
		return o, false, err
	}
	switch {
	case admin.IsWord(args[2], "off"):
		return o, false, nil
	case !admin.IsWord(args[2], "on"):
		return o, false, command.ErrSyntax
	case len(o.prefixes) > 0 && !o.bcast:
		return o, false, errTrackPrefix
	case old.On && old.bcast != o.bcast:
		return o, false, errTrackSwitch
	case o.bcast && (o.optin || o.optout):
		return o, false, errTrackBcast
	case o.optin && o.optout:
		return o, false, errTrackBoth
	case o.optin && old.optout || o.optout && old.optin:
		return o, false, errTrackMode
	}
	return o, true, overlap(o.prefixes, old.prefixes)
}

func (t *Table) options(args [][]byte) (o Options, err error) {
	for i := 3; i < len(args); i++ {
		more := i+1 < len(args)
		is := func(word string) bool { return admin.IsWord(args[i], word) }
		switch {
		case is("redirect") && more:
			i++
			if o.redirect != 0 {
				return o, errTrackTwice
			}
			n, ok := number.ParseInt(args[i])
			if !ok {
				return o, command.ErrNotInteger
			}
			o.redirect = n
			if to, _ := t.Find(n); to == nil {
				return o, errTrackNoOther
			}
		case is("bcast"):
			o.bcast = true
		case is("optin"):
			o.optin = true
		case is("optout"):
			o.optout = true
		case is("noloop"):
			o.noloop = true
		case is("prefix") && more:
			i++
			o.prefixes = append(o.prefixes, string(args[i]))
		default:
			return o, command.ErrSyntax
		}
	}
	return o, nil
}

// overlap returns an error if a new prefix overlaps with another, new or old.
func overlap(list, old []string) error {
	const no = ". Prefixes for a single client must not overlap."
	begins := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	text := func(s string) string { return "'" + admin.CString([]byte(s), len(s)) + "'" }
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

// SetCaching implements CLIENT CACHING, whose argument is YES or NO.
func (k *Tracker) SetCaching(mode []byte) error {
	t := k.Present()
	switch {
	case !t.On:
		return errCaching
	case admin.IsWord(mode, "yes"):
		if !t.optin {
			return errCachingYes
		}
	case admin.IsWord(mode, "no"):
		if !t.optout {
			return errCachingNo
		}
	default:
		return command.ErrSyntax
	}
	k.caching = true
	return nil
}

// EndCaching ends the effect of CLIENT CACHING, which is for one command.
func (k *Tracker) EndCaching() { k.caching = false }

// Write answers CLIENT TRACKINGINFO.
func (t *State) Write(w *wire.Writer) {
	flags := []string{"off"}
	if t.On {
		flags[0] = "on"
	}
	for _, f := range []struct {
		on   bool
		name string
	}{
		{t.bcast, "bcast"}, {t.optin, "optin"}, {t.optin && t.caching, "caching-yes"}, {t.optout, "optout"},
		{t.optout && t.caching, "caching-no"}, {t.noloop, "noloop"}, {t.Broken, "broken_redirect"},
	} {
		if f.on {
			flags = append(flags, f.name)
		}
	}
	w.Map(3)
	w.BulkString("flags")
	w.Set(len(flags))
	for _, f := range flags {
		w.BulkString(f)
	}
	w.BulkString("redirect")
	w.Int(t.Redirect())
	w.BulkString("prefixes")
	w.Array(len(t.prefixes))
	for _, p := range t.prefixes {
		w.BulkString(p)
	}
}
