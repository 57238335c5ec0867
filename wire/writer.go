package wire

import (
	"math/big"
	"strconv"

	"redoubt/number"
)

// Writer builds replies in RESP2 or RESP3. It appends to Buf and never fails; the
// caller sends the bytes. Truncating Buf removes a reply. A map, set, double and so
// on is written in the form of the protocol version.
type Writer struct {
	Buf   []byte
	Proto int // 2 or 3
}

// Status writes a simple string; s must hold no line break.
func (w *Writer) Status(s string) {
	w.Buf = append(append(append(w.Buf, '+'), s...), '\r', '\n')
}

// OK writes the status OK.
func (w *Writer) OK() { w.Buf = append(w.Buf, "+OK\r\n"...) }

// Error writes an error. The text begins with its code, as in "ERR syntax
// error". Line breaks, which would end the reply, become spaces.
func (w *Writer) Error(text string) {
	w.Buf = append(w.Buf, '-')
	for i := range len(text) {
		if c := text[i]; c == '\r' || c == '\n' {
			w.Buf = append(w.Buf, ' ')
		} else {
			w.Buf = append(w.Buf, c)
		}
	}
	w.Buf = append(w.Buf, '\r', '\n')
}

// Int writes an integer.
func (w *Writer) Int(n int64) {
	if n == 0 || n == 1 {
		w.Buf = append(w.Buf, ':', '0'+byte(n), '\r', '\n')
		return
	}
	w.head(':', n)
}

// Bulk writes a byte string.
func (w *Writer) Bulk(b []byte) {
	w.BulkHead(len(b))
	w.Buf = append(append(w.Buf, b...), '\r', '\n')
}

// BulkString is Bulk for a string.
func (w *Writer) BulkString(s string) {
	w.BulkHead(len(s))
	w.Buf = append(append(w.Buf, s...), '\r', '\n')
}

// BulkHead begins a byte string of n bytes: the caller appends them to Buf and
// then calls BulkEnd. So a large value can be written piece by piece.
func (w *Writer) BulkHead(n int) { w.head('$', int64(n)) }

// BulkEnd ends what BulkHead began.
func (w *Writer) BulkEnd() { w.Buf = append(w.Buf, '\r', '\n') }

// BulkInt writes an integer as a byte string.
func (w *Writer) BulkInt(n int64) {
	var b [20]byte
	w.Bulk(strconv.AppendInt(b[:0], n, 10))
}

// Null writes the null of a single value.
func (w *Writer) Null() {
	if w.Proto == 3 {
		w.Buf = append(w.Buf, "_\r\n"...)
	} else {
		w.Buf = append(w.Buf, "$-1\r\n"...)
	}
}

// NullArray writes the null of an aggregate.
func (w *Writer) NullArray() {
	if w.Proto == 3 {
		w.Buf = append(w.Buf, "_\r\n"...)
	} else {
		w.Buf = append(w.Buf, "*-1\r\n"...)
	}
}

// Array begins an array of n replies.
func (w *Writer) Array(n int) { w.head('*', int64(n)) }

// Map begins a map of n pairs; in RESP2 it is an array of twice as many.
func (w *Writer) Map(n int) {
	if w.Proto == 3 {
		w.head('%', int64(n))
	} else {
		w.head('*', 2*int64(n))
	}
}

// Set begins a set of n replies; in RESP2 it is an array.
func (w *Writer) Set(n int) {
	if w.Proto == 3 {
		w.head('~', int64(n))
	} else {
		w.head('*', int64(n))
	}
}

// Push begins an out-of-band message of n replies; in RESP2 it is an array.
func (w *Writer) Push(n int) {
	if w.Proto == 3 {
		w.head('>', int64(n))
	} else {
		w.head('*', int64(n))
	}
}

// Bool writes a boolean; in RESP2 it is the integer 0 or 1.
func (w *Writer) Bool(v bool) {
	switch {
	case w.Proto == 3 && v:
		w.Buf = append(w.Buf, "#t\r\n"...)
	case w.Proto == 3:
		w.Buf = append(w.Buf, "#f\r\n"...)
	case v:
		w.Int(1)
	default:
		w.Int(0)
	}
}

// Double writes a floating point number; in RESP2 it is a byte string.
func (w *Writer) Double(f float64) {
	var b [40]byte
	text := number.AppendDouble(b[:0], f)
	if w.Proto == 3 {
		w.Buf = append(append(append(w.Buf, ','), text...), '\r', '\n')
	} else {
		w.Bulk(text)
	}
}

// BigNumber writes a large integer; in RESP2 it is a byte string.
func (w *Writer) BigNumber(n *big.Int) {
	if w.Proto == 3 {
		w.Buf = append(n.Append(append(w.Buf, '('), 10), '\r', '\n')
	} else {
		w.BulkString(n.String())
	}
}

// Verbatim writes text with a three-letter format such as txt or mkd; in RESP2
// it is a byte string.
func (w *Writer) Verbatim(format, text string) {
	if w.Proto != 3 {
		w.BulkString(text)
		return
	}
	w.head('=', int64(len(text)+4))
	w.Buf = append(append(append(append(w.Buf, format...), ':'), text...), '\r', '\n')
}

func (w *Writer) head(kind byte, n int64) {
	w.Buf = append(w.Buf, kind)
	if n >= 0 && n < 10 {
		w.Buf = append(w.Buf, '0'+byte(n), '\r', '\n')
		return
	}
	w.Buf = append(strconv.AppendInt(w.Buf, n, 10), '\r', '\n')
}
