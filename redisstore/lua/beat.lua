-- A node says that it is alive, and is told which are.
-- KEYS[1]  nodes by when they were last heard of
-- KEYS[2]  what they say of themselves, by name; versions that know nothing of it count as ever
-- ARGV     the node's name, for how many seconds it is believed, what it says of itself; of those
--          told: how many, the longest name, the longest saying
-- Returns  how many there are; then of each its name, how many seconds ago it was heard of, and what
--          it says, '' if nothing
local now = tonumber(redis.call('TIME')[1])
local within = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - within)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + within, '+inf')
redis.call('PEXPIRE', KEYS[1], within * 2000)
local count = redis.call('ZCARD', KEYS[1])

-- The count must not suffer from what is wrong here: if this is no hash, it gets to be one.
if type(redis.pcall('HSET', KEYS[2], ARGV[1], ARGV[3])) == 'table' then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
end
redis.call('PEXPIRE', KEYS[2], within * 2000)
-- What was said goes with the name, be it dropped here or by a version that knows only names. A few
-- at a time: every node sweeps.
if redis.call('HLEN', KEYS[2]) > count then
  for _, name in ipairs(redis.call('HRANDFIELD', KEYS[2], 64)) do
    if not redis.call('ZSCORE', KEYS[1], name) then
      redis.call('HDEL', KEYS[2], name)
    end
  end
end

local told = { tostring(count) }
local alive = redis.call('ZRANGE', KEYS[1], 0, ARGV[4] - 1, 'REV', 'WITHSCORES')
for i = 1, #alive, 2 do
  local name, said = alive[i], redis.call('HGET', KEYS[2], alive[i]) or ''
  if #name <= tonumber(ARGV[5]) then
    told[#told + 1] = name
    told[#told + 1] = tostring(now - tonumber(alive[i + 1]))
    told[#told + 1] = #said <= tonumber(ARGV[6]) and said or ''
  end
end
return told
