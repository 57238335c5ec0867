package serial

import (
	"fmt"
	"strconv"
)

// layout says where the values of the model are: strings, fields of a large hash, or
// members of a large sorted set. Those of one collection are read and written apart,
// but share a meta row.
type layout struct {
	kinds  [keys]byte // s, h, z
	secret bool       // scripts may use keys that they do not name
}

var (
	plain = layout{kinds: [keys]byte{'s', 's', 's', 's'}}
	mixed = layout{kinds: [keys]byte{'s', 'h', 'h', 'z'}, secret: true}
	large = layout{kinds: [keys]byte{'h', 'h', 'z', 'z'}, secret: true}
)

// key is the name of the key that has a value.
func (l layout) key(i int) string {
	if l.kinds[i] == 's' {
		return fmt.Sprintf("k%d", i)
	}
	return "large:" + string(l.kinds[i])
}

func (l layout) member(i int) string { return fmt.Sprintf("f%d", i) }

// words are the command of a step.
func (l layout) words(s step) []string {
	key, arg := l.key(s.key), strconv.FormatInt(s.arg, 10)
	if l.kinds[s.key] == 's' {
		if s.kind == "set" || s.kind == "incrby" {
			return []string{s.kind, key, arg}
		}
		return []string{s.kind, key}
	}
	m, hash := l.member(s.key), l.kinds[s.key] == 'h'
	switch {
	case s.kind == "get" && hash:
		return []string{"HGET", key, m}
	case s.kind == "get":
		return []string{"ZSCORE", key, m}
	case s.kind == "set" && hash:
		return []string{"HSET", key, m, arg}
	case s.kind == "set":
		return []string{"ZADD", key, arg, m}
	case s.kind == "incrby" && hash:
		return []string{"HINCRBY", key, m, arg}
	case s.kind == "incrby":
		return []string{"ZINCRBY", key, arg, m}
	case hash:
		return []string{"HDEL", key, m}
	}
	return []string{"ZREM", key, m}
}

const transferScript = `local amount = tonumber(ARGV[1])
local function get(t, k, m)
  if t == 's' then return redis.call('GET', k) end
  if t == 'h' then return redis.call('HGET', k, m) end
  return redis.call('ZSCORE', k, m)
end
local function add(t, k, m, n)
  if t == 's' then redis.call('INCRBY', k, n)
  elseif t == 'h' then redis.call('HINCRBY', k, m, n)
  else redis.call('ZINCRBY', k, n, m) end
end
local have = tonumber(get(ARGV[2], ARGV[3], ARGV[4]))
if not have or have < amount or ARGV[4] == ARGV[7] then return 0 end
add(ARGV[2], ARGV[3], ARGV[4], -amount)
add(ARGV[5], ARGV[6], ARGV[7], amount)
return 1`

// transfer is the command of a script.
func (l layout) transfer(in input) []string {
	words := []string{"EVAL", transferScript}
	if in.secret {
		words = append(words, "0")
	} else {
		words = append(words, "2", l.key(in.from), l.key(in.to))
	}
	words = append(words, strconv.FormatInt(in.amount, 10))
	for _, i := range []int{in.from, in.to} {
		words = append(words, string(l.kinds[i]), l.key(i), l.member(i))
	}
	return words
}
