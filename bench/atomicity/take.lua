-- Takes one call from a sliding-window log: look and act in one run.
-- KEYS[1] the log; ARGV[1] limit; ARGV[2] window in microseconds; ARGV[3] a
-- member no other call uses. Returns 1 if allowed, 0 if not.
-- The instant is the server's, so callers with different clocks agree.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local window = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[3])
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(window / 1000)))
return 1
