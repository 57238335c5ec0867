-- Runs the snippet in ARGV[1] and prints what it returns, one value a line, so
-- that two interpreters can be compared by one string.
local function quote(s)
  return '"' .. string.gsub(s, '[%z%c"\\\127-\255]', function(c)
    return string.format('\\x%02x', string.byte(c))
  end) .. '"'
end

local function show(v, level)
  local kind = type(v)
  if kind == 'string' then return quote(v) end
  if kind == 'number' then
    if v ~= v then return 'nan' end
    return string.format('%.17g', v)
  end
  if kind == 'userdata' then return tostring(v) end
  if kind ~= 'table' then return kind == 'function' and kind or tostring(v) end
  if level > 40 then return '{...}' end
  local parts, n = {}, 0
  while rawget(v, n + 1) ~= nil do
    n = n + 1
    parts[n] = show(v[n], level + 1)
  end
  local rest = {}
  for k, e in pairs(v) do
    local inside = type(k) == 'number' and k >= 1 and k <= n and math.floor(k) == k
    if not inside then
      rest[#rest + 1] = '[' .. show(k, level + 1) .. ']=' .. show(e, level + 1)
    end
  end
  table.sort(rest)
  for _, p in ipairs(rest) do parts[#parts + 1] = p end
  return '{' .. table.concat(parts, ', ') .. '}'
end

local function lines(ok, ...)
  local n = select('#', ...)
  if not ok then
    local e = ...
    return 'error: ' .. (type(e) == 'string' and string.gsub(e, '[%z%c]', '?') or show(e, 0))
  end
  if n == 0 then return 'nothing' end
  local out = {}
  for i = 1, n do out[i] = show((select(i, ...)), 0) end
  return table.concat(out, '\n')
end

local f, e = loadstring(ARGV[1], '@user_script')
if not f then return 'does not compile: ' .. e end
return lines(pcall(f))
