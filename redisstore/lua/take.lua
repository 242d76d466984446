-- Decides a batch of tickets in one run. Twin of Ticket and Outcome.Settle in ticket.go.
--
-- KEYS     the states of all subjects, then all logs and sets of leases
-- ARGV[1]  the request, packed by wire.go
-- returns  the reply, packed: now, then for each ticket a status and its charges' states
--
-- A subject's fixed-size states share one value: a version byte, then slots of 27 bytes
--   fingerprint 7 | at 7 | life code 1 | a 7 | b 5
--
-- Redis does not roll back: everything that can fail is looked at before the first write.

local pack, unpack_, find, byte, sub = struct.pack, struct.unpack, string.find, string.byte, string.sub
local spread = unpack or table.unpack -- Lua 5.1, 5.4
local SLOT, HOUR = 27, 3600000
local CORRUPT, CLOCK = 1, 2
local WINDOW, CALENDAR, COUNTER, BUCKET, INTERVAL, LEAKY, LOG, LEASES = 1, 2, 3, 4, 5, 6, 7, 8
local DENIALS = 1 -- flag of a limit: denied calls are counted
local ALONE = 1   -- flag of a group

local request = ARGV[1]
local clock = redis.call('TIME') -- once: two readings in one run may differ
clock = clock[1] * 1000000 + clock[2]

-- The limits, each given once.
local limits, pos = {}, 1
local subjects, tickets, many
subjects, tickets, many, pos = unpack_('>HHH', request, pos)
for i = 1, many do
  local kind, flags, fingerprint, count, capacity, window, tick, drain, life, code
  kind, flags, fingerprint, count, capacity, window, tick, drain, life, code, pos =
    unpack_('>BBc7I7I7I7I4I7I7B', request, pos)
  local limit = {
    kind = kind, count_denied = flags == DENIALS, fingerprint = fingerprint, count = count, capacity = capacity,
    window = window, tick = tick, ticks = window / tick, drain = drain, life = life, code = code,
    full = capacity, unit = 1, -- what a cost of 1 adds to the state
  }
  if kind == BUCKET or kind == LEAKY then
    limit.weigh = kind == BUCKET and weigh_bucket or weigh_leaky
    limit.unit = limit.ticks
    limit.full = capacity * limit.ticks
  elseif kind == COUNTER then
    limit.weigh = weigh_counter
    limit.full = capacity * limit.ticks
  elseif kind == WINDOW then
    limit.weigh = weigh_window
  elseif kind == INTERVAL then
    limit.weigh = weigh_interval
  elseif kind == CALENDAR then
    limit.weigh = weigh_calendar
    local a, b, c, d
    a, b, c, d, pos = unpack_('>I7I7I7I7', request, pos)
    limit.starts = {a, b, c, d}
  end
  limits[i] = limit
end

-- The subjects. MGET says nothing of keys that hold something else than a string.
local value = {}
if subjects > 0 then
  value = redis.call('MGET', spread(KEYS, 1, subjects))
  local missing = {}
  for i = 1, subjects do
    local v = value[i]
    if not v then
      missing[#missing + 1] = i
    elseif byte(v) ~= 1 or (#v - 1) % SLOT ~= 0 then
      value[i] = nil
    end
  end
  if #missing > 0 then
    local names = {}
    for i = 1, #missing do names[i] = KEYS[missing[i]] end
    if redis.call('EXISTS', spread(names)) > 0 then
      for i = 1, #missing do
        if redis.call('EXISTS', names[i]) > 0 then value[missing[i]] = nil end
      end
    end
  end
end
local dirty, ttls = {}, {} -- subjects to write at the end, once each

local function slot_at(v, fingerprint)
  local p = find(v, fingerprint, 2, true)
  while p and (p - 2) % SLOT ~= 0 do p = find(v, fingerprint, p + 1, true) end
  return p
end

-- Puts a slot into a value that holds others too, and drops those of limits no longer in use
-- once they say nothing any more. Returns the value and how long from now it matters, in µs.
local function put_slot(v, fingerprint, slot, now, keep)
  local out, last = {'\1'}, 0
  for p = 2, #v, SLOT do
    local print, at, code = unpack_('>c7I7B', v, p)
    local life = code * 16384
    if code >= 8 then life = (8 + code % 8) * 2 ^ ((code - code % 8) / 8 - 1) * 16384 end
    if print ~= fingerprint and (keep or at + life > now) then
      out[#out + 1] = sub(v, p, p + SLOT - 1)
      if at + life - now > last then last = at + life - now end
    end
  end
  out[#out + 1] = slot
  return table.concat(out), last
end

local replies = {pack('>I7', clock)}
-- The charges of the ticket at hand.
local c_limit, c_cost, c_key, c_group, c_list, c_nonce = {}, {}, {}, {}, {}, {}
local c_passes, c_at, c_a, c_b, c_repaired, c_slot = {}, {}, {}, {}, {}, {}
local alone = {}
local now, maxdelay, given, floor

local function weigh(i)
  local limit, cost = c_limit[i], c_cost[i]
  if limit.kind == LOG then
    if alone[c_group[i]] then -- an earlier group may have written since it was opened
      c_list[i] = open_log(c_list[i].key)
      c_passes[i] = weigh_log(limit, now, cost, c_list[i])
    end
  elseif limit.kind == LEASES then
    c_passes[i] = weigh_leases(limit, now, cost, c_list[i], c_nonce[i])
  else
    local v = value[c_key[i]]
    local at, a, b = 0, 0, 0
    local p = v and slot_at(v, limit.fingerprint)
    c_slot[i] = p
    if p then
      local _
      at, _, a, b = unpack_('>I7BI7I5', v, p + 7)
    end
    c_passes[i], c_at[i], c_a[i], c_b[i], c_repaired[i] = limit.weigh(limit, now, cost, at, a, b, maxdelay)
  end
  return c_passes[i]
end

local function finish(i, taken)
  local limit, cost = c_limit[i], c_cost[i]
  -- A peek writes nothing, nor does a cost that could never pass.
  local writes = cost > 0 and (limit.kind == LEASES or cost <= limit.capacity)
  if limit.kind == LOG then
    c_at[i], c_a[i], c_b[i] = finish_log(limit, now, cost, c_list[i], c_passes[i], taken, writes, floor)
    return
  elseif limit.kind == LEASES then
    c_at[i], c_a[i], c_b[i] =
      finish_leases(limit, now, cost, c_list[i], c_nonce[i], c_passes[i], taken, writes, floor)
    return
  end
  if not writes then return end
  local a = c_a[i]
  if taken then
    a = a + cost * limit.unit
  elseif limit.count_denied then
    a = math.max(a, math.min(a + cost, limit.count + 1))
  elseif not c_repaired[i] then
    return
  end
  c_a[i] = a
  local key, at = c_key[i], c_at[i]
  local v, matters = value[key], at + limit.life - now
  if not v or (c_slot[i] and #v == 1 + SLOT) then -- nobody else's slot is in it
    v = pack('>Bc7I7BI7I5', 1, limit.fingerprint, at, limit.code, a, c_b[i])
  else
    local others
    v, others = put_slot(v, limit.fingerprint, pack('>c7I7BI7I5', limit.fingerprint, at, limit.code, a, c_b[i]), now, given)
    if others > matters then matters = others end
  end
  value[key] = v
  matters = matters / 1000
  matters = matters - matters % 1 + 2
  if matters < floor then matters = floor end
  if not dirty[key] then dirty[key], ttls[key] = true, matters
  elseif matters > ttls[key] then ttls[key] = matters end
end

for _ = 1, tickets do
  -- A ticket, its first group and that group's first charge.
  local groups, key, flags, charges, which, cost, list
  now, maxdelay, groups, key, flags, charges, which, cost, list, pos =
    unpack_('>I7I7BHBBHI6H', request, pos)
  given = now > 0
  floor = given and HOUR or 0
  if not given then now = clock end
  local n, failed, together = 0, 0, true
  for g = 1, groups do
    if g > 1 then
      key, flags, charges, which, cost, list, pos = unpack_('>HBBHI6H', request, pos)
    end
    alone[g] = flags == ALONE
    for c = 1, charges do
      if c > 1 then which, cost, list, pos = unpack_('>HI6H', request, pos) end
      n = n + 1
      local limit = limits[which]
      c_limit[n], c_cost[n], c_key[n], c_group[n] = limit, cost, key, g
      local kind = limit.kind
      if kind == LEASES then
        c_nonce[n], pos = unpack_('>c8', request, pos)
        c_list[n] = open_leases(KEYS[subjects + list])
        if not c_list[n] then failed = CORRUPT end
      elseif kind == LOG then
        local log = open_log(KEYS[subjects + list])
        if log then c_passes[n] = weigh_log(limit, now, cost, log) end
        if not log or log.damaged then failed = CORRUPT end
        c_list[n] = log
      elseif value[key] == nil then
        failed = CORRUPT
      elseif kind == CALENDAR and (now < limit.starts[1] or now >= limit.starts[4]) then
        failed = CLOCK
      end
    end
  end
  if failed > 0 then
    replies[#replies + 1] = pack('>B', failed)
  else
    for i = 1, n do
      if not alone[c_group[i]] and not weigh(i) then together = false end
    end
    for i = 1, n do
      if not alone[c_group[i]] then finish(i, together) end
    end
    local i = 1
    while i <= n do
      local g, from, passes = c_group[i], i, true
      while i <= n and c_group[i] == g do
        if alone[g] then
          if not weigh(i) then passes = false end
        end
        i = i + 1
      end
      if alone[g] then
        for j = from, i - 1 do finish(j, passes) end
      end
    end
    replies[#replies + 1] = '\0'
    for j = 1, n do
      replies[#replies + 1] = pack('>BI7I7I7', c_passes[j] and 1 or 0, c_at[j], c_a[j], c_b[j])
    end
  end
end

for key in pairs(dirty) do
  redis.call('SET', KEYS[key], value[key], 'PX', ttls[key])
end
return table.concat(replies)
