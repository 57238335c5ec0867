package lua

// Growth, length and traversal of tables.

// grow rebuilds the table with room for one more key, and gives its slot. The
// array becomes the largest n (a power of two) of which more than half of
// 1..n are in use.
func (t *Table) grow(k Value) (*Value, error) {
	var counts [maxBits + 1]int // [i]: keys in (2^(i-1), 2^i]
	total, ints := t.countArray(&counts), 0
	ints = total
	for i := range t.nodes {
		if n := &t.nodes[i]; !n.val.IsNil() {
			total++
			ints += countKey(n.key, &counts)
		}
	}
	total++
	ints += countKey(k, &counts)
	size, inArray := arraySize(&counts, ints)
	if err := t.resize(size, total-inArray); err != nil {
		return nil, err
	}
	return t.slot(k)
}

func countKey(k Value, counts *[maxBits + 1]int) int {
	if !k.isNumber() {
		return 0
	}
	i, ok := arrayIndex(k.float())
	if !ok || i < 1 || i > 1<<maxBits {
		return 0
	}
	counts[ceilLog2(i)]++
	return 1
}

func (t *Table) countArray(counts *[maxBits + 1]int) int {
	total, i := 0, 0
	for slice, limit := 0, 1; slice <= maxBits && i < len(t.arr); slice, limit = slice+1, limit*2 {
		used := 0
		for ; i < min(limit, len(t.arr)); i++ {
			if !t.arr[i].IsNil() {
				used++
			}
		}
		counts[slice] += used
		total += used
	}
	return total
}

// arraySize returns the size of the array, and how many keys it will hold.
func arraySize(counts *[maxBits + 1]int, ints int) (size, inArray int) {
	seen := 0
	for i, limit := 0, 1; i <= maxBits && limit/2 < ints; i, limit = i+1, limit*2 {
		if counts[i] > 0 {
			seen += counts[i]
			if seen > limit/2 {
				size, inArray = limit, seen
			}
		}
		if seen == ints {
			break
		}
	}
	return size, inArray
}

// resize gives the parts new sizes and moves every entry to its new place. The memory is
// counted before it is allocated.
func (t *Table) resize(narr, nhash int) error {
	lg := 0
	if nhash > 0 {
		if lg = ceilLog2(nhash); lg > maxBits {
			return errOverflow
		}
	}
	need := int64(narr-len(t.arr)) * valueSize
	if nhash > 0 {
		need += nodeSize << lg
	}
	if t.st != nil && need > 0 {
		if err := t.st.alloc(need); err != nil {
			return err
		}
	}
	oldArr, oldNodes := t.arr, t.nodes
	if narr > len(oldArr) {
		if narr <= cap(oldArr) {
			t.arr = oldArr[:narr]
		} else {
			t.arr = make([]Value, narr)
			copy(t.arr, oldArr)
		}
	}
	t.nodes, t.free = nil, 0
	if nhash > 0 {
		t.nodes = make([]node, 1<<lg)
		for i := range t.nodes {
			t.nodes[i].next = -1
		}
		t.free = int32(len(t.nodes))
	}
	if narr < len(oldArr) {
		t.arr = append([]Value(nil), oldArr[:narr]...)
		for i := narr; i < len(oldArr); i++ {
			if !oldArr[i].IsNil() {
				if err := t.set(Number(float64(i+1)), oldArr[i]); err != nil {
					return err
				}
			}
		}
	}
	for i := len(oldNodes) - 1; i >= 0; i-- {
		if n := &oldNodes[i]; !n.val.IsNil() {
			if err := t.move(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// move inserts an entry of the old node array. The new one does not have its key yet.
func (t *Table) move(n *node) error {
	if n.key.isNumber() {
		return t.set(n.key, n.val)
	}
	slot, err := t.insert(n.key, n.hash)
	if err != nil {
		return err
	}
	*slot = n.val
	return nil
}

// Len returns a border: some n with a value at n and none at n+1.
func (t *Table) Len() int {
	j := len(t.arr)
	if j > 0 && t.arr[j-1].IsNil() {
		i := 0
		for j-i > 1 {
			if m := (i + j) / 2; t.arr[m-1].IsNil() {
				j = m
			} else {
				i = m
			}
		}
		return i
	}
	if len(t.nodes) == 0 {
		return j
	}
	return t.searchBorder(j)
}

// searchBorder looks for a border beyond the array.
func (t *Table) searchBorder(i int) int {
	j := i + 1
	for !t.GetInt(j).IsNil() {
		i = j
		if j *= 2; j > 1<<31-3 {
			// A script may have built a table that makes doubling overflow: count one by one.
			for i = 1; !t.GetInt(i).IsNil(); i++ {
			}
			return i - 1
		}
	}
	for j-i > 1 {
		if m := (i + j) / 2; t.GetInt(m).IsNil() {
			j = m
		} else {
			i = m
		}
	}
	return i
}

// Next returns the entry that follows a key, or with nil the first one; ok is
// false after the last. Entries may be changed and removed on the way, but
// none added.
func (t *Table) Next(k Value) (key, val Value, ok bool, err error) {
	i, err := t.position(k)
	if err != nil {
		return Nil, Nil, false, err
	}
	key, val, next, ok := t.after(i)
	t.chargeScan(next - i)
	return key, val, ok, nil
}

// chargeScan counts the work to pass over removed entries.
func (t *Table) chargeScan(n int) {
	if n > 16 && t.st != nil {
		t.st.left -= n >> 2
	}
}

// position returns how far a traversal has come when it stands at key k.
func (t *Table) position(k Value) (int, error) {
	if k.IsNil() {
		return 0, nil
	}
	if k.isNumber() {
		if i, ok := arrayIndex(k.float()); ok && i >= 1 && i <= len(t.arr) {
			return i, nil
		}
	}
	if len(t.nodes) > 0 {
		hash := k.hash()
		for i := t.place(k, hash); i >= 0; i = t.nodes[i].next {
			if RawEqual(t.nodes[i].key, k) {
				return len(t.arr) + int(i) + 1, nil
			}
		}
	}
	return 0, errInvalidKey
}

// after returns the first entry from position i on, and the position behind it.
func (t *Table) after(i int) (key, val Value, next int, ok bool) {
	for ; i < len(t.arr); i++ {
		if !t.arr[i].IsNil() {
			return Number(float64(i + 1)), t.arr[i], i + 1, true
		}
	}
	for j := i - len(t.arr); j < len(t.nodes); j++ {
		if n := &t.nodes[j]; !n.val.IsNil() {
			return n.key, n.val, len(t.arr) + j + 1, true
		}
	}
	return Nil, Nil, len(t.arr) + len(t.nodes), false
}

// hashSize returns the size of the hash, for a resize that keeps it.
func (t *Table) hashSize() int { return len(t.nodes) }
