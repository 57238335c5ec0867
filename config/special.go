package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The directives whose values have a form of their own. Each function reads
// the words of a value and returns the text that CONFIG GET shows; see
// Directive.parse.

var errWords = errors.New("wrong number of arguments")

// readSave reads pairs of seconds and changes. In a configuration file each
// line adds to those before it, the first one replacing the default.
func readSave(c *Config, words []string, loading bool) (string, error) {
	if len(words) == 1 && words[0] == "" {
		words = nil
		if loading {
			c.saveSeen = true
			return "", nil
		}
	}
	bad := errors.New("Invalid save parameters")
	if len(words)%2 != 0 {
		return "", bad
	}
	var out []string
	if loading && c.saveSeen {
		out = strings.Fields(c.Get("save"))
	}
	for i := 0; i < len(words); i += 2 {
		seconds, ok1 := parseC(words[i])
		changes, ok2 := parseC(words[i+1])
		if !ok1 || !ok2 || seconds < 1 || changes < 0 {
			return "", bad
		}
		out = append(out, strconv.FormatInt(seconds, 10), strconv.FormatInt(int64(int32(changes)), 10))
	}
	c.saveSeen = c.saveSeen || loading
	return strings.Join(out, " "), nil
}

// The classes of clients that have output buffer limits, as CONFIG GET names
// them; a replica may be called so when the limits are set.
var bufferClasses = []string{"normal", "slave", "pubsub"}

// readBufferLimits reads groups of class, hard limit, soft limit and seconds.
// Classes that are not named keep their limits.
func readBufferLimits(c *Config, words []string, _ bool) (string, error) {
	if len(words)%4 != 0 {
		return "", errors.New("Wrong number of arguments in buffer limit configuration.")
	}
	limits := strings.Fields(c.Get("client-output-buffer-limit"))
	for ; len(words) > 0; words = words[4:] {
		class := -1
		for i, name := range bufferClasses {
			if strings.EqualFold(words[0], name) || (name == "slave" && strings.EqualFold(words[0], "replica")) {
				class = i
			}
		}
		if class < 0 {
			return "", errors.New("Invalid client class specified in buffer limit configuration.")
		}
		hard, ok1 := parseMemory(words[1])
		soft, ok2 := parseMemory(words[2])
		seconds, ok3 := parseC(words[3])
		if seconds = int64(int32(seconds)); !ok1 || !ok2 || !ok3 || seconds < 0 {
			return "", errors.New("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
		copy(limits[4*class+1:], []string{strconv.FormatUint(hard, 10), strconv.FormatUint(soft, 10),
			strconv.FormatInt(seconds, 10)})
	}
	return strings.Join(limits, " "), nil
}

// BufferLimit is the output buffer limit of a class of clients.
type BufferLimit struct {
	Hard, Soft  uint64
	SoftSeconds int64
}

// BufferLimits returns the limits of normal clients, replicas and subscribers.
func (c *Config) BufferLimits() (normal, replica, pubsub BufferLimit) {
	f := strings.Fields(c.Get("client-output-buffer-limit"))
	read := func(i int) (l BufferLimit) {
		l.Hard, _ = strconv.ParseUint(f[i+1], 10, 64)
		l.Soft, _ = strconv.ParseUint(f[i+2], 10, 64)
		l.SoftSeconds, _ = strconv.ParseInt(f[i+3], 10, 64)
		return l
	}
	return read(0), read(4), read(8)
}

func readOOMScores(_ *Config, words []string, _ bool) (string, error) {
	if len(words) != 3 {
		return "", errWords
	}
	out := make([]string, 3)
	for i, w := range words {
		n, ok := parseC(w)
		if !ok || n < -2000 || n > 2000 {
			return "", errors.New("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
		}
		out[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(out, " "), nil
}

// The classes of keyspace events in the order in which CONFIG GET shows them.
// A stands for all of the first part.
const (
	eventsInA    = "g$lshzxetd"
	eventsSimple = "nKEmp" // p, which Redis does not have, is that of channels
)

// readEvents reads the classes of keyspace events. Redis does not show an n
// beside an A, and so loses it on CONFIG REWRITE; we show it.
func readEvents(_ *Config, words []string, _ bool) (string, error) {
	if len(words) != 1 {
		return "", errWords
	}
	set := map[rune]bool{}
	for _, r := range words[0] {
		switch {
		case r == 'A':
			for _, e := range eventsInA {
				set[e] = true
			}
		case strings.ContainsRune(eventsInA+eventsSimple, r):
			set[r] = true
		default:
			return "", errors.New("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
		}
	}
	var inA, out strings.Builder
	for _, r := range eventsInA {
		if set[r] {
			inA.WriteRune(r)
		}
	}
	if inA.Len() == len(eventsInA) {
		out.WriteByte('A')
	} else {
		out.WriteString(inA.String())
	}
	for _, r := range eventsSimple {
		if set[r] {
			out.WriteRune(r)
		}
	}
	return out.String(), nil
}

func readBind(_ *Config, words []string, _ bool) (string, error) {
	if len(words) > 16 {
		return "", errors.New("Too many bind addresses specified.")
	}
	// The value is a list of words, so that an empty one among others would not survive CONFIG REWRITE.
	return strings.Join(strings.Fields(strings.Join(words, " ")), " "), nil
}

// readPercentiles reads a list of percentages.
func readPercentiles(_ *Config, words []string, _ bool) (string, error) {
	if len(words) == 1 && words[0] == "" {
		words = nil
	}
	out := make([]string, len(words))
	for i, w := range words {
		p, err := strconv.ParseFloat(w, 64)
		if err != nil || p != p || strings.ContainsAny(w, "_xX") {
			return "", errors.New("Invalid latency-tracking-info-percentiles parameters")
		}
		if p < 0 || p > 100 {
			return "", errors.New("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
		}
		s := strconv.FormatFloat(p, 'f', 6, 64)
		out[i] = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return strings.Join(out, " "), nil
}

func readReplicaOf(_ *Config, words []string, _ bool) (string, error) {
	if len(words) != 2 {
		return "", errWords
	}
	if strings.EqualFold(words[0], "no") && strings.EqualFold(words[1], "one") {
		return "", nil
	}
	if port, ok := parseC(words[1]); !ok || port < 0 || port > anyPort {
		return "", errors.New("Invalid master port")
	}
	return words[0] + " " + words[1], nil
}

// readDir reads the data directory and makes it absolute. Before the server
// runs it need not exist: the store makes it.
func readDir(_ *Config, words []string, loading bool) (string, error) {
	if len(words) != 1 {
		return "", errWords
	}
	path, err := filepath.Abs(words[0])
	if err != nil {
		return "", fmt.Errorf("can't tell the absolute path of %s: %w", words[0], err)
	}
	if loading {
		return path, nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return "", errors.New(systemText(err))
	}
	return path, nil
}

// systemText is an operating system's error as C programs print it: without
// the path, and with a capital.
func systemText(err error) string {
	var no syscall.Errno
	s := err.Error()
	if errors.As(err, &no) {
		s = no.Error()
	}
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// fileName accepts a file's name without a path.
func fileName(directive, noun string, emptyOK bool) func(value, bool) error {
	return func(v value, _ bool) error {
		if v.text == "" && !emptyOK {
			return errors.New(directive + " can't be empty")
		}
		if strings.ContainsAny(v.text, `/\`) {
			return fmt.Errorf("%s can't be a path, just a %s", directive, noun)
		}
		return nil
	}
}

// signalFlags refuses save together with nosave.
func signalFlags(v value, _ bool) error {
	const save, noSave = 1, 2
	if v.n&save != 0 && v.n&noSave != 0 {
		return errors.New("shutdown options SAVE and NOSAVE can't be used simultaneously")
	}
	return nil
}

func hostName(v value, _ bool) error {
	if len(v.text) >= 256 {
		return errors.New("Hostnames must be less than 256 characters")
	}
	for _, c := range []byte(v.text) {
		if !alphanumeric(c) && c != '-' && c != '.' {
			return errors.New("Hostnames may only contain alphanumeric characters, hyphens or dots")
		}
	}
	return nil
}

// nodeName refuses what would break the line of a node in CLUSTER NODES.
func nodeName(v value, _ bool) error {
	for _, c := range []byte(v.text) {
		if strings.IndexByte("!#$%&()*+:;<>?@[]^{|}~", c) >= 0 {
			return errors.New("Announced human node name contained invalid character")
		}
	}
	return nil
}

func alphanumeric(c byte) bool {
	return c-'0' < 10 || (c|32)-'a' < 26
}

// titleTemplate checks the variables of a process title, and that something is
// left of it when those that may be empty are. {{ stands for a brace.
func titleTemplate(v value, _ bool) error {
	bad := errors.New("template format is invalid or contains unknown variables")
	rest, shows := v.text, false
	for {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			if shows || strings.Trim(rest, " ") != "" {
				return nil
			}
			return bad
		}
		shows = shows || strings.Trim(rest[:open], " ") != ""
		rest = rest[open+1:]
		if strings.HasPrefix(rest, "{") {
			rest, shows = rest[1:], true
			continue
		}
		name, after, ok := strings.Cut(rest, "}")
		switch {
		case !ok:
			return bad
		case name == "listen-addr" || name == "port" || name == "tls-port":
			shows = true
		case name == "title" || name == "server-mode" || name == "unixsocket" || name == "config-file":
		default:
			return bad
		}
		rest = after
	}
}

// noDefrag lets activedefrag stand in a configuration file, where it may come
// from a Redis, but says to whoever switches it on that it cannot.
func noDefrag(v value, loading bool) error {
	if v.n == 1 && !loading {
		return errors.New("Active defragmentation cannot be enabled: Redoubt's memory does not need it")
	}
	return nil
}
