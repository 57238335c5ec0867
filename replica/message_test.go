package replica

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

func sampleMessage() Message {
	n := func(v uint64) *uint64 { return &v }
	yes := true
	return Message{Raft: &pb.Message{
		Type: pb.MsgApp.Enum(), To: n(1), From: n(2), Term: n(3), LogTerm: n(4), Index: n(5), Commit: n(6), RejectHint: n(7), Vote: n(8),
		Reject: &yes, Context: []byte("context"),
		Entries: []*pb.Entry{
			{Type: pb.EntryNormal.Enum(), Term: n(9), Index: n(10), Data: []byte("data")},
			{Type: pb.EntryConfChangeV2.Enum(), Term: n(11), Index: n(12)},
		},
	}, Stamp: 13, Echo: 14, EchoTerm: 15}
}

func same(a, b Message) bool {
	return bytes.Equal(AppendMessage(nil, a), AppendMessage(nil, b)) && a.Stamp == b.Stamp && a.Echo == b.Echo && a.EchoTerm == b.EchoTerm &&
		a.Raft.String() == b.Raft.String()
}

func TestMessage(t *testing.T) {
	t.Parallel()
	want := sampleMessage()
	b := AppendMessage([]byte("before"), want)[len("before"):]
	got, err := ParseMessage(b)
	if err != nil || !same(got, want) {
		t.Fatalf("%v, %v: want %v", got, err, want)
	}
	// What it keeps is its own: a transport uses its buffer again.
	again := AppendMessage(nil, want)
	clear(b)
	if !bytes.Equal(AppendMessage(nil, got), again) {
		t.Error("the message changed with the buffer")
	}
	// Nothing shorter or longer is a message, and no byte of the head may be anything.
	for n := range again {
		if _, err := ParseMessage(again[:n]); !errors.Is(err, errMessage) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := ParseMessage(append(again[:len(again):len(again)], 0)); !errors.Is(err, errMessage) {
		t.Errorf("with a byte more: %v", err)
	}
	for i := range 4 {
		wrong := bytes.Clone(again)
		wrong[i] = 0xee
		if _, err := ParseMessage(wrong); !errors.Is(err, errMessage) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
}

// All fields of the library's message are carried, but for two that a transport never sees:
// a new version of the library is not to lose one silently.
func TestMessageHasAllFields(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		"Type": true, "To": true, "From": true, "Term": true, "LogTerm": true, "Index": true, "Entries": true, "Commit": true, "Vote": true,
		"Reject": true, "RejectHint": true, "Context": true,
		"Snapshot": true, "Responses": true, // not carried: no snapshots yet, and responses are local
	}
	kind := reflect.TypeFor[pb.Message]()
	for i := range kind.NumField() {
		if f := kind.Field(i); f.IsExported() && !known[f.Name] {
			t.Errorf("%s is not known", f.Name)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(AppendMessage(nil, sampleMessage()))
	f.Add([]byte{messageVersion, 3, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err != nil {
			return
		}
		if again := AppendMessage(nil, m); !bytes.Equal(again, b) {
			t.Fatalf("%x is read, and written as %x", b, again)
		}
	})
}
