package lua

import (
	"unsafe"
)

// The allocations of a script are counted. When the count passes the limit, the
// live memory is measured, by a walk from the globals, the stacks and the
// running functions, and counting continues from there. Memory that only the
// host holds, such as its compiled chunks, is not counted.

// sharedString is the length from which on a string is counted once, however many values refer to
// it. A shorter string is counted with each value: to remember it would cost more than its bytes.
const sharedString = 64

const stringOverhead = 16

// SetLimit sets how many bytes a script may hold; 0 is no limit.
func (s *State) SetLimit(bytes int64) {
	s.limit = bytes
	s.restart()
}

// SetGrant sets a function that is called before a script may hold so many more bytes;
// nil removes it. The first firstGrant bytes need no call. An error of f ends the script
// like Abort.
func (s *State) SetGrant(f func(bytes int64) error) {
	s.grant = f
	s.restart()
}

const firstGrant = 64 << 10

// restart begins the count anew.
func (s *State) restart() {
	s.used, s.granted = 0, 0
	switch {
	case s.grant != nil:
		s.next = firstGrant
	case s.limit > 0:
		s.next = s.limit
	default:
		s.next = noBudget
	}
}

// Alloc counts n bytes that a library is about to allocate. The error, when it
// is more than the limit allows, ends the script and must be passed on.
func (s *State) Alloc(n int) error { return s.alloc(int64(n)) }

func (s *State) alloc(n int64) error {
	s.used += n
	if s.used <= s.next {
		return nil
	}
	return s.collect(n)
}

// allocString counts a string of n bytes.
func (s *State) allocString(n int) error { return s.alloc(int64(n) + stringOverhead) }

// collect measures the live memory, and requests a larger grant if that is needed. To do so for
// every few bytes near the limit would cost too much: the next measurement waits until an eighth
// of the limit was allocated, or a quarter of the grant.
func (s *State) collect(n int64) error {
	limit := s.limit
	if limit <= 0 {
		limit = noBudget
	}
	if n > limit {
		return ErrMemory
	}
	live := s.measure() + n
	s.used = live
	if live > limit {
		s.next = 0 // code that ignores the error gets it again
		return ErrMemory
	}
	if s.grant == nil {
		s.next = max(limit, live+limit/8)
		return nil
	}
	// Go's heap holds more than is counted.
	if want := live + live/2 + firstGrant; live > s.granted {
		if err := s.grant(want + want/4 - s.granted); err != nil {
			s.next = 0
			return Abort(err)
		}
		s.granted = want + want/4
	}
	s.next = max(s.granted*4/5, live+s.granted/4)
	return nil
}

// marker walks through the live objects of a state.
type marker struct {
	epoch   uint32
	total   int64
	gray    []Value
	strings map[unsafe.Pointer]uint64
	protos  map[*Proto]struct{}
}

func (s *State) measure() int64 {
	s.epoch++
	m := &marker{epoch: s.epoch, strings: make(map[unsafe.Pointer]uint64), protos: make(map[*Proto]struct{})}
	m.table(s.globals)
	m.table(s.strings)
	m.thread(s.main)
	m.thread(s.cur)
	for _, c := range s.calls[:s.ncall] {
		m.thread(c.th)
		m.values(c.args)
		m.values(c.rets)
		m.total += c.held
	}
	for len(m.gray) > 0 {
		v := m.gray[len(m.gray)-1]
		m.gray = m.gray[:len(m.gray)-1]
		m.expand(v)
	}
	return m.total
}

func (m *marker) values(vs []Value) {
	for i := range vs {
		m.value(vs[i])
	}
}

// value counts a value and the object that it refers to; closures are queued.
func (m *marker) value(v Value) {
	if v.p == nil || v.isNumber() {
		return
	}
	switch Kind(v.n) {
	case KindString:
		n := v.n >> 8
		if n >= sharedString {
			if seen, ok := m.strings[v.p]; ok && seen >= n {
				return
			}
			m.strings[v.p] = n
		}
		m.total += int64(n) + stringOverhead
	case KindTable:
		m.table(v.table())
	case KindFunction:
		if f := v.fn(); f.proto == nil {
			m.value(f.held)
		} else if f.mark != m.epoch {
			f.mark = m.epoch
			m.gray = append(m.gray, v)
		}
	case KindThread:
		m.thread(v.thread())
	case KindUserdata:
		if u := v.userdata(); u.mark != m.epoch {
			u.mark = m.epoch
			m.total += 32
			m.table(u.meta)
		}
	}
}

func (m *marker) table(t *Table) {
	if t != nil && t.mark != m.epoch {
		t.mark = m.epoch
		m.gray = append(m.gray, t.Value())
	}
}

func (m *marker) thread(th *thread) {
	if th != nil && th.mark != m.epoch {
		th.mark = m.epoch
		m.gray = append(m.gray, th.value())
	}
}

func (m *marker) expand(v Value) {
	switch Kind(v.n) {
	case KindTable:
		t := v.table()
		m.total += tableSize + int64(len(t.arr))*valueSize + int64(len(t.nodes))*nodeSize
		m.table(t.meta)
		m.values(t.arr)
		for i := range t.nodes {
			if n := &t.nodes[i]; !n.val.IsNil() {
				m.value(n.key)
				m.value(n.val)
			}
		}
	case KindFunction:
		m.function(v.fn())
	case KindThread:
		th := v.thread()
		m.total += threadBytes + int64(len(th.stack))*valueSize
		end := th.freeSlot()
		m.values(th.stack[:min(max(end, th.top), len(th.stack))])
		m.values(th.yielded)
		for fr := &th.first; fr != th.frame; {
			fr = fr.next
			m.total += frameBytes
			if fr.fn != nil && fr.fn.proto != nil {
				m.value(functionValue(fr.fn))
			}
		}
	}
}

func (m *marker) function(f *function) {
	m.total += closureBytes(f.proto)
	if _, ok := m.protos[f.proto]; !ok {
		m.protos[f.proto] = struct{}{}
		if f.proto.counted {
			m.total += f.proto.size
		}
	}
	m.table(f.env)
	for _, u := range f.upvals {
		if u != nil && u.mark != m.epoch {
			u.mark = m.epoch
			m.value(*u.v)
		}
	}
}

// closureBytes is the memory of a closure.
func closureBytes(p *Proto) int64 {
	return int64(unsafe.Sizeof(function{})) + int64(len(p.upvals))*(8+int64(unsafe.Sizeof(upvalue{})))
}

// measure adds up the memory of a compiled function.
func (p *Proto) measure() {
	p.size = int64(unsafe.Sizeof(*p)) + int64(len(p.code))*12 + int64(len(p.consts))*20 +
		int64(len(p.locals))*32 + int64(len(p.upvals))*24
	for _, v := range p.consts {
		if v.isString() {
			p.size += int64(v.n >> 8)
		}
	}
	for _, c := range p.protos {
		p.size += c.size
	}
}
