package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// The bytes of a Message, as a transport carries it. All integers are big-endian.
//
//	offset size
//	0      1     version, 1
//	1      1     type, the library's number
//	2      1     flags: 1 reject
//	3      1     zero
//	4      88    to, from, term, logTerm, index, commit, rejectHint, vote, stamp, echo,
//	             echoTerm, 8 bytes each
//	92     4     length of the context, which follows
//	...    4     number of entries, each of which follows:
//	             type:1 term:8 index:8 length:4 data
//
// The data of an entry is as the leader made it, its Head included, and is copied once.

const (
	messageVersion = 1
	messageHead    = 92
	entryHead      = 21
	flagReject     = 1
	// maxContext bounds the context of a message, which a node made itself.
	maxContext = 64
)

var errMessage = errors.New("malformed message of a replica")

// AppendMessage appends the bytes of m to dst.
func AppendMessage(dst []byte, m Message) []byte {
	r := m.Raft
	var flags byte
	if r.GetReject() {
		flags = flagReject
	}
	dst = append(dst, messageVersion, byte(r.GetType()), flags, 0)
	for _, n := range [...]uint64{
		r.GetTo(), r.GetFrom(), r.GetTerm(), r.GetLogTerm(), r.GetIndex(), r.GetCommit(), r.GetRejectHint(), r.GetVote(),
		uint64(m.Stamp), uint64(m.Echo), m.EchoTerm,
	} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.GetContext())))
	dst = append(dst, r.GetContext()...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.GetEntries())))
	for _, e := range r.GetEntries() {
		dst = append(dst, byte(e.GetType()))
		dst = binary.BigEndian.AppendUint64(dst, e.GetTerm())
		dst = binary.BigEndian.AppendUint64(dst, e.GetIndex())
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.GetData())))
		dst = append(dst, e.GetData()...)
	}
	return dst
}

// ParseMessage reads a message. It copies what it keeps of b.
func ParseMessage(b []byte) (m Message, err error) {
	p := parser{b: b}
	head := p.take(4)
	if p.short || head[0] != messageVersion || head[2]&^flagReject != 0 || head[3] != 0 {
		return m, fmt.Errorf("%w: its head is %x", errMessage, b[:min(len(b), 4)])
	}
	if _, known := pb.MessageType_name[int32(head[1])]; !known {
		return m, fmt.Errorf("%w: type %d", errMessage, head[1])
	}
	var n [11]uint64
	for i := range n {
		n[i] = p.uint64()
	}
	r := &pb.Message{
		Type: pb.MessageType(head[1]).Enum(), To: &n[0], From: &n[1], Term: &n[2], LogTerm: &n[3], Index: &n[4],
		Commit: &n[5], RejectHint: &n[6], Vote: &n[7],
	}
	if reject := head[2]&flagReject != 0; reject {
		r.Reject = &reject
	}
	m = Message{Raft: r, Stamp: time.Duration(n[8]), Echo: time.Duration(n[9]), EchoTerm: n[10]}
	if context := p.take(int(min(p.uint32(), 1<<30))); len(context) > maxContext {
		return m, fmt.Errorf("%w: a context of %d bytes", errMessage, len(context))
	} else if len(context) > 0 {
		r.Context = append([]byte(nil), context...)
	}
	count := p.uint32()
	if uint64(count)*entryHead > uint64(len(p.b)) { // memory for no more than what came
		return m, fmt.Errorf("%w: %d entries in %d bytes", errMessage, count, len(p.b))
	}
	for range count {
		kind, term, index := p.take(1), p.uint64(), p.uint64()
		data := p.take(int(min(p.uint32(), 1<<31-1)))
		if p.short {
			break
		}
		if _, known := pb.EntryType_name[int32(kind[0])]; !known {
			return m, fmt.Errorf("%w: an entry of type %d", errMessage, kind[0])
		}
		e := &pb.Entry{Type: pb.EntryType(kind[0]).Enum(), Term: &term, Index: &index}
		if len(data) > 0 {
			e.Data = append(make([]byte, 0, len(data)), data...)
		}
		r.Entries = append(r.Entries, e)
	}
	if p.short || len(p.b) > 0 {
		return m, fmt.Errorf("%w: %d bytes are no whole message", errMessage, len(b))
	}
	return m, nil
}

// parser cuts bytes into fields. Past the end it has zeros, and short is set.
type parser struct {
	b     []byte
	short bool
}

var zeroField [8]byte

func (p *parser) take(n int) []byte {
	if n > len(p.b) {
		p.short, p.b = true, nil
		return zeroField[:min(n, len(zeroField))]
	}
	field := p.b[:n]
	p.b = p.b[n:]
	return field
}

func (p *parser) uint32() uint32 { return binary.BigEndian.Uint32(p.take(4)) }
func (p *parser) uint64() uint64 { return binary.BigEndian.Uint64(p.take(8)) }
