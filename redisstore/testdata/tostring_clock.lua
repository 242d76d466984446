-- A sliding log whose entries are named and dated by tostring of a microsecond clock.
-- KEYS[1] the log; ARGV: now and window in µs, limit
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', tostring(now - window))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], tostring(now), tostring(now))
return 1
