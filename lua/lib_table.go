package lua

import "math"

var tableFunctions []goFunction

func init() {
	tableFunctions = functions(
		"concat", tableConcat,
		"foreach", tableForeach,
		"foreachi", tableForeachi,
		"getn", tableGetn,
		"insert", tableInsert,
		"maxn", tableMaxn,
		"remove", tableRemove,
		"setn", tableSetn,
		"sort", tableSort,
	)
}

func tableConcat(c *Call) error {
	sep, err := c.optString(1, "")
	if err != nil {
		return err
	}
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	from, err := c.opt32(2, 1)
	if err != nil {
		return err
	}
	to, err := c.opt32(3, t.Len())
	if err != nil {
		return err
	}
	out := buffer{c: c}
	defer out.done()
	for i := from; i <= to; i++ {
		v := t.GetInt(i)
		switch {
		case v.isString():
			err = out.add(v.str())
		case v.isNumber():
			if err = out.room(24); err == nil {
				out.b = appendNumber(out.b, v.float())
			}
		default:
			return c.Errorf("invalid value (%s) at index %d in table for 'concat'", v.TypeName(), i)
		}
		if err == nil && i < to {
			err = out.add(sep)
		}
		if err == nil {
			err = c.st.Work(1)
		}
		if err != nil {
			return err
		}
	}
	c.Return(out.value())
	return nil
}

func tableForeach(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	fn, err := c.checkFunction(1)
	if err != nil {
		return err
	}
	key := Nil
	for {
		k, v, ok, err := t.Next(key)
		if err != nil || !ok {
			return err
		}
		r, err := c.call1(fn, k, v)
		if err != nil {
			return err
		}
		if !r.IsNil() {
			c.Return(r)
			return nil
		}
		key = k
	}
}

func tableForeachi(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	n := t.Len()
	fn, err := c.checkFunction(1)
	if err != nil {
		return err
	}
	for i := 1; i <= n; i++ {
		r, err := c.call1(fn, Number(float64(i)), t.GetInt(i))
		if err != nil {
			return err
		}
		if !r.IsNil() {
			c.Return(r)
			return nil
		}
	}
	return nil
}

func tableGetn(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	c.Return(Number(float64(t.Len())))
	return nil
}

func tableSetn(c *Call) error {
	if _, err := c.CheckTable(0); err != nil {
		return err
	}
	return c.Errorf("'setn' is obsolete")
}

func tableMaxn(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	if err := c.st.Work(len(t.arr) + len(t.nodes)); err != nil {
		return err
	}
	biggest := 0.0
	for at := 0; ; {
		k, _, next, ok := t.after(at)
		if !ok {
			break
		}
		if k.isNumber() {
			biggest = math.Max(biggest, k.float())
		}
		at = next
	}
	c.Return(Number(biggest))
	return nil
}

func tableInsert(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	end := t.Len() + 1
	switch len(c.args) {
	case 2:
		return t.SetInt(end, c.args[1])
	case 3:
		pos, err := c.check32(1)
		if err != nil {
			return err
		}
		if pos > end {
			end = pos
		}
		for i := end; i > pos; i-- {
			if err := t.SetInt(i, t.GetInt(i-1)); err != nil {
				return err
			}
			if err := c.st.Work(1); err != nil {
				return err
			}
		}
		return t.SetInt(pos, c.args[2])
	}
	return c.Errorf("wrong number of arguments to 'insert'")
}

func tableRemove(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	end := t.Len()
	pos, err := c.opt32(1, end)
	if err != nil {
		return err
	}
	if pos < 1 || pos > end {
		return nil
	}
	v := t.GetInt(pos)
	for ; pos < end; pos++ {
		if err := t.SetInt(pos, t.GetInt(pos+1)); err != nil {
			return err
		}
		if err := c.st.Work(1); err != nil {
			return err
		}
	}
	if err := t.SetInt(end, Nil); err != nil {
		return err
	}
	c.Return(v)
	return nil
}

func tableSort(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	n := t.Len()
	s := sorter{c: c, t: t}
	if v := c.Arg(1); !v.IsNil() {
		if s.fn, err = c.checkFunction(1); err != nil {
			return err
		}
	}
	return s.sort(1, n)
}

// sorter is a quicksort that makes the same comparisons in the same order as
// Lua's: a comparison that is no order must give the same result, or the same
// error, as it gives there.
type sorter struct {
	c  *Call
	t  *Table
	fn Value
}

func (s *sorter) less(a, b Value) (bool, error) {
	if !s.fn.IsNil() {
		v, err := s.c.call1(s.fn, a, b)
		return v.Truth(), err
	}
	if err := s.c.st.Work(2); err != nil {
		return false, err
	}
	return s.c.th.less(a, b)
}

func (s *sorter) set(i int, v Value, j int, w Value) error {
	if err := s.t.SetInt(i, v); err != nil {
		return err
	}
	return s.t.SetInt(j, w)
}

// order swaps the values at i < j if they are the wrong way round.
func (s *sorter) order(i, j int) error {
	a, b := s.t.GetInt(i), s.t.GetInt(j)
	wrong, err := s.less(b, a)
	if err != nil || !wrong {
		return err
	}
	return s.set(i, b, j, a)
}

func (s *sorter) sort(lo, hi int) error {
	for lo < hi {
		if err := s.order(lo, hi); err != nil {
			return err
		}
		if hi-lo == 1 {
			return nil
		}
		mid := (lo + hi) / 2
		a, b := s.t.GetInt(mid), s.t.GetInt(lo)
		wrong, err := s.less(a, b)
		if err != nil {
			return err
		}
		if wrong {
			err = s.set(mid, b, lo, a)
		} else {
			err = s.order(mid, hi)
		}
		if err != nil || hi-lo == 2 {
			return err
		}
		at, err := s.partition(lo, hi, mid)
		if err != nil {
			return err
		}
		// The smaller part by recursion, which is then never deep.
		if at-lo < hi-at {
			err = s.sort(lo, at-1)
			lo = at + 1
		} else {
			err = s.sort(at+1, hi)
			hi = at - 1
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// partition puts what is less than the pivot before it, and gives its place.
func (s *sorter) partition(lo, hi, mid int) (int, error) {
	pivot := s.t.GetInt(mid)
	if err := s.set(mid, s.t.GetInt(hi-1), hi-1, pivot); err != nil {
		return 0, err
	}
	i, j := lo, hi-1
	for {
		var a, b Value
		for {
			i++
			a = s.t.GetInt(i)
			less, err := s.less(a, pivot)
			if err != nil {
				return 0, err
			}
			if !less {
				break
			}
			if i > hi {
				return 0, s.c.Errorf("invalid order function for sorting")
			}
		}
		for {
			j--
			b = s.t.GetInt(j)
			less, err := s.less(pivot, b)
			if err != nil {
				return 0, err
			}
			if !less {
				break
			}
			if j < lo {
				return 0, s.c.Errorf("invalid order function for sorting")
			}
		}
		if j < i {
			break
		}
		if err := s.set(i, b, j, a); err != nil {
			return 0, err
		}
	}
	return i, s.set(hi-1, s.t.GetInt(i), i, s.t.GetInt(hi-1))
}
