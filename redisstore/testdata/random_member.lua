-- A sliding log whose members are the second and a number from the script's generator, seeded
-- alike for every run, as servers before 7.0 do themselves.
-- KEYS[1] the log; ARGV: now and window in µs, limit
math.randomseed(0)
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
local second = math.floor(now / 1000000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now), second .. '-' .. math.random())
return 1
