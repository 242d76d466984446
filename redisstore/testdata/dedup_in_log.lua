-- A sliding log that looks for the caller's request id among its own entries: an id it knows is
-- let through and given the current time.
-- KEYS[1] the log; ARGV: now and window in µs, limit, request id
local now, window, limit, id = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
if not redis.call('ZSCORE', KEYS[1], id) and redis.call('ZCARD', KEYS[1]) >= limit then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), id)
return 1
