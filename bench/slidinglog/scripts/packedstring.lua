-- Sliding log as one string of 13-byte entries, oldest first:
--   instant (7 bytes, big-endian, microseconds) | cumulative cost, this entry included (6 bytes)
-- Entry 0 has always left the window: its cumulative cost is the base of the sum.
-- A sum over the window is thus one subtraction, and every search is a bisection.
--
-- KEYS[1] log; ARGV now, window (both microseconds), limit, cost
-- Returns {allowed, sum, instant at which a denied call would pass (-1 never), newest instant}
local ENTRY, BLOCK = 13, 520    -- BLOCK: bytes per read, 40 entries
local WRAP = 281474976710656    -- 2^48: cumulative costs wrap, differences do not care

local key = KEYS[1]
local clock, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit, cost = tonumber(ARGV[3]), tonumber(ARGV[4])

-- The tail holds the newest entry, and all of a small log.
local block = redis.call('GETRANGE', key, -BLOCK, -1)
local whole = #block < BLOCK
local bytes = whole and #block or redis.call('STRLEN', key)
if bytes % ENTRY ~= 0 then
  return redis.error_reply('ERR sliding log: length is no multiple of 13')
end
local count = bytes / ENTRY
local from, held = count - #block / ENTRY, #block / ENTRY

local function entry(i)
  return struct.unpack('>I7I6', block, (i - from) * ENTRY + 1)
end

local function load_around(i)
  if i >= from and i < from + held then return end
  from = math.max(0, i - 20)
  block = redis.call('GETRANGE', key, from * ENTRY, from * ENTRY + BLOCK - 1)
  held = #block / ENTRY
end

-- The last entry that is `before` the boundary, given that lo is and hi is not.
-- The two after lo are tried first; then each block read is bisected in memory
-- before another one is fetched.
local function last_before(lo, hi, before)
  for _ = 1, 2 do
    if hi - lo <= 1 then return lo end
    load_around(lo + 1)
    if not before(lo + 1) then return lo end
    lo = lo + 1
  end
  while hi - lo > 1 do
    load_around(math.floor((lo + hi) / 2))
    local first, last = math.max(lo + 1, from), math.min(hi - 1, from + held - 1)
    local a, b = first - 1, last + 1
    while b - a > 1 do
      local mid = math.floor((a + b) / 2)
      if before(mid) then a = mid else b = mid end
    end
    if a >= first then lo = a end
    if b <= last then hi = b end
  end
  return lo
end

local newest, total, base, base_total = 0, 0, 0, 0
local now = clock
if count > 0 then
  newest, total = entry(count - 1)
  now = math.max(clock, newest)
  local cutoff = now - window
  local function left(i) return entry(i) <= cutoff end
  local lo, hi = 0, count
  -- A full log of unit costs has exactly `limit` live entries: look there first.
  local guess = count - 1 - limit
  if guess > 0 then
    load_around(guess)
    if left(guess) then lo = guess else hi = guess end
  end
  base = last_before(lo, hi, left)
  load_around(base)
  local _
  _, base_total = entry(base)
end
local sum = (total - base_total) % WRAP
local live_newest = base < count - 1 and newest or 0

if cost > limit then return {0, sum, -1, live_newest} end
if sum + cost > limit then
  local need = sum + cost - limit
  local blocking = 1 + last_before(base, count, function(i)
    local _, cumulative = entry(i)
    return (cumulative - base_total) % WRAP < need
  end)
  load_around(blocking)
  local leaving = entry(blocking)
  return {0, sum, leaving + window, live_newest}
end
if cost == 0 then return {1, sum, 0, live_newest} end

local added = struct.pack('>I7I6', now, (total + cost) % WRAP)
local ttl = math.ceil((now + window - clock) / 1000)
if count == 0 then
  redis.call('SET', key, struct.pack('>I7I6', 0, 0) .. added, 'PX', ttl)
elseif whole then
  -- Rewriting a small log costs one command and leaves no slack.
  redis.call('SET', key, string.sub(block, base * ENTRY + 1) .. added, 'PX', ttl)
elseif base * 2 > count then
  redis.call('SET', key, redis.call('GETRANGE', key, base * ENTRY, -1) .. added, 'PX', ttl)
else
  redis.call('APPEND', key, added)
  redis.call('PEXPIRE', key, ttl)
end
return {1, sum + cost, 0, now}
