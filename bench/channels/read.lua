-- read acknowledges what a handle says, if there is one, and fetches what comes next, as
-- CHREAD does. What MGET returns goes to the client as it is, which has to cut the id from
-- the content and to pass over holes: that costs this script least.
-- KEYS: the channel's clock, the subscriber's clock. ARGV: how keys of messages begin,
-- how many messages, milliseconds to live, the secret of handles, a handle or nothing.
local clocks = redis.call('MGET', KEYS[1], KEYS[2])
if not clocks[2] then
  return redis.error_reply('NOSUBSCRIBER no such subscriber')
end
local last, at = tonumber(clocks[1] or clocks[2]), tonumber(clocks[2])
local max = 9007199254740991
local function ahead(from, to) -- by how much, where the clock may have wrapped
  if to >= from then return to - from end
  return to - from + 2 * max + 1
end
local moved = false
if ARGV[5] ~= '' then
  local text, code = string.match(ARGV[5], '^(-?%d+)%.(%x+)$')
  if not text or redis.sha1hex(ARGV[4] .. KEYS[2] .. ' ' .. text) ~= code then
    return redis.error_reply('BADHANDLE the handle is malformed')
  end
  local to = tonumber(text)
  if ahead(at, to) <= ahead(at, last) and to ~= at then
    at, moved = to, true
    redis.call('SET', KEYS[2], text, 'PX', ARGV[3])
  end
end
if not moved then
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
local unread = ahead(at, last)
if unread == 0 then
  return {{}, 0, false}
end
local n = math.min(unread, tonumber(ARGV[2]))
local keys, prefix, position = {}, ARGV[1], at
for i = 1, n do
  position = position == max and -max or position + 1
  keys[i] = prefix .. string.format('%.0f', position)
end
local text = string.format('%.0f', position)
return {redis.call('MGET', unpack(keys)), unread > n and 1 or 0,
  text .. '.' .. redis.sha1hex(ARGV[4] .. KEYS[2] .. ' ' .. text)}
