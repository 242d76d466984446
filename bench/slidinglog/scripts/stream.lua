-- Sliding log as a stream: id = instant-cumulative cost (this entry included), field c = cost.
-- The cumulative cost orders entries of one instant, so no sequence is needed.
--
-- KEYS[1] log; ARGV now, window (both microseconds), limit, cost
-- Returns {allowed, sum, instant at which a denied call would pass (-1 never), newest instant}
local key = KEYS[1]
local clock, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit, cost = tonumber(ARGV[3]), tonumber(ARGV[4])

local function parse(item)
  local instant, cumulative = string.match(item[1], '(%d+)-(%d+)')
  return tonumber(instant), tonumber(cumulative), tonumber(item[2][2])
end

local function first_from(instant)
  return redis.call('XRANGE', key, string.format('%.0f', instant), '+', 'COUNT', 1)[1]
end

local now, newest, total, sum, base = clock, 0, 0, 0, 0
local oldest, oldest_instant, oldest_cost
local last_instant
local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
if last then
  newest, total = parse(last)
  last_instant = newest
  now = math.max(clock, newest)
  oldest = first_from(now - window + 1)
  if oldest then
    local cumulative
    oldest_instant, cumulative, oldest_cost = parse(oldest)
    base = cumulative - oldest_cost
    sum = total - base
  else
    newest = 0
  end
end

if cost > limit then return {0, sum, -1, newest} end
if sum + cost > limit then
  local need = sum + cost - limit
  if oldest_cost >= need then return {0, sum, oldest_instant + window, newest} end
  -- No access by rank: bisect over time. What has left once all up to instant t
  -- have left is the cost before the first entry after t.
  local lo, hi = oldest_instant - 1, last_instant
  while hi - lo > 1 do
    local mid = math.floor((lo + hi) / 2)
    local _, cumulative, c = parse(first_from(mid + 1))
    if cumulative - c - base < need then lo = mid else hi = mid end
  end
  return {0, sum, hi + window, newest}
end
if cost == 0 then return {1, sum, 0, newest} end

-- '~' drops whole nodes only: cheaper than '=', which marks entries one by one and frees as little.
redis.call('XADD', key, 'MINID', '~', string.format('%.0f', math.max(0, now - window + 1)),
  string.format('%.0f-%.0f', now, total + cost), 'c', cost)
redis.call('PEXPIRE', key, math.ceil((now + window - clock) / 1000))
return {1, sum + cost, 0, now}
