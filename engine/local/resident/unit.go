package resident

// A unit is a set of rows whose completeness is known together: the rows with a
// common prefix. Redoubt's are the meta rows of a slot, and the rows of one
// large value. While a unit is complete, a row of it that is not resident does
// not exist.
//
// A part in which nothing was ever evicted needs no entry for any unit: rest
// says that those without an entry are complete. After a restart it is false,
// and units get their entries as they are filled.

// prefix names the unit of a row.
func (s *Set) prefix(key []byte) []byte { return key[:min(len(key), s.unit(key))] }

func (p *part) complete(prefix []byte) bool {
	if c, known := p.units[string(prefix)]; known {
		return c
	}
	return p.rest
}

// whole says that all units of the part are complete.
func (p *part) whole() bool {
	if !p.rest {
		return false
	}
	for _, c := range p.units {
		if !c {
			return false
		}
	}
	return true
}

// breach notes that the unit has lost a row to the store.
func (p *part) breach(prefix []byte) {
	if c, known := p.units[string(prefix)]; known && !c || !known && !p.rest {
		return
	}
	p.setUnit(prefix, false)
}

func (p *part) setUnit(prefix []byte, complete bool) {
	if p.units == nil {
		p.units = make(map[string]bool)
	}
	p.units[string(prefix)] = complete
}

// covers says whether the rows of a range are all resident if they exist.
func (s *Set) covers(p *part, lo, hi []byte) bool {
	if p.whole() {
		return true
	}
	n := s.unit(lo)
	return n <= len(lo) && inUnit(lo[:n], hi) && p.complete(lo[:n])
}

// inUnit says whether every key below hi and not below the prefix has the prefix.
func inUnit(prefix, hi []byte) bool {
	if len(hi) >= len(prefix) && string(hi[:len(prefix)]) == string(prefix) {
		return true
	}
	return isSuccessor(prefix, hi)
}

// isSuccessor says whether hi is the first key above all with the prefix.
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
