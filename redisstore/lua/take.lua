-- Decides a batch of tickets in one run. Twin of ticket.go.
--
-- KEYS     the states of all subjects, then everything else: logs, permits, records, reservations
-- ARGV[1]  the request, packed by wire.go
-- returns  the reply, packed: now, then for each ticket a status and its items' states
--
-- The items of a group are its penalty, the budget of its duplicates, and its charges.
--
-- A subject's fixed-size states share one value: a version byte, then slots of 27 bytes
--   fingerprint 7 | at 7 | life code 1 | a 7 | b 5
--
-- Redis does not roll back: everything that can fail is read before the first write.

local WINDOW, CALENDAR, COUNTER, BUCKET, LEAKY, LOG, LEASES, PENALTY = 1, 2, 3, 4, 6, 7, 8, 9
local VERSION, SLOT, HOUR = 1, 27, 3600000
local LIMIT = 70                           -- bytes of a limit in the request
local DECIDED, CORRUPT, CLOCK, CLOSED = 0, 1, 2, 4 -- statuses of a ticket
local FIXED, DATED, LOGGED = 0, 1, 2       -- how an item keeps its state; 3 is leased
local PENAL, BUDGET, OVERDRAWN = 4, 8, 12  -- added to it: what the item is, if not a plain charge

local pack, read, find, sub = struct.pack, struct.unpack, string.find, string.sub
local spread = unpack or table.unpack -- Lua 5.1, 5.4
local request = ARGV[1]
local clock = redis.call('TIME') -- once: two readings in one run may differ
clock = clock[1] * 1000000 + clock[2]
local subjects, tickets, extras, pos = read('>HHBI4', request)
-- The current limit, and its position in the request.
local loaded, kind, flags, fingerprint, count, capacity, window, tick, ticks, full, most, drain, life, code

-- Creating these functions costs more than a decision, so runs that do not need them skip them.
local look, open_log, weigh_log, finish_log, open_leases, weigh_leases, finish_leases
local open_guard, recalls, strike, amount_of, finish_guard
if #KEYS > subjects then
  --@include look
  --@include slidinglog
  --@include concurrency
end
if extras > 0 then
  --@include guards
end

local value = {} -- of each subject: a string, false if missing, nil if it is not ours
if subjects == 1 then
  local v = redis.pcall('GET', KEYS[1])
  if type(v) ~= 'table' then
    if not v or string.byte(v) == VERSION and (#v - 1) % SLOT == 0 then value[1] = v end
  elseif sub(v.err, 1, 9) ~= 'WRONGTYPE' then
    error(v.err)
  end
elseif subjects > 1 then
  value = redis.call('MGET', spread(KEYS, 1, subjects))
  local missing
  for i = 1, subjects do
    local v = value[i]
    if not v then
      missing = missing or {}
      missing[#missing + 1] = i
    elseif string.byte(v) ~= VERSION or (#v - 1) % SLOT ~= 0 then
      value[i] = nil
    end
  end
  if missing then -- MGET is silent on keys that hold something else than a string
    local names = {}
    for i = 1, #missing do names[i] = KEYS[missing[i]] end
    if redis.call('EXISTS', spread(names)) > 0 then
      for i = 1, #missing do
        if redis.call('EXISTS', names[i]) > 0 then value[missing[i]] = nil end
      end
    end
  end
end

local ttls = {false} -- of the subjects to write at the end, each once
local replies, parts = {pack('>I7', clock), ''}, 1
-- The items of the current ticket, a fixed number of values each.
local STRIDE = 14
local UNIT, OFFSET, COST, KEY, LIST, PASSES, AT, A, B, REPAIRED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local FORM, GUARD, AMOUNT, SHORT = 11, 12, 13, 14
local c = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false}

for _ = 1, tickets do
  -- A ticket, its first group and that group's first item.
  local now, maxdelay, groups, subject, alone, items, offset, cost, form
  now, maxdelay, groups, subject, alone, items, offset, cost, form, pos =
    read('>I7I7BHBBI4I6B', request, pos)
  local denied = groups > 127 -- elsewhere: the bit above the number
  if denied then groups = groups - 128 end
  local given, floor = now > 0, 0 -- state written at a given instant must not expire on the real clock
  if given then floor = HOUR else now = clock end
  local n, units, failed, guards = 0, 0, DECIDED, nil -- unit 0 goes together, the others are groups alone
  for g = 1, groups do
    if g > 1 then
      subject, alone, items, offset, cost, form, pos = read('>HBBI4I6B', request, pos)
    end
    local guard = false
    if alone > 1 then
      guard = {bits = alone}
      alone = alone % 2
      guards = guards or {}
      guards[#guards + 1] = guard
    end
    units = units + alone
    for i = 1, items do
      if i > 1 then offset, cost, form, pos = read('>I4I6B', request, pos) end
      c[n + UNIT], c[n + OFFSET], c[n + COST], c[n + KEY], c[n + LIST] = alone * units, offset, cost, subject, false
      c[n + FORM], c[n + GUARD] = form, guard
      if form > 3 then form = form % 4 end
      if form == FIXED then
        if value[subject] == nil then failed = CORRUPT end
      elseif form == DATED then
        local first, _, _, last = read('>I7I7I7I7', request, offset + LIMIT)
        if value[subject] == nil then failed = CORRUPT
        elseif now < first or now >= last then failed = CLOCK end
      else
        local list, nonce
        list, nonce, pos = read('>Hc8', request, pos)
        local opened
        if form == LOGGED then opened = open_log(KEYS[subjects + list])
        else opened = open_leases(KEYS[subjects + list], nonce) end
        if not opened then failed = CORRUPT
        elseif opened.lost then failed = CLOSED end
        c[n + LIST] = opened
      end
      n = n + STRIDE
    end
    if guard then
      guard.unit = alone * units
      pos = open_guard(guard, pos)
      if guard.corrupt then failed = CORRUPT
      elseif guard.closed then failed = CLOSED end
    end
  end

  for unit = 0, failed == DECIDED and units or -1 do
    local all = unit > 0 or not denied
    for o = 0, n - 1, STRIDE do
      if c[o + UNIT] == unit then
        --@include limit
        local passes
        local list, at, a, b, repaired, short = c[o + LIST], 0, 0, 0, false, false
        local guard = c[o + GUARD]
        form, cost = c[o + FORM], c[o + COST]
        if form >= OVERDRAWN and cost > 1 then cost = 1 end -- passes if anything is left
        if guard and guard.replay and kind ~= LEASES then cost = 0 end -- a duplicate takes only permits
        if list then
          if kind == LOG then
            if unit > 0 then list = open_log(list.key) end -- a group before may have written to it
            c[o + LIST] = list
            passes = weigh_log(list, now, cost)
            if list.damaged then failed = CORRUPT end
          else
            passes = weigh_leases(list, now, cost)
          end
        else
          local v, lives = value[c[o + KEY]], code
          --@include state
          if lives < code and at + life > now then short = {at, a, b} end -- a faster limit has set its end
          --@include weigh
        end
        c[o + PASSES], c[o + AT], c[o + A], c[o + B], c[o + REPAIRED] = passes, at, a, b, repaired
        c[o + SHORT] = not repaired and short
        if not guard then
          all = all and passes
        elseif form == PENAL then
          guard.banned = not passes
          all = all and passes
        elseif form >= BUDGET and form < OVERDRAWN then
          guard.replay = passes and recalls(guard, now)
        elseif guard.replay then
          all = all and (passes or cost == 0)
        else
          all = all and passes
          guard.denied = guard.denied or cost > 0 and not passes
          guard.never = guard.never or cost > capacity and kind ~= LEASES
        end
      end
    end
    if failed ~= DECIDED then break end

    for o = 0, n - 1, STRIDE do
      if c[o + UNIT] == unit then
        --@include limit
        local list, key, at, a, b = c[o + LIST], c[o + KEY], c[o + AT], c[o + A], c[o + B]
        local guard, passes, amount = c[o + GUARD], c[o + PASSES], c[o + COST]
        form, cost = c[o + FORM], amount
        if form >= OVERDRAWN then
          if cost > 1 then cost = 1 end
          amount = amount_of(list, amount, at, a, b, now, all)
          c[o + AMOUNT] = amount
        end
        -- A peek and a cost that could never pass write nothing.
        local writes, write = cost > 0 and cost <= capacity, false
        if guard then
          if form == PENAL then
            writes, write = false, c[o + REPAIRED] and guard.spends and not guard.replay
            if guard.denied and not guard.banned and not guard.never then
              at, a, b = strike(at, a, b, now)
              write = true
            end
          elseif form >= BUDGET and form < OVERDRAWN then
            writes = guard.replay and all
          elseif guard.banned then
            writes = false
          elseif guard.replay and kind ~= LEASES then
            writes, cost = false, 0
          end
        end
        if list then
          if kind == LOG then
            at, a, b = finish_log(list, flags == 1, now, cost, amount, passes, all, writes, floor)
            if list.damaged then failed = CORRUPT end
          else
            writes = cost > 0 and not (guard and guard.banned)
            at, a, b = finish_leases(list, now, cost, passes, all, writes, floor)
          end
        elseif writes and (all or flags == 1 or c[o + REPAIRED]) then
          write = true
          if not all then
            if flags == 1 then a = math.max(a, math.min(a + amount, count + 1)) end
          elseif kind == BUCKET or kind == LEAKY then
            a = a + amount * ticks
          else
            a = a + amount
          end
        end
        c[o + AT], c[o + A], c[o + B] = at, a, b
        if write or c[o + SHORT] then
          -- State that was only read stays unchanged, and is kept for as long as its limit needs.
          if not write then at, a, b = spread(c[o + SHORT]) end
          local v, ttl = value[key], at + life - now
          --@include slot
          value[key] = v
          ttl = ttl / 1000
          ttls[key] = math.max(floor, ttl - ttl % 1 + 2, ttls[key] or 0)
        end
        if all and guard and guard.receipts and writes then
          guard.receipts[#guard.receipts + 1] =
            pack('>c7I7I6', fingerprint, kind == LEASES and now or math.max(now, at), kind == LEASES and 1 or amount)
        end
      end
    end
    if guards and failed == DECIDED then
      for i = 1, #guards do
        if guards[i].unit == unit then finish_guard(guards[i], all, now, floor) end
      end
    end
  end

  parts = parts + 1
  if failed ~= DECIDED then
    replies[parts] = pack('>B', failed)
  else
    local first = 0
    if not guards and c[FORM] < OVERDRAWN then
      replies[parts] = pack('>BBI7I7I7', DECIDED, c[PASSES] and 1 or 0, c[AT], c[A], c[B])
      first = STRIDE
    else
      replies[parts] = pack('>B', DECIDED)
    end
    for o = first, n - 1, STRIDE do
      parts = parts + 1
      form = c[o + FORM]
      if form >= OVERDRAWN then
        replies[parts] = pack('>BI7I7I7I6', c[o + PASSES] and 1 or 0, c[o + AT], c[o + A], c[o + B], c[o + AMOUNT])
      elseif form >= BUDGET then
        local guard = c[o + GUARD]
        replies[parts] = pack('>BI7I7I7', guard.replay and 1 or 0, guard.departed, guard.high, guard.low)
      else
        replies[parts] = pack('>BI7I7I7', c[o + PASSES] and 1 or 0, c[o + AT], c[o + A], c[o + B])
      end
    end
  end
end

local last, text -- most end at the same time, and a number is slower to pass than a string
for key = 1, subjects do
  local ttl = ttls[key]
  if ttl then
    if ttl ~= last then last, text = ttl, string.format('%.0f', ttl) end
    redis.call('SET', KEYS[key], value[key], 'PX', text)
  end
end
return table.concat(replies, '', 1, parts)
