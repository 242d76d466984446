-- A sliding counter that lets a call pass while the estimate without it is below the limit.
-- KEYS[1] a hash of counts by window; ARGV: now and window in µs, limit
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local current = math.floor(now / window)
local function count(i) return tonumber(redis.call('HGET', KEYS[1], string.format('%.0f', i)) or 0) end
local estimate = count(current - 1) * (1 - now % window / window) + count(current)
if estimate >= tonumber(ARGV[3]) then return 0 end
redis.call('HINCRBY', KEYS[1], string.format('%.0f', current), 1)
return 1
