package differential

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// streamID is an ID of an entry.
type streamID struct{ ms, seq uint64 }

func (i streamID) less(j streamID) bool { return i.ms < j.ms || i.ms == j.ms && i.seq < j.seq }
func (i streamID) String() string       { return fmt.Sprintf("%d-%d", i.ms, i.seq) }
func (i streamID) next() streamID {
	if i.seq++; i.seq == 0 {
		i.ms++
	}
	return i
}

// A stream is a list of nodes, as Redis trims whole ones. It is never changed, so
// that a key and its copy may share one.
type streamValue struct {
	nodes        []streamNode
	last, maxDel streamID
	added        int64
	groups       map[string]*streamGroup
}

type streamNode struct {
	entries []streamEntry
	bytes   int // of a listpack, without its counts of entries
}

type streamEntry struct {
	id      streamID
	pairs   []string
	deleted bool
}

type streamGroup struct {
	last      streamID
	read      int64 // -1: not known
	consumers map[string]bool
	pending   map[streamID]streamPending
}

type streamPending struct {
	who   string
	count int64
}

func (s *streamValue) kind() string          { return "stream" }
func (s *streamValue) encoding() string      { return "stream" }
func (s *streamValue) at(_ int64) collection { return s }

func (s *streamValue) clone() *streamValue {
	c := *s
	c.nodes = nil
	for _, n := range s.nodes {
		c.nodes = append(c.nodes, streamNode{slices.Clone(n.entries), n.bytes})
	}
	c.groups = map[string]*streamGroup{}
	for name, g := range s.groups {
		c.groups[name] = &streamGroup{g.last, g.read, maps.Clone(g.consumers), maps.Clone(g.pending)}
	}
	return &c
}

func (s *streamValue) live() (out []streamEntry) {
	for _, n := range s.nodes {
		out = append(out, n.live()...)
	}
	return out
}

func (n *streamNode) live() (out []streamEntry) {
	for _, e := range n.entries {
		if !e.deleted {
			out = append(out, e)
		}
	}
	return out
}

func (s *streamValue) first() streamID {
	if l := s.live(); len(l) > 0 {
		return l[0].id
	}
	return streamID{}
}

func (s *streamValue) find(id streamID) (streamEntry, bool) {
	l := s.live()
	i := slices.IndexFunc(l, func(e streamEntry) bool { return e.id == id })
	if i < 0 {
		return streamEntry{}, false
	}
	return l[i], true
}

// packed is how many bytes strings take in a listpack.
func packed(list ...string) (sum int) {
	for _, s := range list {
		n := len(s)
		if v, ok := integer(s); ok {
			switch {
			case v >= 0 && v < 128:
				n = 1
			case v >= -4096 && v < 4096:
				n = 2
			case v >= -1<<15 && v < 1<<15:
				n = 3
			case v >= -1<<23 && v < 1<<23:
				n = 4
			case v >= -1<<31 && v < 1<<31:
				n = 5
			default:
				n = 9
			}
		} else if n < 64 {
			n++
		} else if n < 4096 {
			n += 2
		} else {
			n += 5
		}
		switch {
		case n < 128:
			sum += n + 1
		case n < 16383:
			sum += n + 2
		default:
			sum += n + 3
		}
	}
	return sum
}

func everyOther(list []string, from int) (out []string) {
	for i := from; i < len(list); i += 2 {
		out = append(out, list[i])
	}
	return out
}

func (s *streamValue) add(id streamID, pairs []string) {
	fields, values := everyOther(pairs, 0), everyOther(pairs, 1)
	if n := len(s.nodes); n > 0 {
		t := &s.nodes[n-1]
		live := len(t.live())
		bytes := t.bytes + packed(strconv.Itoa(live), strconv.Itoa(len(t.entries)-live))
		if bytes+len(strings.Join(pairs, "")) >= 4096 || len(t.entries) >= 100 {
			s.nodes = append(s.nodes, streamNode{})
		}
	} else {
		s.nodes = append(s.nodes, streamNode{})
	}
	t := &s.nodes[len(s.nodes)-1]
	count := strconv.Itoa(len(fields))
	if len(t.entries) == 0 {
		t.bytes = 7 + packed(fields...) + packed(count, "0")
		t.entries = append(t.entries, streamEntry{id: id, pairs: pairs})
	} else {
		t.entries = append(t.entries, streamEntry{id: id, pairs: pairs})
	}
	master := t.entries[0]
	pieces := 3 + len(fields)
	if !slices.Equal(everyOther(master.pairs, 0), fields) {
		t.bytes += packed(count) + packed(fields...)
		pieces += 1 + len(fields)
	}
	delta := []string{"0", strconv.FormatInt(int64(id.ms-master.id.ms), 10), strconv.FormatInt(int64(id.seq-master.id.seq), 10), strconv.Itoa(pieces)}
	t.bytes += packed(values...) + packed(delta...)
	s.last = id
	s.added++
}

func (s *streamValue) remove(id streamID) bool {
	for i := range s.nodes {
		n := &s.nodes[i]
		for j := range n.entries {
			if e := &n.entries[j]; e.id == id && !e.deleted {
				e.deleted = true
				if s.maxDel.less(id) {
					s.maxDel = id
				}
				if len(n.live()) == 0 {
					s.nodes = slices.Delete(s.nodes, i, i+1)
				}
				return true
			}
		}
	}
	return false
}

// streamTrim are the options of trimming.
type streamTrim struct {
	byID, approx  bool
	min           streamID
	maxlen, limit int64
}

func (s *streamValue) trim(t streamTrim) (removed int64) {
	for len(s.nodes) > 0 {
		n := &s.nodes[0]
		length, live := int64(len(s.live())), int64(len(n.live()))
		if !t.byID && length <= t.maxlen || t.limit > 0 && removed+live > t.limit {
			break
		}
		whole := length-live >= t.maxlen
		if t.byID {
			whole = n.entries[len(n.entries)-1].id.less(t.min)
		}
		if whole {
			removed += live
			s.nodes = s.nodes[1:]
			continue
		}
		for j := range n.entries {
			e := &n.entries[j]
			if t.approx || t.byID && !e.id.less(t.min) || !t.byID && length <= t.maxlen {
				break
			}
			if !e.deleted {
				e.deleted = true
				length--
				removed++
			}
		}
		break
	}
	return removed
}

// counted is how many entries were ever added up to an ID, -1 if unknown.
func (s *streamValue) counted(id streamID) int64 {
	length := int64(len(s.live()))
	switch {
	case s.added == 0:
		return 0
	case id == s.last || length == 0 && id.less(s.last):
		return s.added
	case s.last.less(id):
		return -1
	}
	if s.maxDel == (streamID{}) || s.maxDel.less(s.first()) {
		if id.less(s.first()) {
			return s.added - length
		} else if id == s.first() {
			return s.added - length + 1
		}
	}
	return -1
}

func (s *streamValue) holes(from streamID) bool {
	return len(s.live()) > 0 && s.maxDel != streamID{} && !s.maxDel.less(s.first()) && !s.maxDel.less(from)
}

func (s *streamValue) lag(g *streamGroup) int64 {
	if s.added == 0 {
		return 0
	}
	if g.read != -1 && !s.holes(g.last) {
		return s.added - g.read
	}
	if n := s.counted(g.last); n != -1 {
		return s.added - n
	}
	return -1
}

func (g *streamGroup) of(who string, all bool) (ids []streamID) {
	for id, p := range g.pending {
		if all || p.who == who {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b streamID) int {
		if a.less(b) {
			return -1
		}
		return 1
	})
	return ids
}

// streamAt finds a stream, as a copy that may be changed, nil if there is none.
func (m *model) streamAt(key string) (*streamValue, string) {
	e, ok := m.get(key)
	if !ok {
		return nil, ""
	}
	s, ok := e.coll.(*streamValue)
	if !ok {
		return nil, fail(wrongType)
	}
	return s.clone(), ""
}

func (m *model) putStream(key string, s *streamValue) {
	e, _ := m.get(key)
	m.put(key, entry{coll: s, exp: e.exp})
}

// readID reads an ID of the forms that the generator makes.
func readID(s string, missing uint64) (streamID, bool) {
	ms, seq, both := strings.Cut(s, "-")
	a, err := strconv.ParseUint(ms, 10, 64)
	if err != nil {
		return streamID{}, false
	}
	if !both {
		return streamID{a, missing}, true
	}
	b, err := strconv.ParseUint(seq, 10, 64)
	return streamID{a, b}, err == nil
}

// readEnd reads an end of a range.
func readEnd(s string, missing uint64) (streamID, bool) {
	switch {
	case s == "-":
		return streamID{}, true
	case s == "+":
		return streamID{1<<64 - 1, 1<<64 - 1}, true
	case strings.HasPrefix(s, "(") && missing == 0:
		id, ok := readID(s[1:], missing)
		return id.next(), ok
	case strings.HasPrefix(s, "("): // not of 0-0, which the generator does not make
		id, ok := readID(s[1:], missing)
		if id.seq--; id.seq == 1<<64-1 {
			id.ms--
		}
		return id, ok
	}
	return readID(s, missing)
}

const badStreamID = "ERR Invalid stream ID specified as stream command argument"

func entryReply(e streamEntry) string {
	var items []string
	for _, p := range e.pairs {
		items = append(items, bulk(p))
	}
	return array(bulk(e.id.String()), array(items...))
}

// mapReply is a map in the protocol of the connection; pairs are its keys and
// values.
func (m *model) mapReply(pairs ...string) string {
	if m.proto == 3 {
		return fmt.Sprintf("%%%d\r\n%s", len(pairs)/2, strings.Join(pairs, ""))
	}
	return array(pairs...)
}

func (m *model) orNull(n int64) string {
	if n == -1 {
		return m.null()
	}
	return num(n)
}

var (
	idleTime  = regexp.MustCompile(`(\*4\r\n\$\d+\r\n\d+-\d+\r\n\$\d+\r\n\w*\r\n):\d+`)
	treeNodes = regexp.MustCompile(`(radix-tree-nodes\r\n):\d+`)
)

// tidyStream takes out times, and the size of a tree that only Redis has.
func tidyStream(reply string) string {
	return treeNodes.ReplaceAllString(idleTime.ReplaceAllString(reply, "$1:0"), "$1:0")
}
