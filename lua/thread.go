package lua

import "unsafe"

const (
	window      = 256       // registers that an instruction can name
	maxFrames   = 16383     // calls of Lua functions within each other
	maxGoDepth  = 199       // Lua calling Go calling Lua and so on
	minStack    = 64        // slots of a new thread, beside a window
	frameBytes  = 96        // what a frame counts
	keepFrames  = 64        // frames that Reset keeps
	keepStack   = 16 * 1024 // slots that Reset keeps
	threadBytes = int64(unsafe.Sizeof(thread{})) + (minStack+window)*int64(unsafe.Sizeof(Value{}))
)

// thread is a coroutine, or the main program: a stack and a list of calls.
//
// A call has its function at stack[fn], then its arguments, then its
// registers; results replace the function. Behind the registers of the running
// function there is always room for a whole window, so that the VM can view
// them as an array of 256, whose index needs no check.
type thread struct {
	st    *State
	stack []Value
	top   int    // behind the last value of an open list of results
	frame *frame // the running call
	first frame  // below all calls
	depth int    // calls
	open  *upvalue
	high  int // no slot from here on was ever used

	id        uint32
	mark      uint32
	status    status
	goDepth   int     // of State.depth when it was resumed
	yielded   []Value // what yield passes to resume
	yieldAt   int     // where the results of yield go
	yieldWant int
	env       *Table
}

type frame struct {
	fn         *function
	code       int // pc: the next instruction
	base       int // the first register
	slot       int // of the function: where results go
	want       int // results wanted, or multi
	varargs    int
	tails      int // calls that this one replaced
	fresh      bool
	prev, next *frame
}

type status uint8

const (
	suspended status = iota // not started, or in a yield
	running
	normal // it has resumed another coroutine
	dead
)

func (v Value) thread() *thread    { return (*thread)(v.p) }
func (th *thread) value() Value    { return Value{unsafe.Pointer(th), uint64(KindThread)} }
func (fr *frame) isLua() bool      { return fr.fn != nil && fr.fn.proto != nil }
func (th *thread) isMain() bool    { return th == th.st.main }
func (fr *frame) currentLine() int { return int(fr.fn.proto.lines[fr.pc()]) }
func (fr *frame) pc() int          { return max(fr.code-1, 0) }
func (th *thread) globals() *Table { return th.env }

func (s *State) newThread() *thread {
	s.ids++
	th := &thread{st: s, id: s.ids, env: s.globals}
	th.stack = make([]Value, minStack+window)
	th.frame = &th.first
	return th
}

// clear resets a thread to the state of a new one.
func (th *thread) clear() {
	th.closeUpvalues(0)
	if len(th.stack) > keepStack {
		th.stack = make([]Value, minStack+window)
	} else {
		clear(th.stack[:min(th.high, len(th.stack))])
	}
	th.high, th.top = 0, 0
	th.frame, th.depth = &th.first, 0
	n := 0
	for fr := th.first.next; fr != nil && fr.fn != nil; fr = fr.next { // those behind were not used
		fr.fn = nil
		if n++; n == keepFrames {
			fr.next = nil
		}
	}
	th.yielded = nil
	th.status = suspended
	th.env = th.st.globals // setfenv(0) lasts as long as the script
}

// need grows the stack to have n slots and a window behind at.
func (th *thread) need(at, n int) error {
	end := at + n
	if end > th.high {
		th.high = end
	}
	if end+window <= len(th.stack) {
		return nil
	}
	return th.growStack(end + window)
}

func (th *thread) growStack(n int) error {
	n = max(n, 2*len(th.stack))
	if err := th.st.alloc(int64(n-len(th.stack)) * valueSize); err != nil {
		return err
	}
	stack := make([]Value, n)
	copy(stack, th.stack)
	th.stack = stack
	for u := th.open; u != nil; u = u.next {
		u.v = &stack[u.index]
	}
	return nil
}

// push begins a call.
func (th *thread) push(fn *function, slot, base, want int) (*frame, error) {
	fr := th.frame.next
	if fr == nil {
		if err := th.st.alloc(frameBytes); err != nil {
			return nil, err
		}
		fr = &frame{prev: th.frame}
		th.frame.next = fr
	}
	if th.depth >= maxFrames {
		if th.depth > maxFrames+200 {
			return nil, &Error{Value: String("error in error handling")}
		}
		th.depth += 200 // room for the error's handler
		err := th.runtimeError("stack overflow")
		th.depth -= 200
		return nil, err
	}
	th.depth++
	fr.fn, fr.code, fr.base, fr.slot, fr.want = fn, 0, base, slot, want
	fr.varargs, fr.tails, fr.fresh = 0, 0, false
	th.frame = fr
	return fr, nil
}

func (th *thread) pop() {
	th.frame = th.frame.prev
	th.depth--
}

// capture returns the upvalue of a slot.
func (th *thread) capture(index int) *upvalue {
	at := &th.open
	for *at != nil && (*at).index > index {
		at = &(*at).next
	}
	if *at != nil && (*at).index == index {
		return *at
	}
	u := &upvalue{v: &th.stack[index], index: index, next: *at}
	*at = u
	return u
}

// closeUpvalues moves the values of open upvalues from slot index on into the upvalues.
func (th *thread) closeUpvalues(index int) {
	for u := th.open; u != nil && u.index >= index; u = th.open {
		th.open = u.next
		u.next = nil
		u.closed = *u.v
		u.v = &u.closed
	}
}

// Positions.

// level returns the call that is n calls up: 0 is the running one. lost reports that the
// call was replaced by a tail call.
func (th *thread) level(n int) (fr *frame, lost bool) {
	fr = th.frame
	for n > 0 && fr != &th.first {
		n--
		if fr.isLua() {
			n -= fr.tails
		}
		fr = fr.prev
	}
	if n < 0 {
		return nil, true
	}
	if fr == &th.first {
		return nil, false
	}
	return fr, false
}

func (th *thread) where(level int) (chunk string, line int) {
	fr, _ := th.level(level)
	if fr == nil || !fr.isLua() {
		return "", 0
	}
	return fr.fn.proto.chunk, fr.currentLine()
}

// Where returns the chunk and line of the innermost Lua function that runs. The chunk is
// "" when none does. A hook of the budget may call it.
func (s *State) Where() (chunk string, line int) {
	for fr := s.cur.frame; fr != nil && fr != &s.cur.first; fr = fr.prev {
		if fr.isLua() {
			return fr.fn.proto.chunk, fr.currentLine()
		}
	}
	return "", 0
}

// errorAt makes an error that begins with the place of a level.
func (th *thread) errorAt(level int, msg string) *Error {
	chunk, line := th.where(level)
	if chunk != "" || line > 0 {
		msg = place(chunk, line) + msg
	} else if level == 0 {
		chunk, line = th.where(1) // a Go function raised it for its caller
	}
	th.st.used += int64(len(msg)) // the next allocation notices
	return &Error{Value: String(msg), Chunk: chunk, Line: line}
}

// runtimeError makes an error of the VM itself.
func (th *thread) runtimeError(msg string) *Error { return th.errorAt(0, msg) }
