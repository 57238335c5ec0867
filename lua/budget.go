package lua

// The budget is counted where a script can loop: at backward jumps, by their
// length, at calls, and in the loops of the libraries, by their steps.
// Straight-line code is not counted, since it ends.

const noBudget = 1 << 62

// SetBudget makes the interpreter call f about every n instructions, also inside
// long library functions. An error of f ends the script like Abort. A nil f
// removes the budget.
func (s *State) SetBudget(every int, f func() error) {
	s.every, s.hook = max(every, 1), f
	if f == nil {
		s.every = noBudget
	}
	s.left = s.every
}

// tick runs when the budget is used up.
func (s *State) tick() error {
	s.left = s.every
	if s.hook == nil {
		s.left = noBudget
		return nil
	}
	if err := s.hook(); err != nil {
		s.left = 0 // code that ignores the error gets it again
		if _, ok := err.(*abortError); ok {
			return err
		}
		return Abort(err)
	}
	return nil
}

// Work counts n steps of a library's loop.
func (s *State) Work(n int) error {
	if s.left -= n; s.left < 0 {
		return s.tick()
	}
	return nil
}
