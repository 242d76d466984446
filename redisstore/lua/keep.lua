-- Puts the state of the current limit into its subject's value v, to be written at the end. State that was only
-- read stays unchanged, and is kept for as long as its limit needs.
if not write then at, a, b = spread(short) end
local ttl = at + life - now
--@include slot
value[key] = v
ttl = ttl / 1000
ttls[key] = math.max(floor, ttl - ttl % 1 + 2, ttls[key] or 0)
