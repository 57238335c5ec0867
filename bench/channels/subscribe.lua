-- subscribe makes a subscriber behind the newest message, or renews it, as CHSUBSCRIBE does.
-- KEYS: the channel's clock, the subscriber's clock. ARGV: milliseconds to live.
local clock = redis.call('GET', KEYS[1])
if clock then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
else
  clock = '0'
  redis.call('SET', KEYS[1], clock, 'PX', ARGV[1])
end
if redis.call('SET', KEYS[2], clock, 'NX', 'PX', ARGV[1]) then
  return {clock, 1}
end
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return {redis.call('GET', KEYS[2]), 0}
