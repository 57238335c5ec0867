package output

import (
	"strconv"
	"sync"

	"redoubt/budget"
)

// Encoder encodes messages: in RESP2 each is an array, in RESP3 a push, which differ in the
// first byte.
type Encoder struct {
	resp2, resp3 []byte
	heads        []int       // where messages of Add begin whose RESP3 form is not made yet
	shared       [2]*message // both forms as shared messages, until Sent
}

var encoders = sync.Pool{New: func() any { return new(Encoder) }}

// NewEncoder returns an empty encoder; Free gives it back.
func NewEncoder() *Encoder {
	e := encoders.Get().(*Encoder)
	e.Reset()
	return e
}

// Reset empties the encoder.
func (e *Encoder) Reset() { e.resp2, e.resp3, e.heads = e.resp2[:0], e.resp3[:0], e.heads[:0] }

// Add appends a message of some strings, less than ten.
func (e *Encoder) Add(parts ...[]byte) {
	e.heads = append(e.heads, len(e.resp2))
	b := append(e.resp2, '*', '0'+byte(len(parts)), '\r', '\n')
	for _, p := range parts {
		b = AppendBulk(b, p)
	}
	e.resp2 = b
}

// Extend appends a message whose forms differ in more than the first byte: f gets both
// buffers and returns them with the message appended.
func (e *Encoder) Extend(f func(resp2, resp3 []byte) ([]byte, []byte)) {
	e.resp2, e.resp3 = f(e.resp2, e.resp3)
}

// AppendBulk appends a bulk string.
func AppendBulk[T string | []byte](b []byte, text T) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(text)), 10)
	return append(append(append(b, '\r', '\n'), text...), '\r', '\n')
}

// RESP3 returns the form for a client that speaks RESP3.
func (e *Encoder) RESP3() []byte { return e.form(true) }

// form returns the form for a client. The RESP3 form is made on first use.
func (e *Encoder) form(resp3 bool) []byte {
	if !resp3 {
		return e.resp2
	}
	if len(e.heads) > 0 {
		e.resp3 = append(e.resp3[:0], e.resp2...)
		for _, i := range e.heads {
			e.resp3[i] = '>'
		}
		e.heads = e.heads[:0]
	}
	return e.resp3
}

// shareFrom is the size from which on a message is shared by its receivers: a reference
// takes less than that.
const shareFrom = 128

// share returns the form for a client as a shared message, or nil if it is too small. The
// encoder holds a reference until Sent is called.
func (e *Encoder) share(resp3 bool, account *budget.Account) *message {
	if len(e.resp2) < shareFrom {
		return nil
	}
	i := 0
	if resp3 {
		i = 1
	}
	m := &e.shared[i]
	if *m == nil {
		*m = newMessage(e.form(resp3), account)
	}
	return *m
}

// Sent releases the shared messages, after PushShared was called for all receivers.
func (e *Encoder) Sent(mem *Memory) {
	for i, m := range e.shared {
		if m == nil {
			continue
		}
		e.shared[i] = nil
		if m.release(); m.account.Over() > 0 {
			mem.Over()
		}
	}
}

// LargeRun is about how many bytes of messages are encoded together.
const LargeRun = 64 << 10

// Free returns the encoder to its pool. Its messages must be unused.
func (e *Encoder) Free() {
	if cap(e.resp2) <= 2*LargeRun {
		encoders.Put(e)
	}
}
