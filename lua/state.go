package lua

// State is one interpreter: its globals, its stack and the counts of memory and
// instructions of the running script. One goroutine uses it at a time.
type State struct {
	globals *Table
	strings *Table // the metatable of all strings
	main    *thread
	cur     *thread // the coroutine that runs

	depth  int     // Go calls nested in each other, see maxGoDepth
	ncall  int     // Go functions that run, one inside the other
	calls  []*Call // one for each of them
	random rand48

	// Memory, see memory.go.
	limit, used, next int64
	granted           int64
	grant             func(int64) error
	epoch             uint32
	ids               uint32

	// Budget, see budget.go.
	left  int
	every int
	hook  func() error
}

// New returns a state with the libraries that Redis gives its scripts.
func New() *State {
	s := &State{left: noBudget, next: noBudget}
	s.globals = s.NewTable(0, 32)
	s.main = s.newThread()
	s.cur = s.main
	s.openLibraries()
	s.used = 0
	s.ids = firstID
	return s
}

// Globals returns the table of the globals.
func (s *State) Globals() *Table { return s.globals }

// StringMeta returns the metatable of strings; its __index is the string library.
func (s *State) StringMeta() *Table { return s.strings }

// NewTable returns a table with room for narr values at 1.. and nhash others. Its memory
// is counted; if the limit is exceeded, the next allocation fails.
func (s *State) NewTable(narr, nhash int) *Table {
	t, err := s.newTable(narr, nhash)
	if err != nil {
		s.ids++
		t = &Table{st: s, id: s.ids}
		s.used = s.next // the next allocation finds it
	}
	return t
}

func (s *State) newTable(narr, nhash int) (*Table, error) {
	if err := s.alloc(tableSize); err != nil {
		return nil, err
	}
	s.ids++
	t := &Table{st: s, id: s.ids, flags: 0}
	if narr > 0 || nhash > 0 {
		if err := t.resize(narr, nhash); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Load returns a function of a compiled chunk with this state's globals.
func (s *State) Load(p *Proto) Value {
	s.ids++
	return functionValue(&function{proto: p, env: s.globals, id: s.ids})
}

// Register sets a Go function in a table.
func (s *State) Register(t *Table, name string, f Func) {
	_ = t.set(String(name), NewFunc(name, f)) // a name is a valid key, and the limit is not set yet
}

// Reset drops the state of a script: its stacks, its coroutines and its memory count. The
// globals and the limit stay.
func (s *State) Reset() {
	s.main.clear()
	s.cur = s.main
	s.depth = 0
	s.restart()
	s.ncall = 0
	if len(s.calls) > keepCalls {
		clear(s.calls[keepCalls:])
		s.calls = s.calls[:keepCalls]
	}
	for _, c := range s.calls {
		c.clear()
	}
	s.random.seed(0)
	s.ids = firstID
}

// keepCalls is how many nested calls of Go functions Reset keeps for reuse: a script that
// nested deeper must not make every later Reset slow.
const keepCalls = 8

// firstID is the first number for objects of a script. The order of keys that are objects
// follows from these numbers, and must not depend on earlier scripts.
const firstID = 1 << 20
