-- A node says that it is alive, and is told how many are.
-- KEYS[1]  nodes by when they were last heard of
-- ARGV     the node's name, for how many seconds it is believed
local now = tonumber(redis.call('TIME')[1])
local within = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - within)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + within, '+inf')
redis.call('PEXPIRE', KEYS[1], within * 2000)
return tostring(redis.call('ZCARD', KEYS[1]))
