-- A sound sliding log for one window: what is denied is not recorded.
-- KEYS[1] the log; ARGV: now and window in µs, limit, a member that no other call uses
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[4])
return 1
