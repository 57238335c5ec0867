package command

import (
	"bytes"
	"slices"

	"redoubt/keyspace"
	"redoubt/types/list"
)

// SORT and SORT_RO: the elements of a list, a set or a sorted set in the order of
// numbers or bytes, by themselves or by the values of other keys, which may also
// be replied in their place.
//
// SORT keeps the elements and their sort keys in memory (sort_table.go), with LIMIT not many more
// than are wanted. The values of GET go into the reply or the new list one by one.
//
// The keys that BY and GET name are not among the arguments, so they are not latched. A call that
// reads such keys must see one state of all of them: it is run on a snapshot, or with the whole
// keyspace latched if it stores its result.

// SortCommands are the commands that sort the elements of a key.
var SortCommands = []*Command{sortKey, sortRO}

const (
	sortSyntax = "key [BY by-pattern:pattern'pattern'#1] [LIMIT offset:integer count:integer] " +
		"[GET get-pattern:pattern'pattern'#1]... [order=<ASC|DESC>] [sorting=ALPHA]"
	sortEffort = "O(N+M*log(M)) where N is the number of elements and M how many are replied"
)

var sortKey = &Command{
	Name: "sort", Group: Generic, Since: "1.0.0", Arity: -2,
	Flags:      Write | DenyOOM | MovableKeys,
	Categories: CatList | CatSet | CatSortedSet | CatDangerous,
	Keys:       []KeySpec{OneKey(1, RO|Access)[0], sortPatterns, sortStore},
	ReadsOnly: func(args [][]byte) bool {
		stores := false
		sortStore.Search(args, func(int) { stores = true })
		return !stores
	},
	UnnamedKeys: func(args [][]byte) error { return sortUnnamed(args, true) },
	Syntax:      sortSyntax + " [STORE destination:key#2]",
	Summary:     "Sorts the elements of a list, a set or a sorted set, and perhaps stores them.",
	Complexity:  sortEffort,
	Run:         func(c *Ctx) error { return runSort(c, true) },
}

var sortRO = &Command{
	Name: "sort_ro", Group: Generic, Since: "7.0.0", Arity: -2,
	Flags:       ReadOnly | MovableKeys,
	Categories:  CatList | CatSet | CatSortedSet | CatDangerous,
	Keys:        []KeySpec{OneKey(1, RO|Access)[0], sortPatterns},
	UnnamedKeys: func(args [][]byte) error { return sortUnnamed(args, false) },
	Syntax:      sortSyntax,
	Summary:     "Sorts the elements of a list, a set or a sorted set.",
	Complexity:  sortEffort,
	Run:         func(c *Ctx) error { return runSort(c, false) },
}

// sortPatterns stands for the keys that BY and GET name: they follow from the
// elements, not from the arguments.
var sortPatterns = KeySpec{
	Flags: RO | Access, Begin: Begin{Unknown: true}, Find: Find{Unknown: true},
	Notes:  "For BY and GET: which keys these are depends on the elements that are sorted.",
	Search: func([][]byte, func(int)) {},
}

// sortStore is the key behind STORE, the last one if there are several.
var sortStore = KeySpec{
	Flags: OW | Update, Begin: Begin{Unknown: true}, Find: Find{Unknown: true},
	Notes: "For STORE, which may stand anywhere among the options.",
	Search: func(args [][]byte, visit func(i int)) {
		at := 0
		for i := 2; i < len(args); i++ {
			switch {
			case isWord(args[i], "limit"):
				i += 2
			case isWord(args[i], "get"), isWord(args[i], "by"):
				i++
			case isWord(args[i], "store") && i+1 < len(args):
				at = i + 1
			}
		}
		if at > 0 {
			visit(at)
		}
	},
}

const (
	errSortBy  = Error("ERR BY option of SORT denied due to insufficient ACL permissions.")
	errSortGet = Error("ERR GET option of SORT denied due to insufficient ACL permissions.")
)

// sortUnnamed is Command.UnnamedKeys of SORT and SORT_RO. It stops where the arguments are no
// options of SORT: there the handler returns a syntax error.
func sortUnnamed(args [][]byte, mayStore bool) error {
	for i := 2; i < len(args); i++ {
		switch left := len(args) - i - 1; {
		case isWord(args[i], "limit") && left >= 2:
			i += 2
		case isWord(args[i], "store") && left >= 1 && mayStore:
			i++
		case isWord(args[i], "by") && left >= 1:
			if i++; bytes.IndexByte(args[i], '*') >= 0 {
				return errSortBy
			}
		case isWord(args[i], "get") && left >= 1:
			return errSortGet
		case !isWord(args[i], "asc") && !isWord(args[i], "desc") && !isWord(args[i], "alpha"):
			return nil
		}
	}
	return nil
}

// ErrSortDouble is the error for elements that are no numbers, without ALPHA.
const ErrSortDouble = Error("ERR One or more scores can't be converted into double")

// sorting is a call of SORT.
type sorting struct {
	desc, alpha   bool
	start, count  int64 // LIMIT; a negative count is no limit
	by            *sortPattern
	unsorted      bool // BY names no other keys
	gets          []sortPattern
	stores        bool
	target        []byte
	table         sortTable
	notNumbers    bool
	comparesWhole bool
}

func runSort(c *Ctx, mayStore bool) error {
	s := sorting{count: -1}
	if err := s.parse(c, mayStore); err != nil {
		return err
	}
	if s.foreign() && c.Tx.WantsOneState() {
		return nil
	}
	from, err := sortSource(c, c.Args[1])
	if err != nil {
		return err
	}
	// A set has no order of its own. What is stored, here or by a script, must not depend on the
	// order of its members in the store.
	if s.unsorted && (s.stores || c.Script) && from.kind == keyspace.Set {
		s.unsorted, s.alpha, s.by = false, true, nil
	}
	s.comparesWhole = s.stores
	first, last := s.limit(from.size)
	if s.unsorted {
		s.load(c.Tx, from, first, last, 0)
	} else {
		s.load(c.Tx, from, 0, from.size, max(1, last))
		if s.notNumbers && c.Tx.Err() == nil {
			return ErrSortDouble
		}
		t := &s.table
		t.sort()
		t.order = t.order[min(first, int64(len(t.order))):min(last, int64(len(t.order)))]
	}
	if c.Tx.Err() != nil {
		return nil
	}
	if s.stores {
		return s.store(c)
	}
	s.reply(c)
	return nil
}

func (s *sorting) parse(c *Ctx, mayStore bool) (err error) {
	for i := 2; i < len(c.Args); i++ {
		arg, left := c.Args[i], len(c.Args)-i-1
		switch {
		case isWord(arg, "asc"):
			s.desc = false
		case isWord(arg, "desc"):
			s.desc = true
		case isWord(arg, "alpha"):
			s.alpha = true
		case left >= 2 && isWord(arg, "limit"):
			if s.start, err = integer(c.Args[i+1]); err != nil {
				return err
			}
			if s.count, err = integer(c.Args[i+2]); err != nil {
				return err
			}
			i += 2
		case mayStore && left >= 1 && isWord(arg, "store"):
			i++
			s.stores, s.target = true, c.Args[i]
		case left >= 1 && isWord(arg, "by"):
			i++
			p := parseSortPattern(c.Args[i])
			if s.by = &p; !p.foreign() {
				s.unsorted = true
			}
		case left >= 1 && isWord(arg, "get"):
			i++
			s.gets = append(s.gets, parseSortPattern(c.Args[i]))
		default:
			return ErrSyntax
		}
	}
	return nil
}

// foreign reports whether the call reads keys besides those of its arguments.
func (s *sorting) foreign() bool {
	if !s.unsorted && s.by != nil {
		return true
	}
	return slices.ContainsFunc(s.gets, func(p sortPattern) bool { return p.foreign() })
}

// limit returns the part [from, to) of size elements that LIMIT selects.
func (s *sorting) limit(size int64) (from, to int64) {
	from = min(max(s.start, 0), size)
	if s.count < 0 || s.count > size-from {
		return from, size
	}
	return from, from + s.count
}

// load copies the elements [from, to). Elements of a list and a sorted set are counted from their
// end if the order is DESC and nothing is sorted. If they are sorted, the first keep are wanted.
func (s *sorting) load(tx *keyspace.Tx, src sortable, from, to, keep int64) {
	if from >= to || tx.Heavy((to-from)*sortWork) {
		return
	}
	t := &s.table
	t.weighed, t.keyed = !s.unsorted && !s.alpha, !s.unsorted && s.alpha && s.by != nil
	t.compare = s.compare
	if !t.init(tx, to-from, keep) {
		return
	}
	var buf []byte
	src.walk(from, to, s.unsorted && s.desc, func(e []byte) bool {
		if !t.weighed && !t.keyed {
			return t.add(e, 0, nil, false)
		}
		value, found, weight := e, true, 0.0
		if s.by != nil {
			held := tx.Held()
			buf, found = s.by.append(tx, buf[:0], e)
			value = buf
			tx.Release(held)
		}
		if t.weighed && found { // a missing value has weight 0, and comes before all text
			var ok bool
			if weight, ok = sortWeight(value); !ok {
				s.notNumbers = true
			}
		}
		if t.keyed && found {
			return t.add(e, 0, value, true)
		}
		return t.add(e, weight, nil, false)
	})
}

// sortWork is the cost of sorting an element, in the unit of Tx.Heavy.
const sortWork = 512

// compare is Redis's order: by weight and then by bytes, or by text only. Text is compared up to
// a zero byte unless the result is stored, since Redis then uses C's strcoll. The collation here
// is that of the C locale.
func (s *sorting) compare(a, b uint32) (n int) {
	t := &s.table
	text := func(x []byte) []byte {
		if s.comparesWhole {
			return x
		}
		return cString(x)
	}
	switch {
	case t.weighed:
		n = t.byWeight(a, b)
	case !t.keyed:
		n = bytes.Compare(text(t.element(a)), text(t.element(b)))
	default:
		x, hasX := t.by(a)
		y, hasY := t.by(b)
		switch {
		case hasX && hasY:
			n = bytes.Compare(text(x), text(y))
		case hasX:
			n = 1
		case hasY:
			n = -1
		}
	}
	if s.desc {
		return -n
	}
	return n
}

// reply writes the elements, or the values of GET.
func (s *sorting) reply(c *Ctx) {
	c.Reply.Array(len(s.table.order) * max(1, len(s.gets)))
	var buf []byte
	for _, at := range s.table.order {
		e := s.table.element(at)
		if len(s.gets) == 0 {
			c.Reply.Bulk(e)
		}
		for j := range s.gets {
			var found bool
			held := c.Tx.Held()
			if buf, found = s.gets[j].append(c.Tx, buf[:0], e); found {
				c.Reply.Bulk(buf)
			} else {
				c.Reply.Null()
			}
			c.Tx.Release(held)
		}
		if !c.Spill() {
			return
		}
	}
}

// store replaces the target by a list of the elements, or of the values of GET. Without elements
// the target is deleted.
func (s *sorting) store(c *Ctx) error {
	// The list replaces the target when it is saved, so that GET can still read the old value.
	l := list.Create(c.Tx, s.target, &c.Limits.Limits)
	defer l.Release()
	if len(s.gets) == 0 {
		for _, at := range s.table.order {
			l.Append(s.table.element(at))
		}
	} else {
		s.storeGets(c.Tx, l)
	}
	c.stored(l, keyspace.ListEv, "sortstore", s.target, int(l.Len()))
	return nil
}

// storeGets appends the values of GET to the list, an empty element for a missing value. It works
// page by page, since the new list may be in the memory that reads use and Release frees.
func (s *sorting) storeGets(tx *keyspace.Tx, l *list.List) {
	var page []byte
	var ends []int
	flush := func() {
		at := 0
		for _, end := range ends {
			l.Append(page[at:end])
			at = end
		}
		page, ends = page[:0], ends[:0]
	}
	for _, at := range s.table.order {
		held := tx.Held()
		for j := range s.gets {
			page, _ = s.gets[j].append(tx, page, s.table.element(at))
			ends = append(ends, len(page))
		}
		tx.Release(held)
		if len(page) >= getPage || len(ends) >= getPage/64 {
			flush()
		}
	}
	flush()
}

// getPage is about the number of bytes of values between two stores.
const getPage = 64 << 10
