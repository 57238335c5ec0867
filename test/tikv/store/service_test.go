package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

func newMoments() *moments { return &moments{greatest: 100, under: map[*prewrite]struct{}{}} }

func (m *moments) next(t *testing.T) uint64 {
	t.Helper()
	physical, logical, err := m.GetTS(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return uint64(physical)<<18 + uint64(logical)
}

// A prewrite that commits in one phase gets a timestamp later than every read before it.
func TestTimestampsFollowReads(t *testing.T) {
	t.Parallel()
	m := newMoments()
	if ts := m.next(t); ts != 101 {
		t.Errorf("the first one is %d", ts)
	}
	if ts := m.next(t); ts != 101 {
		t.Errorf("asking alone has raised it to %d, ahead of PD", ts)
	}
	m.announce(&kvrpcpb.GetRequest{Version: 1 << 20})
	m.announce(&kvrpcpb.GetRequest{Version: 500})
	m.announce(&kvrpcpb.GetRequest{Version: ^uint64(0)}) // the newest
	if ts := m.next(t); ts != 1<<20+1 {
		t.Errorf("after reads it is %d", ts)
	}
	m.announce(&kvrpcpb.ScanRequest{Version: 1 << 21})
	m.announce(&kvrpcpb.BatchGetRequest{Version: 1<<21 + 5})
	m.announce(&kvrpcpb.PessimisticLockRequest{ForUpdateTs: 1<<21 + 7})
	if ts := m.next(t); ts != 1<<21+8 {
		t.Errorf("after other requests it is %d", ts)
	}
}

// A read waits for the prewrites on its keys that came before it, and for no other.
func TestReadsWaitForPrewrites(t *testing.T) {
	t.Parallel()
	onePhase := func(keys ...string) *kvrpcpb.PrewriteRequest {
		r := &kvrpcpb.PrewriteRequest{StartVersion: 1, TryOnePc: true}
		for _, key := range keys {
			r.Mutations = append(r.Mutations, &kvrpcpb.Mutation{Key: []byte(key)})
		}
		return r
	}
	for _, test := range []struct {
		name  string
		read  any
		waits bool
	}{
		{"get", &kvrpcpb.GetRequest{Key: []byte("b"), Version: 9}, true},
		{"get of another", &kvrpcpb.GetRequest{Key: []byte("c"), Version: 9}, false},
		{"batch", &kvrpcpb.BatchGetRequest{Keys: [][]byte{[]byte("x"), []byte("a")}, Version: 9}, true},
		{"batch of others", &kvrpcpb.BatchGetRequest{Keys: [][]byte{[]byte("x")}, Version: 9}, false},
		{"scan", &kvrpcpb.ScanRequest{StartKey: []byte("b"), Version: 9}, true},
		{"scan behind", &kvrpcpb.ScanRequest{StartKey: []byte("c"), Version: 9}, false},
		{"scan before", &kvrpcpb.ScanRequest{EndKey: []byte("a"), Version: 9}, false},
		{"backwards", &kvrpcpb.ScanRequest{StartKey: []byte("b"), EndKey: []byte("a"), Reverse: true, Version: 9}, true},
		{"backwards before", &kvrpcpb.ScanRequest{StartKey: []byte("a"), Reverse: true, Version: 9}, false},
		{"locks", &kvrpcpb.ScanLockRequest{MaxVersion: 9}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMoments()
				_, end := m.announce(onePhase("a", "b"))
				wait, _ := m.announce(test.read)
				late, endLate := m.announce(onePhase("a", "b", "c")) // came after the read
				late()
				ended := make(chan struct{})
				go func() { wait(); close(ended) }()
				synctest.Wait()
				select {
				case <-ended:
					if test.waits {
						t.Error("the read did not wait")
					}
				default:
					if !test.waits {
						t.Error("the read waits")
					}
				}
				end()
				<-ended
				endLate()
				if len(m.under) != 0 {
					t.Errorf("%d prewrites are left", len(m.under))
				}
			})
		})
	}
	m := newMoments()
	two := onePhase("a")
	two.TryOnePc = false
	m.announce(two) // in two phases: its lock is what readers meet
	wait, _ := m.announce(&kvrpcpb.GetRequest{Key: []byte("a"), Version: 9})
	wait()
}
