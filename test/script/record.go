package script

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"redoubt/internal/testserver"
)

// Recorder rewrites expectations from the replies of a real Redis.
type Recorder struct {
	// Target opens an empty real Redis for one run.
	Target func(proto int) (*Target, error)
}

// Record runs the script in both protocol versions and rewrites the
// expectations that the replies do not match. It says whether it changed any.
func (rec *Recorder) Record(f *File) (changed bool, err error) {
	replies := map[int]map[*step][]string{}
	expanded := map[*step]map[string]string{}
	for _, proto := range []int{2, 3} {
		t, err := rec.Target(proto)
		if err != nil {
			return false, err
		}
		// Never trust the caller with this one.
		if _, err := testserver.RedisVersion(t.Addr, ""); err != nil {
			return false, fmt.Errorf("expectations are recorded from a real Redis only: %w", err)
		}
		replies[proto] = make(map[*step][]string)
		err = f.each(t, func(s *step, got []string, expand func(string) (string, error)) error {
			replies[proto][s] = got
			for _, b := range s.expect {
				for _, l := range b.lines {
					e, err := expand(l)
					if err != nil {
						return err
					}
					if expanded[s] == nil {
						expanded[s] = make(map[string]string)
					}
					expanded[s][fmt.Sprint(proto, l)] = e
				}
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	var out []string
	at := 0
	for _, s := range f.steps {
		before := slices.Clone(s.expect)
		s.record(replies[2][s], replies[3][s], func(proto int, line string) string {
			if e, ok := expanded[s][fmt.Sprint(proto, line)]; ok {
				return e
			}
			return line
		})
		out = append(out, f.lines[at:s.from]...)
		if slices.EqualFunc(before, s.expect, sameBlock) {
			out = append(out, f.lines[s.from:s.to]...)
		} else {
			changed = true
			out = appendBlocks(out, s.expect)
			if s.to < len(f.lines) && isCommand(f.lines[s.to]) && len(s.expect) > 1 {
				out = append(out, "") // after several blocks the eye needs a gap
			}
		}
		at = s.to
	}
	if !changed {
		return false, nil
	}
	out = append(out, f.lines[at:]...)
	if err := os.WriteFile(f.path, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
		return false, fmt.Errorf("write script: %w", err)
	}
	return true, nil
}

func isCommand(line string) bool { return strings.HasPrefix(line, ">") || line == "<" }

func sameBlock(a, b block) bool {
	return a.redis == b.redis && a.resp3 == b.resp3 && slices.Equal(a.lines, b.lines)
}

// record makes the expectations those of the replies in RESP2 and RESP3; a nil
// reply means that the command was not sent.
func (s *step) record(two, three []string, expand func(int, string) string) {
	differs := slices.IndexFunc(s.expect, func(b block) bool { return b.redis })
	reason := ""
	if differs >= 0 {
		reason = s.expect[differs].reason
	}
	ok := func(proto int, got []string) bool {
		b := s.pick(true, proto)
		if b == nil || (differs >= 0 && !b.redis) {
			return false
		}
		want := make([]string, len(b.lines))
		for i, l := range b.lines {
			want[i] = expand(proto, l)
		}
		return s.mods.matches(want, got)
	}
	if two == nil { // RESP3 only: its reply is the first block
		if three != nil && !ok(3, three) {
			s.replace(block{redis: differs >= 0, reason: reason, lines: three})
		}
		return
	}
	if !ok(2, two) {
		s.replace(block{redis: differs >= 0, reason: reason, lines: two})
	}
	if three != nil && !ok(3, three) {
		s.drop(differs >= 0, true)
		if !ok(3, three) {
			s.replace(block{redis: differs >= 0, resp3: true, reason: reason, lines: three})
		}
	}
}

func (s *step) drop(redis, resp3 bool) {
	s.expect = slices.DeleteFunc(s.expect, func(b block) bool { return b.redis == redis && b.resp3 == resp3 })
}

// replace puts a block in the place of the one for the same case, or where it
// belongs in the order.
func (s *step) replace(b block) {
	s.drop(b.redis, b.resp3)
	s.expect = append(s.expect, b)
	rank := func(b block) (r int) {
		if b.redis {
			r += 2
		}
		if b.resp3 {
			r++
		}
		return r
	}
	slices.SortStableFunc(s.expect, func(a, b block) int { return rank(a) - rank(b) })
}

func appendBlocks(out []string, blocks []block) []string {
	for _, b := range blocks {
		switch {
		case b.redis && b.resp3:
			out = append(out, "redis resp3: "+b.reason)
		case b.redis:
			out = append(out, "redis: "+b.reason)
		case b.resp3:
			out = append(out, "resp3:")
		}
		out = append(out, b.lines...)
	}
	return out
}
