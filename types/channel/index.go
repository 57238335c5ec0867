package channel

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"redoubt/keyspace"
)

// The index of message ids: from an id to its message.
//
// The index is a linear hash table whose buckets are rows. A bucket has, for each of its
// ids, the hash and the position of the message, whose row has the id itself. So an id
// costs 12 bytes, and a publish rewrites one short row that exists already. One row for
// each id was rejected: an insert at a random place of the engine's order is the most
// expensive part of a write to a large channel.
//
// The table grows and shrinks by one bucket at a time, with the number of messages. Bucket
// n-1 is the one that was added last; its ids were in bucket n-1 less its highest bit.
//
// The hash is keyed by the channel's secret, so that clients cannot choose ids that all
// fall into one bucket.

const (
	entrySize = 12
	// A bucket is added above an average of fullBucket ids per bucket, and one is removed
	// below an average of sparseBucket.
	fullBucket   = 8
	sparseBucket = 2
)

// hash is the hash of an id, or of a subscriber's name.
func (c *Channel) hash(id []byte) uint32 {
	var b [secretSize + MaxName]byte
	n := copy(b[:], c.secret[:])
	n += copy(b[n:], id)
	return uint32(xxhash.Sum64(b[:n]) >> 32)
}

// bucketOf is the bucket of a hash among n.
func bucketOf(hash, n uint32) uint32 {
	mask := uint32(1)<<bits.Len32(n-1) - 1
	if b := hash & mask; b < n {
		return b
	}
	return hash & (mask >> 1)
}

func (c *Channel) bucketRow(bucket uint32) []byte {
	c.key1 = binary.BigEndian.AppendUint32(append(c.part(c.key1, keyspace.SubRow), rowBucket), bucket)
	return c.key1
}

// bucket reads a bucket. The bytes must not be changed.
func (c *Channel) bucket(bucket uint32) []byte {
	b, _ := c.tx.GetRow(c.bucketRow(bucket))
	if len(b)%entrySize != 0 {
		c.tx.Fail(corrupt("a bucket of ids has %d bytes", len(b)))
		return nil
	}
	return b
}

// putBucket writes a bucket, or removes its row if it is empty.
func (c *Channel) putBucket(bucket uint32, entries []byte) {
	if len(entries) == 0 {
		c.tx.DeleteRow(c.bucketRow(bucket))
	} else {
		c.tx.PutRow(c.bucketRow(bucket), entries)
	}
}

// lookup returns the position of the live message with an id. entries is the id's
// bucket.
func (c *Channel) lookup(id []byte, hash uint32) (position int64, found bool, entries []byte) {
	entries = c.bucket(bucketOf(hash, c.buckets))
	for b := entries; len(b) > 0; b = b[entrySize:] {
		if binary.BigEndian.Uint32(b) != hash {
			continue
		}
		at := int64(binary.BigEndian.Uint64(b[4:]))
		m, ok := c.message(at)
		if ok && m.Death > c.tx.Now && bytes.Equal(m.ID, id) {
			return at, true, entries
		}
	}
	return 0, false, entries
}

// addID adds the id of a new message. entries is what lookup returned.
func (c *Channel) addID(hash uint32, position int64, entries []byte) {
	c.val = appendEntry(append(c.val[:0], entries...), hash, position)
	c.putBucket(bucketOf(hash, c.buckets), c.val)
	if c.rows > fullBucket*int64(c.buckets) && c.buckets < 1<<31 {
		c.addBucket()
	}
}

func appendEntry(b []byte, hash uint32, position int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, hash), uint64(position))
}

// addBucket splits one bucket in two.
func (c *Channel) addBucket() {
	added := c.buckets
	from := added &^ (1 << (bits.Len32(added) - 1))
	old := c.bucket(from)
	c.buckets++
	c.dirty = true
	c.val = c.val[:0]
	for b := old; len(b) > 0; b = b[entrySize:] {
		if bucketOf(binary.BigEndian.Uint32(b), c.buckets) == from {
			c.val = append(c.val, b[:entrySize]...)
		}
	}
	if len(c.val) == len(old) {
		return
	}
	c.putBucket(from, c.val)
	c.val = c.val[:0]
	for b := old; len(b) > 0; b = b[entrySize:] {
		if bucketOf(binary.BigEndian.Uint32(b), c.buckets) != from {
			c.val = append(c.val, b[:entrySize]...)
		}
	}
	c.putBucket(added, c.val)
}

// removeID removes the id of a message.
func (c *Channel) removeID(hash uint32, position int64) {
	n := bucketOf(hash, c.buckets)
	old := c.bucket(n)
	c.val = c.val[:0]
	for b := old; len(b) > 0; b = b[entrySize:] {
		if int64(binary.BigEndian.Uint64(b[4:])) != position {
			c.val = append(c.val, b[:entrySize]...)
		}
	}
	if c.tx.Err() == nil && len(c.val)+entrySize != len(old) {
		c.tx.Fail(corrupt("the id of the message at %d is in the index %d times", position, (len(old)-len(c.val))/entrySize))
		return
	}
	c.putBucket(n, c.val)
	if c.buckets > 1 && c.rows < sparseBucket*int64(c.buckets) {
		c.dropBucket()
	}
}

// dropBucket merges the bucket that was added last into the one that it was split from.
func (c *Channel) dropBucket() {
	dropped := c.buckets - 1
	to := dropped &^ (1 << (bits.Len32(dropped) - 1))
	entries := c.bucket(dropped)
	c.buckets--
	c.dirty = true
	if len(entries) == 0 {
		return
	}
	c.val = append(append(c.val[:0], c.bucket(to)...), entries...)
	c.putBucket(to, c.val)
	c.putBucket(dropped, nil)
}
