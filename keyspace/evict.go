package keyspace

import "fmt"

// Eviction: an engine samples rows of keys, or of their expiries, and the executor chooses the
// keys that go.

// Sampled are the kinds of rows that a Sampler must be able to sample.
func Sampled() []byte { return []byte{kindMeta, kindExpire} }

// Candidate is a key that may be evicted.
type Candidate struct {
	Row []byte // its meta row
	At  int64  // when the key, or a field of it, expires; 0 if it was not asked for
}

// SampleKey draws a key, with volatile one that expires, by a function of engine.Sampler.
func SampleKey(sample func(kind byte, b []byte) ([]byte, bool), volatile bool) (c Candidate, ok bool, err error) {
	if !volatile {
		c.Row, ok = sample(kindMeta, nil)
		return c, ok, nil
	}
	row, ok := sample(kindExpire, nil)
	if !ok {
		return c, false, nil
	}
	e, err := decodeExpireKey(row)
	if err != nil {
		return c, false, err
	}
	return Candidate{appendMetaKey(nil, SlotOf(e.key), e.ks, e.key), e.at}, true, nil
}

// Key is the key of the candidate.
func (c Candidate) Key() []byte { return c.Row[metaKeyHead:] }

// MetaRow appends the key of the meta row of a key of the selected database to b.
func (t *Tx) MetaRow(b, key []byte) []byte { return appendMetaKey(b, SlotOf(key), t.ks(), key) }

// Evict removes a candidate, whose latch is held, and has replicas told by the command del. It
// reports false if the key is gone, does not expire although it should (volatile), or is
// a channel, which is no cache.
func (t *Tx) Evict(c Candidate, volatile bool, del []byte) bool {
	v, found := t.GetRow(c.Row)
	if !found || t.err != nil {
		return false
	}
	m, err := decodeMeta(v)
	if err != nil {
		t.Fail(fmt.Errorf("key %.64q: %w", c.Key(), err))
		return false
	}
	if m.Type == Channel || volatile && m.Expire == 0 {
		return false
	}
	if !t.selectSpace(uint32(c.Row[3])<<24 | uint32(c.Row[4])<<16 | uint32(c.Row[5])<<8 | uint32(c.Row[6])) {
		return false // its database was flushed: the rows are about to be cleared
	}
	key := c.Key()
	t.Remove(key, m)
	if t.Propagates() {
		t.FX.Feed.Add(t.DB, del, key)
	}
	t.Note(EvictedEv, "evicted", key)
	return true
}
