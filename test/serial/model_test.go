package serial

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// keys is how many keys the clients share: few, so that they collide.
const keys = 4

// state is the value of each key; missing is none.
type state [keys]int64

const missing = -1 << 62

// step is one command of a transaction.
type step struct {
	kind string // get, set, incrby, del
	key  int
	arg  int64
}

// run does a step and returns its reply; a missing value is -1.
func (s *state) run(st step) int64 {
	v := &s[st.key]
	switch st.kind {
	case "set":
		*v = st.arg
		return 0 // OK
	case "incrby":
		if *v == missing {
			*v = 0
		}
		*v += st.arg
		return *v
	case "del":
		if *v == missing {
			return 0
		}
		*v = missing
		return 1
	}
	return *v
}

// input is an operation of a client: a transaction, a transaction that is run
// only if a key still has the value that was seen, a single command, or a transfer by
// a script.
type input struct {
	steps   []step
	single  bool // a command outside of transactions
	watched int  // a key, or -1
	seen    int64
	script  bool // move amount from one key to another if there is enough
	secret  bool // the script does not say which keys it uses
	from    int
	to      int
	amount  int64
}

// output is what came back; unknown if the server died or does not know itself, none
// if it says that nothing was done.
type output struct {
	unknown bool
	aborted bool
	none    bool
	replies []int64
}

// apply runs an operation; it is not run when a watched key has another value.
func (s state) apply(in input) (after state, replies []int64, ran bool) {
	if in.script {
		if s[in.from] == missing || s[in.from] < in.amount || in.from == in.to {
			return s, []int64{0}, true
		}
		return s.transfer(in), []int64{1}, true
	}
	if in.watched >= 0 && s[in.watched] != in.seen {
		return s, nil, false
	}
	for _, st := range in.steps {
		replies = append(replies, s.run(st))
	}
	return s, replies, true
}

func (s state) transfer(in input) state {
	s.run(step{"incrby", in.from, -in.amount})
	s.run(step{"incrby", in.to, in.amount})
	return s
}

// model says which states an operation may lead to.
func model(first state) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{first} },
		Step: func(st, in, out any) []any {
			s, i, o := st.(state), in.(input), out.(output)
			after, replies, ran := s.apply(i)
			switch {
			case o.unknown && after != s:
				return []any{s, after}
			case o.unknown || o.none || o.aborted: // EXEC may always find that a key was touched
				return []any{s}
			case !ran || !slices.Equal(replies, o.replies):
				return nil
			}
			return []any{after}
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
		DescribeState: func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), fmt.Sprint(int64(missing)), "-") },
	}
	return m.ToModel()
}
