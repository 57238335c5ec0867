package apps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A channel keeps its messages under the numbers of a clock, which counts them.
// Each subscriber has a clock of its own, which says up to where it has read.
//
//	c.{channel}.clock        the number of the last message
//	c.{channel}.r.<name>     how far a subscriber has got
//	c.{channel}.m.<number>   a message: {"id": ..., "content": ...}
//	c.{channel}.mid.<id>     the number that the message with this id has got
//
// All keys expire, counted from their last change. Publishing and acknowledging
// are scripts, for each of them reads and writes several keys in one step.
// Fetching is not: it sees a clock, and the messages up to there are complete.
//
// A number beyond 2^53 - 1 would not be exact in Lua, so the clock goes from
// there to -(2^53 - 1). A subscriber whose number is greater than the channel's
// has the turn between the two.
const (
	lastClock  = 1<<53 - 1
	firstClock = -lastClock
)

// after gives the number that follows.
func after(clock int64) int64 {
	if clock == lastClock {
		return firstClock
	}
	return clock + 1
}

// Creates a subscriber, and the channel if it is its first.
// KEYS: clock, subscriber. ARGV: expiry in ms.
var subscribeScript = redis.NewScript(`
local clock = redis.call('GET', KEYS[1])
if not clock then
  clock = '0'
  redis.call('SET', KEYS[1], clock, 'PX', ARGV[1])
end
return redis.call('SET', KEYS[2], clock, 'NX', 'PX', ARGV[1])
`)

// Gives a message its number. One whose id is known has it already.
// KEYS: id, clock. ARGV: id, content, expiry in ms, prefix of messages.
// Returns whether it is new, and its number.
var publishScript = redis.NewScript(`
local known = redis.call('GET', KEYS[1])
if known then
  return {0, known}
end
local clock
if redis.call('GET', KEYS[2]) == '9007199254740991' then
  clock = '-9007199254740991'
  redis.call('SET', KEYS[2], clock)
else
  clock = string.format('%.0f', redis.call('INCR', KEYS[2]))
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
local message = cjson.encode({id = ARGV[1], content = cjson.decode(ARGV[2])})
redis.call('SET', ARGV[4] .. clock, message, 'PX', ARGV[3])
redis.call('SET', KEYS[1], clock, 'PX', ARGV[3])
return {1, clock}
`)

// Moves a subscriber forward to a number between its own and the channel's.
// KEYS: subscriber, clock. ARGV: number, expiry in ms. Returns whether it is one.
var ackScript = redis.NewScript(`
local position = redis.call('GET', KEYS[1])
local clock = redis.call('GET', KEYS[2])
if not position or not clock then
  return redis.error_reply('GONE the channel or the subscriber has expired')
end
position, clock = tonumber(position), tonumber(clock)
local receipt = tonumber(ARGV[1])
local valid
if position <= clock then
  valid = position <= receipt and receipt <= clock
else
  valid = receipt >= position or receipt <= clock
end
if not valid then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`)

var (
	errReceipt  = errors.New("the receipt is not between the subscriber and the channel")
	errNoTarget = errors.New("no such channel or subscriber")
)

type channel struct {
	db     *redis.Client
	name   string
	expire time.Duration
}

type message struct {
	ID      string          `json:"id"`
	Content json.RawMessage `json:"content"`
	clock   int64
}

func (c channel) key(part string) string { return "c.{" + c.name + "}." + part }

func (c channel) subscribe(ctx context.Context, name string) error {
	err := subscribeScript.Run(ctx, c.db, []string{c.key("clock"), c.key("r." + name)}, c.expire.Milliseconds()).Err()
	if errors.Is(err, redis.Nil) { // it is there already
		return nil
	}
	return err
}

// publish says whether the message is new and which number it has.
func (c channel) publish(ctx context.Context, id, content string) (fresh bool, clock int64, err error) {
	keys := []string{c.key("mid." + id), c.key("clock")}
	res, err := publishScript.Run(ctx, c.db, keys, id, content, c.expire.Milliseconds(), c.key("m.")).Slice()
	if err != nil {
		return false, 0, err
	}
	if len(res) != 2 {
		return false, 0, fmt.Errorf("publish returned %v", res)
	}
	text, _ := res[1].(string)
	clock, err = strconv.ParseInt(text, 10, 64)
	return res[0] == int64(1), clock, err
}

// fetch gives up to n messages that a subscriber has not acknowledged, and the
// receipt for them.
func (c channel) fetch(ctx context.Context, name string, n int) (all []message, receipt int64, err error) {
	clocks, err := c.db.MGet(ctx, c.key("r."+name), c.key("clock")).Result()
	if err != nil {
		return nil, 0, err
	}
	position, ok1 := number(clocks[0])
	clock, ok2 := number(clocks[1])
	if !ok1 || !ok2 {
		return nil, 0, errNoTarget
	}
	var numbers []int64
	var keys []string
	for at := position; at != clock && len(keys) < n; {
		at = after(at)
		numbers = append(numbers, at)
		keys = append(keys, c.key("m."+strconv.FormatInt(at, 10)))
	}
	if len(keys) == 0 {
		return nil, position, nil
	}
	texts, err := c.db.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, 0, err
	}
	for i, text := range texts {
		if text == nil { // expired
			continue
		}
		m := message{clock: numbers[i]}
		if err := json.Unmarshal([]byte(text.(string)), &m); err != nil {
			return nil, 0, fmt.Errorf("message %d: %w", numbers[i], err)
		}
		all = append(all, m)
	}
	return all, numbers[len(numbers)-1], nil
}

func number(v any) (int64, bool) {
	s, ok := v.(string)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// ack acknowledges what a receipt is for, and all before.
func (c channel) ack(ctx context.Context, name string, receipt int64) error {
	n, err := ackScript.Run(ctx, c.db, []string{c.key("r." + name), c.key("clock")}, receipt, c.expire.Milliseconds()).Int()
	if err == nil && n != 1 {
		err = errReceipt
	}
	return err
}
