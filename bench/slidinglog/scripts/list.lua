-- Sliding log as a list of 13-byte elements, oldest first: instant (7 bytes) |
-- cumulative cost, this entry included (6 bytes). Element 0 has always left the
-- window and holds the base of the sum.
--
-- KEYS[1] log; ARGV now, window (both microseconds), limit, cost
-- Returns {allowed, sum, instant at which a denied call would pass (-1 never), newest instant}
local WRAP = 281474976710656    -- 2^48: cumulative costs wrap, differences do not care

local key = KEYS[1]
local clock, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit, cost = tonumber(ARGV[3]), tonumber(ARGV[4])

local now, newest, total, base, base_total = clock, 0, 0, 0, 0
local live_newest, oldest_live = 0, nil
local last = redis.call('LINDEX', key, -1)
if last then
  newest, total = struct.unpack('>I7I6', last)
  now = math.max(clock, newest)
  local cutoff = now - window
  -- Each admission pops what it found expired, so the boundary is nearly
  -- always among the first three; after a pause it may be anywhere.
  local head = redis.call('LRANGE', key, 0, 2)
  local lo, hi = 0, #head
  while lo + 1 < hi and struct.unpack('>I7', head[lo + 2]) <= cutoff do lo = lo + 1 end
  local at = head[lo + 1]
  oldest_live = head[lo + 2]
  if lo == 2 then
    hi = redis.call('LLEN', key)
    while hi - lo > 1 do
      local mid = math.floor((lo + hi) / 2)
      local element = redis.call('LINDEX', key, mid)
      if struct.unpack('>I7', element) <= cutoff then lo, at = mid, element else hi, oldest_live = mid, element end
    end
  end
  base = lo
  base_total = struct.unpack('>I6', at, 8)
  if base_total ~= total then live_newest = newest end
end
local sum = (total - base_total) % WRAP

if cost > limit then return {0, sum, -1, live_newest} end
if sum + cost > limit then
  local need = sum + cost - limit
  local instant, cumulative = struct.unpack('>I7I6', oldest_live)
  if (cumulative - base_total) % WRAP >= need then return {0, sum, instant + window, live_newest} end
  -- Element lo frees too little, element hi enough.
  local lo, hi, leaving = base + 1, redis.call('LLEN', key) - 1, newest
  while hi - lo > 1 do
    local mid = math.floor((lo + hi) / 2)
    instant, cumulative = struct.unpack('>I7I6', redis.call('LINDEX', key, mid))
    if (cumulative - base_total) % WRAP < need then lo = mid else hi, leaving = mid, instant end
  end
  return {0, sum, leaving + window, live_newest}
end
if cost == 0 then return {1, sum, 0, live_newest} end

local added = struct.pack('>I7I6', now, (total + cost) % WRAP)
if last then
  if base > 0 then redis.call('LPOP', key, base) end
  redis.call('RPUSH', key, added)
else
  redis.call('RPUSH', key, struct.pack('>I7I6', 0, 0), added)
end
redis.call('PEXPIRE', key, math.ceil((now + window - clock) / 1000))
return {1, sum + cost, 0, now}
