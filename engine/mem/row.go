package mem

// row is one row. Its key never changes; the lock of its shard guards the other fields.
type row struct {
	key []byte
	version
}

type version struct {
	seq  uint64 // the commit that wrote this version
	val  []byte // nil: the row does not exist
	prev *version
}

func (v *version) dead() bool { return v.val == nil }

// at returns the version that a snapshot taken after commit seq sees.
func (r *row) at(seq uint64) *version {
	for v := &r.version; v != nil; v = v.prev {
		if v.seq <= seq {
			return v
		}
	}
	return nil
}

const latest = ^uint64(0)

// newRow makes a row with copies of its key and value. If they are short, they lie
// behind the row in the same allocation: with many rows the cost of a look-up is the
// number of different pages that it touches.
func newRow(key, value []byte, seq uint64) *row {
	var r *row
	var b []byte
	switch n := len(key) + len(value); {
	case n <= 32:
		x := new(struct {
			row
			b [32]byte
		})
		r, b = &x.row, x.b[:]
	case n <= 48:
		x := new(struct {
			row
			b [48]byte
		})
		r, b = &x.row, x.b[:]
	case n <= 64:
		x := new(struct {
			row
			b [64]byte
		})
		r, b = &x.row, x.b[:]
	case n <= 96:
		x := new(struct {
			row
			b [96]byte
		})
		r, b = &x.row, x.b[:]
	case n <= 144:
		x := new(struct {
			row
			b [144]byte
		})
		r, b = &x.row, x.b[:]
	case n <= 192:
		x := new(struct {
			row
			b [192]byte
		})
		r, b = &x.row, x.b[:]
	default:
		r, b = new(row), make([]byte, n)
	}
	k := copy(b, key)
	r.key, r.seq, r.val = b[:k:k], seq, append(b[k:k], value...)
	return r
}
