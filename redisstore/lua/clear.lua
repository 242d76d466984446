-- Announces to all nodes that a key was reset, or its ban lifted. The newest announcements are kept.
-- KEYS[1]  announcements by when they were made, in µs
-- ARGV     when, the announcement, how many are kept, for how many µs
local at, keep, life = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
if type(redis.pcall('ZADD', KEYS[1], ARGV[1], ARGV[2])) == 'table' then
  redis.call('DEL', KEYS[1]) -- not a sorted set
  redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', at - life))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('%.0f', at + life), '+inf')
local over = redis.call('ZCARD', KEYS[1]) - keep
if over > 0 then
  for _, oldest in ipairs(redis.call('ZRANGE', KEYS[1], 0, over - 1)) do
    redis.call('ZREM', KEYS[1], oldest)
  end
end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', life / 1000))
return 1
