package str

import (
	"math"
	"math/big"
	"strconv"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types"
)

// IncrBy adds to the integer at the key and returns the sum. A missing key
// counts as 0.
func IncrBy(tx *keyspace.Tx, key []byte, delta int64) (int64, error) {
	v, err := Find(tx, key)
	if err != nil {
		return 0, err
	}
	n, err := v.Int()
	if err != nil {
		return 0, err
	}
	if (delta < 0 && n < math.MinInt64-delta) || (delta > 0 && n > math.MaxInt64-delta) {
		return 0, types.ErrOverflow
	}
	n += delta
	var text [20]byte
	tx.Store(key, v.Meta, keyspace.Meta{
		Type: keyspace.String, Encoding: keyspace.Int, Expire: v.Expire,
		Body: strconv.AppendInt(text[:0], n, 10),
	})
	tx.Changed(keyspace.StringEv, "incrby", key)
	return n, nil
}

// IncrByFloat adds to the number at the key and returns the sum as stored. The sum
// never has the encoding Int, even if it is an integer.
func IncrByFloat(tx *keyspace.Tx, key, delta []byte) ([]byte, error) {
	v, err := Find(tx, key)
	if err != nil {
		return nil, err
	}
	n, ok := new(big.Float), true
	if v.Exists() {
		b, inline := v.Inline()
		if n, ok = number.ParseLongDouble(b); !ok || !inline {
			return nil, types.ErrNotFloat
		}
	}
	d, ok := number.ParseLongDouble(delta)
	if !ok {
		return nil, types.ErrNotFloat
	}
	sum, ok := number.AddLongDouble(n, d)
	if !ok {
		return nil, types.ErrNaN
	}
	text := number.AppendLongDouble(nil, sum)
	m := keyspace.Meta{Type: keyspace.String, Encoding: keyspace.Embedded, Expire: v.Expire, Body: text}
	if len(text) > embeddedMax {
		m.Encoding = keyspace.Raw
	}
	tx.Store(key, v.Meta, m)
	tx.Changed(keyspace.StringEv, "incrbyfloat", key)
	return text, nil
}
