-- Sliding log as a sorted set: score = instant, member = cost before this entry
-- (6 bytes, cumulative, which also makes it unique and ordered) | cost (4 bytes).
--
-- KEYS[1] log; ARGV now, window (both microseconds), limit, cost
-- Returns {allowed, sum, instant at which a denied call would pass (-1 never), newest instant}
local key = KEYS[1]
local clock, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit, cost = tonumber(ARGV[3]), tonumber(ARGV[4])

local now, newest, total, sum, base = clock, 0, 0, 0, 0
local cutoff, oldest
local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
if last[1] then
  newest = tonumber(last[2])
  now = math.max(clock, newest)
  cutoff = string.format('%.0f', now - window)
  local before, own = struct.unpack('>I6I4', last[1])
  total = before + own
  oldest = redis.call('ZRANGEBYSCORE', key, '(' .. cutoff, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if oldest[1] then
    base = struct.unpack('>I6I4', oldest[1])
    sum = total - base
  else
    newest = 0
  end
end

if cost > limit then return {0, sum, -1, newest} end
if sum + cost > limit then
  local need = sum + cost - limit
  local _, own = struct.unpack('>I6I4', oldest[1])
  if own >= need then return {0, sum, tonumber(oldest[2]) + window, newest} end
  -- Bisect by rank: entry lo frees too little, entry hi enough.
  local lo, hi = redis.call('ZRANK', key, oldest[1]), redis.call('ZCARD', key) - 1
  local leaving = tonumber(last[2])
  while hi - lo > 1 do
    local mid = math.floor((lo + hi) / 2)
    local at = redis.call('ZRANGE', key, mid, mid, 'WITHSCORES')
    local before, c = struct.unpack('>I6I4', at[1])
    if before + c - base < need then lo = mid else hi, leaving = mid, tonumber(at[2]) end
  end
  return {0, sum, leaving + window, newest}
end
if cost == 0 then return {1, sum, 0, newest} end

if cutoff then redis.call('ZREMRANGEBYSCORE', key, '-inf', cutoff) end
redis.call('ZADD', key, string.format('%.0f', now), struct.pack('>I6I4', total, cost))
redis.call('PEXPIRE', key, math.ceil((now + window - clock) / 1000))
return {1, sum + cost, 0, now}
