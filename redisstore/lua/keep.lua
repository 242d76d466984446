-- Puts the state of the current limit into its subject's value v, to be written at the end. State that was only
-- read stays unchanged, and is kept for as long as its limit needs.
--
-- Setting the expiry of a key costs Redis as much as the rest of a write. So a state whose date moves with every
-- request is kept for an eighth longer than it needs, and its key's expiry is set once in every such eighth.
if not write then at, a, b = spread(short) end
local lasts, length = at == since, v and #v
--@include spare
if spare > 0 and not lasts then
  local cell, before = at / spare, since / spare
  lasts = cell - cell % 1 == before - before % 1
end
local ttl = at + life + spare - now
--@include slot
value[key] = v
if given or not lasts or #v ~= length then
  ttl = ttl / 1000
  ttls[key] = math.max(floor, ttl - ttl % 1 + 2, ttls[key] or 0)
elseif not ttls[key] then
  ttls[key] = 0
end
