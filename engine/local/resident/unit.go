package resident

// A unit is a set of rows whose completeness is known together: the rows with a
// common prefix. Redoubt's are the meta rows of a slot, and the rows of one
// large value. While a unit is complete, a row of it that is not resident does
// not exist.
//
// A part in which nothing was ever evicted needs no entry for any unit: if othersComplete
// is set, units without an entry are complete. After a restart othersComplete is false,
// and units get entries as they are filled.

// prefix names the unit of a row.
func (s *Set) prefix(key []byte) []byte { return key[:min(len(key), s.unit(key))] }

// units has the entries of a part's units: whether each is complete. Units with a prefix of
// three bytes, of which a part has few, are bits; the others are in a map.
type units struct {
	known, full uint64          // by the third byte, below 64
	long        map[string]bool // by prefix: whether the unit is complete
}

// none reports whether no unit has an entry.
func (u *units) none() bool { return u.known == 0 && len(u.long) == 0 }

// get reports whether a unit is complete, and whether that is known.
func (u *units) get(prefix []byte) (complete, known bool) {
	if len(prefix) == 3 && prefix[2] < 64 {
		bit := uint64(1) << prefix[2]
		return u.full&bit != 0, u.known&bit != 0
	}
	complete, known = u.long[string(prefix)]
	return complete, known
}

func (u *units) set(prefix []byte, complete bool) {
	if len(prefix) == 3 && prefix[2] < 64 {
		bit := uint64(1) << prefix[2]
		u.known |= bit
		if u.full |= bit; !complete {
			u.full &^= bit
		}
		return
	}
	if u.long == nil {
		u.long = make(map[string]bool)
	}
	u.long[string(prefix)] = complete
}

// forget removes the entry of a unit.
func (u *units) forget(prefix []byte) {
	if len(prefix) == 3 && prefix[2] < 64 {
		u.known &^= 1 << prefix[2]
		return
	}
	delete(u.long, string(prefix))
}

// allFull reports whether every unit with an entry is complete.
func (u *units) allFull() bool {
	for _, c := range u.long {
		if !c {
			return false
		}
	}
	return u.known&^u.full == 0
}

// complete reports whether a unit of the part is complete.
func (p *part) complete(prefix []byte) bool {
	if c, known := p.units.get(prefix); known {
		return c
	}
	return p.othersComplete
}

// allComplete reports whether all units of the part are complete.
func (p *part) allComplete() bool { return p.othersComplete && p.units.allFull() }

// markIncomplete notes that a row of the unit was evicted.
func (p *part) markIncomplete(prefix []byte) {
	if p.complete(prefix) {
		p.units.set(prefix, false)
	}
}

// covers reports whether all existing rows of a range are resident.
func (s *Set) covers(p *part, lo, hi []byte) bool {
	if p.allComplete() {
		return true
	}
	n := s.unit(lo)
	return n <= len(lo) && inUnit(lo[:n], hi) && p.complete(lo[:n])
}

// inUnit reports whether every key below hi and not below the prefix has the prefix.
func inUnit(prefix, hi []byte) bool {
	if len(hi) >= len(prefix) && string(hi[:len(prefix)]) == string(prefix) {
		return true
	}
	return isSuccessor(prefix, hi)
}

// isSuccessor reports whether hi is the first key above all with the prefix.
func isSuccessor(prefix, hi []byte) bool {
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	if n == 0 || len(hi) != n || hi[n-1] != prefix[n-1]+1 {
		return false
	}
	return string(hi[:n-1]) == string(prefix[:n-1])
}
