package rdb

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The versions of the format that a Writer writes, by the first Redis that reads them.
const (
	VersionRedis70 = versionStream // no times of fields, nor when consumers were active
	VersionRedis72 = versionActive // no times of fields
	VersionRedis74 = versionTimed
)

// Writer writes an RDB file to a stream.
//
//	w := rdb.NewWriter(stream, rdb.VersionRedis74)
//	w.Aux("redis-ver", "7.4.0")
//	w.Database(0, keys, volatile)
//	e := w.Key(key, expire)
//	e.BeginSet() ... // as for a payload, but for End
//	w.EndKey()
//	err := w.End()
//
// The first error is kept, and later calls do nothing. A Writer holds a buffer, and of a
// value the bytes that Encoder.Spill cannot pass on yet.
type Writer struct {
	to      io.Writer
	version uint16
	enc     Encoder
	crc     uint64
	bytes   int64
	err     error
}

// NewWriter begins a file of a version, from VersionRedis70 on.
func NewWriter(to io.Writer, version int) *Writer {
	w := &Writer{to: to, version: uint16(version)}
	w.enc.Compress, w.enc.out = true, w
	w.enc.Buf = fmt.Appendf(nil, "%s%04d", magic, version)
	return w
}

// Err returns the first error, and Bytes the number of bytes written.
func (w *Writer) Err() error   { return w.err }
func (w *Writer) Bytes() int64 { return w.bytes }

// write passes bytes on.
func (w *Writer) write(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	w.crc = Checksum(w.crc, b)
	n, err := w.to.Write(b)
	w.bytes += int64(n)
	w.err = err
}

// between is called between items.
func (w *Writer) between() {
	if len(w.enc.Buf) >= spillBytes {
		w.write(w.enc.Buf)
		w.enc.Buf = w.enc.Buf[:0]
	}
}

// op begins an item with an opcode.
func (w *Writer) op(code byte) *Encoder {
	w.between()
	w.enc.Buf = append(w.enc.Buf, code)
	return &w.enc
}

// Aux writes an auxiliary field about the file.
func (w *Writer) Aux(name, text string) {
	e := w.op(opAux)
	e.str([]byte(name))
	e.str([]byte(text))
}

// Library writes a library of functions. Libraries come before keys.
func (w *Writer) Library(source []byte) { w.op(opFunction).str(source) }

// Database selects the database of the keys that follow, and says about how many there are.
func (w *Writer) Database(db int, keys, volatile int64) {
	w.op(opSelect).length(uint64(db))
	e := w.op(opResize)
	e.length(uint64(keys))
	e.length(uint64(volatile))
}

// Key begins a key, which expires at a time unless that is 0. The caller gives the value to
// the Encoder.
func (w *Writer) Key(key []byte, expire int64) *Encoder {
	e := &w.enc
	if expire != 0 {
		w.op(opMillis)
		e.Buf = binary.LittleEndian.AppendUint64(e.Buf, uint64(expire))
	}
	w.between()
	e.key, e.err = key, nil
	return e
}

// EndKey ends a key.
func (w *Writer) EndKey() error {
	e := &w.enc
	e.down(0)
	if w.err != nil {
		return w.err
	}
	if w.err = e.err; w.err == nil && e.version > w.version {
		w.err = fmt.Errorf("the value needs version %d of the RDB format, and the file has version %d", e.version, w.version)
	}
	if cap(e.Buf) > maxHeld && len(e.Buf) <= spillBytes {
		e.Buf = append(make([]byte, 0, 2*spillBytes), e.Buf...)
	}
	return w.err
}

// maxHeld is how large a buffer a Writer keeps for the next key.
const maxHeld = 1 << 20

// End ends the file.
func (w *Writer) End() error {
	w.op(opEnd)
	w.write(w.enc.Buf)
	w.write(binary.LittleEndian.AppendUint64(nil, w.crc))
	return w.err
}

// NodeCounter counts the nodes in which the entries of a stream will be written, for
// Encoder.Sized.
type NodeCounter struct{ enc Encoder }

// Add counts an entry.
func (c *NodeCounter) Add(id ID, fields [][]byte) {
	if len(c.enc.counts) == 0 {
		c.enc.BeginStream(false)
	}
	c.enc.Entry(id, fields)
	c.enc.Buf = c.enc.Buf[:0]
}

// Nodes returns the number of nodes.
func (c *NodeCounter) Nodes() int64 {
	if len(c.enc.counts) == 0 {
		return 0
	}
	n := int64(c.enc.counts[0].n)
	if c.enc.stream.entries > 0 {
		n++
	}
	return n
}
