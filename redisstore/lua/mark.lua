-- Writes a node's mark, and returns the one before.
-- KEYS[1]  the marks of the nodes, scored by when they were written, in ms; no TTL, so that policies that evict only
--          keys with one keep it
-- ARGV     the node's name, for how many ms a mark is kept
-- Returns  the mark before, '' if there is none, and the new one: each is later than the one before
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
if before and tonumber(before) >= now then
  now = tonumber(before) + 1
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
return { before or '', string.format('%.0f', now) }
