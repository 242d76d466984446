-- A sliding log that records every call first and counts afterwards.
-- KEYS[1] the log; ARGV: now and window in µs, limit, a member that no other call uses
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[4])
if redis.call('ZCARD', KEYS[1]) <= tonumber(ARGV[3]) then return 1 end
return 0
