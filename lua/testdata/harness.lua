-- Runs the chunk in ARGV[1] and shows what it returns, or its error, as text.
-- Tables are shown in the order of their traversal.
local f, e = loadstring(ARGV[1], '@user_script')
if not f then return 'syntax error: ' .. e end
local G = _G
setfenv(f, setmetatable({}, {__index = function(_, k) return rawget(G, k) end}))
local function show(v, depth)
  local t = type(v)
  if t == 'string' then
    return string.format('%q', (string.gsub(v, '0x%x%x%x%x%x%x%x+', '0x')))
  elseif t == 'number' then
    return string.format('%.17g', v)
  elseif t == 'table' then
    if depth > 3 then return '{...}' end
    local out = {}
    for k, x in next, v do
      out[#out + 1] = '[' .. show(k, depth + 1) .. ']=' .. show(x, depth + 1)
    end
    return '{' .. table.concat(out, ',') .. '}'
  elseif t == 'nil' or t == 'boolean' then
    return tostring(v)
  end
  return t
end
local function all(...)
  local out = {}
  for i = 1, select('#', ...) do
    out[i] = show((select(i, ...)), 0)
  end
  return table.concat(out, ' ')
end
return all(pcall(f))
