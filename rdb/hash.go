package rdb

import "fmt"

// Hash visits the fields of a hash. Expire is when a field expires in Unix milliseconds,
// or 0; it may have passed.
func (v *Value) Hash(visit func(field, value []byte, expire int64) error) error {
	n, err := 0, v.wrongKind()
	var u *unique
	each := func(at int, field, value []byte, expire uint64) error {
		n++
		if expire > maxFieldTime {
			return fmt.Errorf("%w: a field expires at %d", ErrFormat, expire)
		}
		if err := u.add(at, field); err != nil {
			return err
		}
		return visit(field, value, int64(expire))
	}
	switch v.code {
	case typeHash, typeHashTimed, typeHashTimedEarly:
		u = v.unique()
		err = v.plainHash(each)
	case typeHashZiplist, typeHashListpack:
		err = v.eachTuple(v.code == typeHashZiplist, 2, func(p *packed, at int, t *[3]field) error {
			if u == nil {
				u = newUnique(reloadEntry(p))
			}
			return each(at, t[0].s, t[1].s, 0)
		})
	case typeHashListpackEX, typeHashListpackEXEarly:
		if v.code == typeHashListpackEX { // the earliest time; the fields say it too
			if _, err = v.in.millis(); err != nil {
				return err
			}
		}
		last := int64(-1)
		err = v.eachTuple(false, 3, func(p *packed, at int, t *[3]field) error {
			if u == nil {
				u = newUnique(reloadEntry(p))
			}
			// Fields are in the order of their expiry; those that never expire come last.
			expire := t[2].n
			if !t[2].num || expire != 0 && (last == 0 || expire < last) {
				return fmt.Errorf("%w: the time of a field is not in order", ErrFormat)
			}
			last = expire
			return each(at, t[0].s, t[1].s, uint64(expire))
		})
	case typeHashZipmap:
		var blob, scratch []byte
		if blob, err = v.in.str(&scratch); err == nil {
			u = newUnique(func(at int) []byte {
				r := reader{b: blob, at: at}
				s, _ := zipmapString(&r, 0)
				return s
			})
			err = eachZipmap(blob, func(at int, field, value []byte) error { return each(at, field, value, 0) })
		}
	}
	return v.done(n, err)
}

// plainHash visits a hash that is not packed. A timed hash has a number in front of each
// field, 0 for no expiry: the time itself (early format), or the distance to the time in
// front of the hash in milliseconds, plus one.
func (v *Value) plainHash(each func(at int, field, value []byte, expire uint64) error) error {
	r := v.in
	base := uint64(0)
	if v.code == typeHashTimed {
		first, err := r.millis()
		if err != nil {
			return err
		}
		if first < 0 || first > maxFieldTime+1 {
			return fmt.Errorf("%w: the first field expires at %d", ErrFormat, first)
		}
		base = uint64(first)
	}
	n, err := r.count(2, "a hash")
	if err != nil {
		return err
	}
	var one, two []byte
	for ; n > 0; n-- {
		expire := uint64(0)
		if v.code != typeHash {
			if expire, err = r.length(); err != nil {
				return err
			}
			if expire > maxFieldTime+1 {
				return fmt.Errorf("%w: the time of a field is %d", ErrFormat, expire)
			}
			if expire != 0 && v.code == typeHashTimed {
				expire += base - 1
			}
		}
		at := r.at
		field, err := r.str(&one)
		if err != nil {
			return err
		}
		value, err := r.str(&two)
		if err != nil {
			return err
		}
		if err := each(at, field, value, expire); err != nil {
			return err
		}
	}
	return nil
}
