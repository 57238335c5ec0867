package differential

import (
	"slices"
	"strings"
)

var streamHandlers = map[string]handler{
	"xadd": {-5, (*model).xadd}, "xlen": {2, (*model).xlen}, "xrange": {-4, (*model).xrange}, "xrevrange": {-4, (*model).xrange},
	"xdel": {-3, (*model).xdel}, "xtrim": {-4, (*model).xtrim}, "xsetid": {-3, (*model).xsetid}, "xread": {-4, (*model).xread},
	"xgroup": {-2, (*model).xgroup}, "xreadgroup": {-7, (*model).xreadgroup}, "xack": {-4, (*model).xack},
	"xpending": {-3, (*model).xpending}, "xclaim": {-6, (*model).xclaim}, "xautoclaim": {-6, (*model).xautoclaim},
	"xinfo": {-2, (*model).xinfo},
}

// readTrim reads options of trimming, of which there is one at the most.
func readTrim(a []string) (t *streamTrim, rest []string, err string) {
	if len(a) == 0 || !strings.EqualFold(a[0], "maxlen") && !strings.EqualFold(a[0], "minid") {
		return nil, a, ""
	}
	t = &streamTrim{byID: strings.EqualFold(a[0], "minid")}
	if a = a[1:]; a[0] == "~" || a[0] == "=" {
		t.approx = a[0] == "~"
		a = a[1:]
	}
	ok := false
	if t.byID {
		if t.min, ok = readID(a[0], 0); !ok {
			return nil, nil, fail(badStreamID)
		}
	} else if t.maxlen, ok = integer(a[0]); !ok {
		return nil, nil, fail(notInt)
	} else if t.maxlen < 0 {
		return nil, nil, fail("ERR The MAXLEN argument must be >= 0.")
	}
	if t.approx {
		t.limit = 10_000
	}
	if a = a[1:]; len(a) > 0 && strings.EqualFold(a[0], "limit") {
		if t.limit, ok = integer(a[1]); !ok {
			return nil, nil, fail(notInt)
		}
		a = a[2:]
	}
	return t, a, ""
}

func (m *model) xadd(_ string, a []string) string {
	key, noMake := a[0], strings.EqualFold(a[1], "nomkstream")
	if a = a[1:]; noMake {
		a = a[1:]
	}
	t, a, err := readTrim(a)
	if err != "" {
		return err
	}
	ms, open := strings.CutSuffix(a[0], "-*")
	id, ok := readID(ms, 0)
	switch {
	case !ok:
		return fail(badStreamID)
	case id == streamID{} && !open:
		return fail("ERR The ID specified in XADD must be greater than 0-0")
	}
	s, err := m.streamAt(key)
	if err != "" {
		return err
	}
	if s == nil {
		if noMake {
			return m.null()
		}
		s = &streamValue{}
	}
	if open && id.ms == s.last.ms {
		id = s.last.next()
	}
	if !s.last.less(id) {
		return fail("ERR The ID specified in XADD is equal or smaller than the target stream top item")
	}
	s.add(id, a[1:])
	if t != nil {
		s.trim(*t)
	}
	m.putStream(key, s)
	return bulk(id.String())
}

func (m *model) xlen(_ string, a []string) string {
	s, err := m.streamAt(a[0])
	if s == nil {
		return orZero(err)
	}
	return num(int64(len(s.live())))
}

func (m *model) xrange(name string, a []string) string {
	from, to := a[1], a[2]
	if name == "xrevrange" {
		from, to = to, from
	}
	lo, ok := readEnd(from, 0)
	hi, ok2 := readEnd(to, 1<<64-1)
	if !ok || !ok2 {
		return fail(badStreamID)
	}
	count := int64(-1)
	if len(a) > 3 {
		n, ok := integer(a[4])
		if !ok {
			return fail(notInt)
		}
		count = max(n, 0)
	}
	s, err := m.streamAt(a[0])
	switch {
	case err != "":
		return err
	case s == nil:
		return array()
	case count == 0:
		return m.nullArray()
	}
	var out []string
	for _, e := range s.live() {
		if !e.id.less(lo) && !hi.less(e.id) {
			out = append(out, entryReply(e))
		}
	}
	if name == "xrevrange" {
		slices.Reverse(out)
	}
	if count > 0 && count < int64(len(out)) {
		out = out[:count]
	}
	return array(out...)
}

// readIDs reads IDs; it says false if one is none.
func readIDs(a []string) (ids []streamID, ok bool) {
	for _, s := range a {
		id, ok := readID(s, 0)
		if !ok {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

func (m *model) xdel(_ string, a []string) string {
	s, err := m.streamAt(a[0])
	if s == nil {
		return orZero(err)
	}
	ids, ok := readIDs(a[1:])
	if !ok {
		return fail(badStreamID)
	}
	n := int64(0)
	for _, id := range ids {
		if s.remove(id) {
			n++
		}
	}
	m.putStream(a[0], s)
	return num(n)
}

func (m *model) xtrim(_ string, a []string) string {
	t, _, err := readTrim(a[1:])
	if err != "" {
		return err
	}
	s, err := m.streamAt(a[0])
	if s == nil {
		return orZero(err)
	}
	n := s.trim(*t)
	m.putStream(a[0], s)
	return num(n)
}

func (m *model) xsetid(_ string, a []string) string {
	id, ok := readID(a[1], 0)
	if !ok {
		return fail(badStreamID)
	}
	s, err := m.streamAt(a[0])
	switch {
	case err != "":
		return err
	case s == nil:
		return fail("ERR no such key")
	case id.less(s.maxDel):
		return fail("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
	}
	if l := s.live(); len(l) > 0 && id.less(l[len(l)-1].id) {
		return fail("ERR The ID specified in XSETID is smaller than the target stream top item")
	}
	s.last = id
	m.putStream(a[0], s)
	return okReply
}

// after is what a stream has behind an ID, up to a number, 0 for all.
func (s *streamValue) after(id streamID, count int64) (out []streamEntry) {
	for _, e := range s.live() {
		if id.less(e.id) && (count == 0 || int64(len(out)) < count) {
			out = append(out, e)
		}
	}
	return out
}

func (m *model) readReply(keys []string, lists []string) string {
	if len(keys) == 0 {
		return m.nullArray()
	}
	var out []string
	for i, k := range keys {
		if m.proto == 3 {
			out = append(out, bulk(k), lists[i])
		} else {
			out = append(out, array(bulk(k), lists[i]))
		}
	}
	if m.proto == 3 {
		return m.mapReply(out...)
	}
	return array(out...)
}

// xread knows COUNT count STREAMS key... id...
func (m *model) xread(_ string, a []string) string {
	count, ok := integer(a[1])
	if !ok {
		return fail(notInt)
	}
	a = a[3:]
	n := len(a) / 2
	var streams []*streamValue
	var ids []streamID
	for i := range n {
		s, err := m.streamAt(a[i])
		if err != "" {
			return err
		}
		id, ok := readID(a[n+i], 0)
		if a[n+i] == "$" {
			if ok = true; s != nil {
				id = s.last
			}
		}
		if !ok {
			return fail(badStreamID)
		}
		streams, ids = append(streams, s), append(ids, id)
	}
	var keys, lists []string
	for i, s := range streams {
		if s == nil {
			continue
		}
		var out []string
		for _, e := range s.after(ids[i], max(count, 0)) {
			out = append(out, entryReply(e))
		}
		if len(out) > 0 {
			keys, lists = append(keys, a[i]), append(lists, array(out...))
		}
	}
	return m.readReply(keys, lists)
}

// xreadgroup knows GROUP group consumer COUNT count [NOACK] STREAMS key id
func (m *model) xreadgroup(_ string, a []string) string {
	name, who := a[1], a[2]
	count, ok := integer(a[4])
	if !ok {
		return fail(notInt)
	}
	count = max(count, 0)
	a = a[5:]
	noAck := strings.EqualFold(a[0], "noack")
	if noAck {
		a = a[1:]
	}
	key, id := a[1], a[2]
	s, err := m.streamAt(key)
	if err != "" {
		return err
	}
	if s == nil || s.groups[name] == nil {
		return fail("NOGROUP No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option", cutZero(key), name)
	}
	g := s.groups[name]
	from, ok := readID(id, 0)
	if id != ">" && !ok {
		return fail(badStreamID)
	}
	g.consumers[who] = true
	var out []string
	if id != ">" {
		for _, id := range g.of(who, false) {
			if !from.less(id) || count > 0 && int64(len(out)) == count {
				continue
			}
			p := g.pending[id]
			e, found := s.find(id)
			if !found {
				out = append(out, array(bulk(id.String()), m.nullArray()))
				continue
			}
			p.count++
			g.pending[id] = p
			out = append(out, entryReply(e))
		}
		m.putStream(key, s)
		return m.readReply([]string{key}, []string{array(out...)})
	}
	for _, e := range s.after(g.last, count) {
		if g.read != -1 && !s.holes(e.id) {
			g.read++
		} else if s.added > 0 {
			g.read = s.counted(e.id)
		}
		g.last = e.id
		if !noAck {
			g.pending[e.id] = streamPending{who, 1}
		}
		out = append(out, entryReply(e))
	}
	m.putStream(key, s)
	if len(out) == 0 {
		return m.nullArray()
	}
	return m.readReply([]string{key}, []string{array(out...)})
}

// cutZero cuts at a zero byte, where Redis takes a C string.
func cutZero(s string) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

func (m *model) xgroup(_ string, a []string) string {
	sub, key, name := strings.ToLower(a[0]), a[1], a[2]
	make := sub == "create" && len(a) > 4
	s, err := m.streamAt(key)
	switch {
	case err != "":
		return err
	case s == nil && !make:
		return fail("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.")
	case s == nil:
		s = &streamValue{groups: map[string]*streamGroup{}}
	}
	g := s.groups[name]
	if g == nil && sub != "create" && sub != "destroy" {
		return fail("NOGROUP No such consumer group '%s' for key name '%s'", name, cutZero(key))
	}
	reply := okReply
	switch sub {
	case "create", "setid":
		id, ok := readID(a[3], 0)
		switch {
		case a[3] == "$":
			id = s.last
		case !ok:
			return fail(badStreamID)
		}
		if sub == "setid" {
			g.last, g.read = id, -1
			break
		}
		if g != nil {
			return fail("BUSYGROUP Consumer Group name already exists")
		}
		s.groups[name] = &streamGroup{id, -1, map[string]bool{}, map[streamID]streamPending{}}
	case "destroy":
		reply = num(0)
		if g != nil {
			reply = num(1)
		}
		delete(s.groups, name)
	case "createconsumer":
		reply = num(1)
		if g.consumers[a[3]] {
			reply = num(0)
		}
		g.consumers[a[3]] = true
	case "delconsumer":
		ids := g.of(a[3], false)
		for _, id := range ids {
			delete(g.pending, id)
		}
		delete(g.consumers, a[3])
		reply = num(int64(len(ids)))
	}
	m.putStream(key, s)
	return reply
}

func (m *model) xack(_ string, a []string) string {
	s, err := m.streamAt(a[0])
	if s == nil || s.groups[a[1]] == nil {
		return orZero(err)
	}
	ids, ok := readIDs(a[2:])
	if !ok {
		return fail(badStreamID)
	}
	n := int64(0)
	for _, id := range ids {
		if _, ok := s.groups[a[1]].pending[id]; ok {
			n++
		}
		delete(s.groups[a[1]].pending, id)
	}
	m.putStream(a[0], s)
	return num(n)
}

// groupOf finds a group, or says that there is none.
func (m *model) groupOf(a []string) (*streamValue, *streamGroup, string) {
	s, err := m.streamAt(a[0])
	switch {
	case err != "":
		return nil, nil, err
	case s == nil || s.groups[a[1]] == nil:
		return nil, nil, fail("NOGROUP No such key '%s' or consumer group '%s'", cutZero(a[0]), a[1])
	}
	return s, s.groups[a[1]], ""
}

// xpending knows key group [start end count [consumer]]
func (m *model) xpending(_ string, a []string) string {
	var lo, hi streamID
	count := int64(0)
	if len(a) > 2 {
		n, ok := integer(a[4])
		if !ok {
			return fail(notInt)
		}
		var ok2 bool
		lo, ok = readEnd(a[2], 0)
		hi, ok2 = readEnd(a[3], 1<<64-1)
		if count = max(n, 0); !ok || !ok2 {
			return fail(badStreamID)
		}
	}
	_, g, err := m.groupOf(a)
	if err != "" {
		return err
	}
	ids := g.of("", true)
	if len(a) == 2 {
		if len(ids) == 0 {
			return array(num(0), m.null(), m.null(), m.nullArray())
		}
		var list []string
		for _, who := range sortedNames(g.consumers) {
			if n := len(g.of(who, false)); n > 0 {
				list = append(list, array(bulk(who), bulk(num(int64(n))[1:len(num(int64(n)))-2])))
			}
		}
		return array(num(int64(len(ids))), bulk(ids[0].String()), bulk(ids[len(ids)-1].String()), array(list...))
	}
	if len(a) > 5 {
		ids = g.of(a[5], false)
	}
	var out []string
	for _, id := range ids {
		if p := g.pending[id]; !id.less(lo) && !hi.less(id) && int64(len(out)) < count {
			out = append(out, array(bulk(id.String()), bulk(p.who), num(0), num(p.count)))
		}
	}
	return array(out...)
}

func sortedNames(set map[string]bool) (names []string) {
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// longIdle is a time for which nothing was idle; any other means 0.
const longIdle = "100000000000"

// xclaim knows key group consumer idle id... [FORCE] [JUSTID]
func (m *model) xclaim(_ string, a []string) string {
	s, g, err := m.groupOf(a)
	if err != "" {
		return err
	}
	var out []string
	force, just := false, false
	var ids []streamID
	for _, arg := range a[4:] {
		id, ok := readID(arg, 0)
		switch {
		case ok:
			ids = append(ids, id)
		case strings.EqualFold(arg, "force"):
			force = true
		case strings.EqualFold(arg, "justid"):
			just = true
		default:
			return fail("ERR Unrecognized XCLAIM option '%s'", arg)
		}
	}
	g.consumers[a[2]] = true
	for _, id := range ids {
		p, pending := g.pending[id]
		e, found := s.find(id)
		switch {
		case !found:
			delete(g.pending, id)
			continue
		case !pending && !force, pending && a[3] == longIdle:
			continue
		case !pending:
			p.count = 1
		}
		if p.who = a[2]; !just {
			p.count++
		}
		g.pending[id] = p
		if just {
			out = append(out, bulk(id.String()))
		} else {
			out = append(out, entryReply(e))
		}
	}
	m.putStream(a[0], s)
	return array(out...)
}

// xautoclaim knows key group consumer idle start COUNT count
func (m *model) xautoclaim(_ string, a []string) string {
	from, ok := readEnd(a[4], 0)
	if !ok {
		return fail(badStreamID)
	}
	count, ok := integer(a[6])
	if !ok || count < 1 || count > maxInt64/16 {
		return fail("ERR COUNT must be > 0")
	}
	s, g, err := m.groupOf(a)
	if err != "" {
		return err
	}
	g.consumers[a[2]] = true
	var out, gone []string
	next, tries := streamID{}, 10*count
	for _, id := range g.of("", true) {
		if id.less(from) {
			continue
		}
		if tries == 0 || count == 0 {
			next = id
			break
		}
		tries--
		p := g.pending[id]
		e, found := s.find(id)
		if !found {
			delete(g.pending, id)
			gone = append(gone, bulk(id.String()))
			count--
		} else if a[3] != longIdle {
			p.who = a[2]
			p.count++
			g.pending[id] = p
			out = append(out, entryReply(e))
			count--
		}
	}
	m.putStream(a[0], s)
	return array(bulk(next.String()), array(out...), array(gone...))
}

func (m *model) xinfo(_ string, a []string) string {
	s, err := m.streamAt(a[1])
	switch {
	case err != "":
		return err
	case s == nil:
		return fail("ERR no such key")
	case strings.EqualFold(a[0], "groups"):
		names := map[string]bool{}
		for n := range s.groups {
			names[n] = true
		}
		var out []string
		for _, n := range sortedNames(names) {
			g := s.groups[n]
			out = append(out, m.mapReply(bulk("name"), bulk(n), bulk("consumers"), num(int64(len(g.consumers))), bulk("pending"), num(int64(len(g.pending))),
				bulk("last-delivered-id"), bulk(g.last.String()), bulk("entries-read"), m.orNull(g.read), bulk("lag"), m.orNull(s.lag(g))))
		}
		return array(out...)
	}
	live := s.live()
	first, last := m.null(), m.null()
	if len(live) > 0 {
		first, last = entryReply(live[0]), entryReply(live[len(live)-1])
	}
	return m.mapReply(bulk("length"), num(int64(len(live))), bulk("radix-tree-keys"), num(int64(len(s.nodes))), bulk("radix-tree-nodes"), num(0),
		bulk("last-generated-id"), bulk(s.last.String()), bulk("max-deleted-entry-id"), bulk(s.maxDel.String()), bulk("entries-added"), num(s.added),
		bulk("recorded-first-entry-id"), bulk(s.first().String()), bulk("groups"), num(int64(len(s.groups))), bulk("first-entry"), first, bulk("last-entry"), last)
}
