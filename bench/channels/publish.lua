-- publish adds a message unless its id is known, as CHPUBLISH does.
-- KEYS: the channel's clock, the message's id. ARGV: how keys of messages begin, id, content,
-- milliseconds to live, where subscribers are woken.
local clock = redis.call('INCR', KEYS[1])
if clock > 9007199254740991 then
  clock = -9007199254740991
  redis.call('SET', KEYS[1], clock)
end
local text = string.format('%.0f', clock)
local known = redis.call('SET', KEYS[2], text, 'NX', 'GET', 'PX', ARGV[4])
if known then
  if clock == -9007199254740991 then
    redis.call('SET', KEYS[1], '9007199254740991', 'PX', ARGV[4])
  else
    redis.call('DECR', KEYS[1])
  end
  return {known, 0}
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('SET', ARGV[1] .. text, ARGV[2] .. '\n' .. ARGV[3], 'PX', ARGV[4])
redis.call('PUBLISH', ARGV[5], '')
return {text, 1}
