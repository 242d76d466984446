-- Records a node's heartbeat, and returns the nodes that are alive.
-- KEYS[1]  nodes, scored by the time of their last heartbeat
-- KEYS[2]  the nodes' descriptions of themselves, by name; versions without one are counted as before
-- ARGV     the node's name, for how many seconds its heartbeat is valid, its description; bounds of the
--          answer: how many nodes, the longest name, the longest description
-- Returns  how many there are; then for each its name, the age of its heartbeat in seconds, and its
--          description, '' if it has none
local now = tonumber(redis.call('TIME')[1])
local within = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - within)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + within, '+inf')
redis.call('PEXPIRE', KEYS[1], within * 2000)
local count = redis.call('ZCARD', KEYS[1])

-- Bad data here must not affect the count: if this is not a hash, it is replaced.
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
