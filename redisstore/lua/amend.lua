-- Changes earlier decisions: settles, releases or renews what a group took, bans or resets its
-- subject, undoes what a request took here before it was denied in another slot, charges requests
-- that were admitted without the store, or refunds. Twin of reservation.go.
--
-- KEYS     the state of the subject, its reservations (or the record of a late charge), then its logs
--          and permits
-- ARGV[1]  the request, packed by settle.go
-- returns  a status; then allowed and again, now, until, and for each charge ok and its state

local WINDOW, CALENDAR, COUNTER, BUCKET, LEAKY, LEASES, PENALTY = 1, 2, 3, 4, 6, 8, 9
local VERSION, SLOT, HOUR = 1, 27, 3600000
local LIMIT, RECEIPT, LONGEST = 70, 20, 172800000000
local DONE, CORRUPT, CLOCK, UNKNOWN, CLOSED = 0, 1, 2, 3, 4
local SETTLE, RELEASE, RENEW, BAN, RESET, UNDO, LATE, REFUND = 0, 1, 2, 3, 4, 5, 6, 7 -- verbs
local MAXLATE, MAXLOG, CLOSEDFOR = 1000, 100000, 10000000
local FIRST, REPLAY, AGAIN = 1, 2, 3
local LOST = '\255' -- behind a nonce: a tombstone
local DENY, DEBT = 0, 2 -- what becomes of an overage; 1 is allowed
local DATED, LOGGED, LEASED = 1, 2, 3

local pack, read, find, sub = struct.pack, struct.unpack, string.find, string.sub
local spread = unpack or table.unpack -- Lua 5.1, 5.4
local request = ARGV[1]
local now, verb, overage, nonce, hold, length, charges, record, pos = read('>I7BBc8c9I7BH', request)
local clock = redis.call('TIME')
local given, floor = now > 0, 0
if given then floor = HOUR else now = clock[1] * 1000000 + clock[2] end
local uncertain = verb == RELEASE and length > 0 -- the take's reply was lost: it may still arrive
local loaded, kind, flags, fingerprint, count, capacity, window, tick, ticks, full, most, drain, life, code

local look, open_log, weigh_log, finish_log, open_leases, weigh_leases, finish_leases, strike
--@include look
--@include slidinglog
--@include giveback
--@include concurrency
--@include usage
--@include late
--@include strike

local v = look('GET', KEYS[1])
if v == nil or v and (string.byte(v) ~= VERSION or (#v - 1) % SLOT ~= 0) then
  if verb ~= RESET then return pack('>B', CORRUPT) end
  v = false -- who asks for a reset wants to be rid of it
end

-- Writes the state of the current limit to the subject's value.
local lasts = 0
local function put(at, a, b)
  --@include spare
  local ttl = at + life + spare - now
  --@include slot
  lasts = math.max(lasts, ttl)
end

local function save()
  local ttl = lasts / 1000
  redis.call('SET', KEYS[1], v, 'PX', string.format('%.0f', math.max(floor, ttl - ttl % 1 + 2)))
end

-- The charges, a fixed number of values each. The plan is what to do with each if all of them can be settled.
local STRIDE, OFFSET, COST, LIST, OK, AT, A, B, MORE, PLAN = 9, 1, 2, 3, 4, 5, 6, 7, 8, 9
local c, last = {}, (charges - 1) * STRIDE
local only_leases, dated = true, true
for o = 0, last, STRIDE do
  local cost, form, list
  cost, form, list, pos = read('>I6BH', request, pos)
  c[o + OFFSET], c[o + COST], c[o + MORE], c[o + OK] = pos, cost, 0, true
  local starts = pos + LIMIT
  pos = starts
  if verb == RESET then
    if form == DATED then pos = pos + 28
    elseif form == LOGGED or form == LEASED then redis.call('DEL', KEYS[2 + list]) end
  elseif form == DATED then
    local from, _, _, to
    from, _, _, to, pos = read('>I7I7I7I7', request, starts)
    dated = dated and now >= from and now < to
  elseif form == LOGGED or form == LEASED then
    local opened
    if form == LOGGED then opened = open_log(KEYS[2 + list]) else opened = open_leases(KEYS[2 + list], nonce) end
    if not opened then return pack('>B', CORRUPT) end
    c[o + LIST] = opened
  end
  if verb == LATE then -- what is charged stands behind the limit: entries, or a state
    c[o + MORE] = pos
    pos = pos + (form == LOGGED and 13 * cost or 21)
  end
  only_leases = only_leases and form == LEASED
end
c[last + STRIDE + OFFSET] = pos -- the penalty, if the settlement is a strike
local function load(o)
  local offset = c[o + OFFSET]
  --@include limit
end

-- The state of the current limit, brought up to now.
local function advance()
  local cost, maxdelay, at, a, b, repaired, passes, departs, kept = 0, 0, 0, 0, 0
  --@include state
  local since = at
  if kind == PENALTY then
    --@include penalty
  else
    --@include weigh
  end
  return at, a, b, since
end

if not dated then return pack('>B', CLOCK) end

if verb == BAN then
  load(0)
  local at, a, b = advance()
  local level = (b - b % 16384) / 16384 % 16
  if length > 0 then at, a, b = now + length, length, 262144 + level * 16384
  else at, a, b = now, 0, level * 16384 end
  put(at, a, b)
  save()
  return pack('>BBI7I7', DONE, 1, now, length > 0 and at or 0)
end

if verb == RESET then
  redis.call('DEL', KEYS[2])
  local slots = {pack('>B', VERSION)}
  for p = 2, v and #v or 0, SLOT do
    local named = false
    for o = 0, last, STRIDE do
      load(o)
      named = named or sub(v, p, p + 6) == fingerprint
    end
    if not named then slots[#slots + 1] = sub(v, p, p + SLOT - 1) end
  end
  if #slots == 1 then redis.call('DEL', KEYS[1])
  else redis.call('SET', KEYS[1], table.concat(slots), 'KEEPTTL') end
  return pack('>BBI7I7', DONE, 1, now, 0)
end

if verb == LATE then
  local done = look('GET', KEYS[2])
  if done == nil then return pack('>B', CORRUPT) end
  for o = 0, done and -1 or last, STRIDE do
    load(o)
    local list = c[o + LIST]
    if list then
      weigh_log(list, now, 0)
      local ats, costs = late_entries(list, c[o + MORE], c[o + COST])
      c[o + PLAN] = #ats > 0 and plan_late(list, ats, costs)
      if list.damaged then return pack('>B', CORRUPT) end
    else
      local at, a, b = advance()
      local more, previous = add_late(at, a, b, read('>I7I7I7', request, c[o + MORE]))
      c[o + PLAN] = (more ~= a or previous ~= b) and {at = at, a = more, b = previous}
    end
  end
  if not done then
    local ttl = length / 1000
    redis.call('SET', KEYS[2], pack('>I7', now), 'PX', string.format('%.0f', math.max(floor, ttl - ttl % 1 + 2)))
    for o = 0, last, STRIDE do
      load(o)
      local plan = c[o + PLAN]
      if plan and c[o + LIST] then insert_late(c[o + LIST], plan)
      elseif plan then put(plan.at, plan.a, plan.b) end
    end
    if lasts > 0 then save() end
  end
  return pack('>BBI7I7', DONE, 1, now, 0)
end

if verb == REFUND then -- what was charged since the window began, to any client
  local parts = {}
  for o = 0, last, STRIDE do
    load(o)
    local at, a, b = advance()
    local left = math.max(0, a - c[o + COST] * (kind == BUCKET and ticks or 1))
    if left < a then put(at, left, b) end
    parts[#parts + 1] = pack('>BI7I7I7I6', 1, at, left, b, 0)
  end
  if lasts > 0 then save() end
  return pack('>BBI7I7', DONE, 1, now, 0) .. table.concat(parts)
end

local kept = look('HGET', KEYS[2], verb == UNDO and hold or nonce)
local how, closed, till, receipts = 0, 0, 0, {}
if kept and #kept >= 8 then
  how, till = read('>BI7', kept)
  local from = 9
  if verb ~= UNDO then closed = how
  elseif how == AGAIN then from = 32 end
  if closed > 1 or (#kept - from + 1) % RECEIPT ~= 0 then kept = nil end
  for p = from, kept and #kept or 0, RECEIPT do
    local print, at, cost = read('>c7I7I6', kept, p)
    receipts[print] = {at = at, cost = cost}
  end
elseif kept then
  kept = nil
end
if kept == nil then return pack('>B', CORRUPT) end
if kept and (till <= now or till > now + LONGEST) then kept, receipts = false, {} end
if verb == UNDO and kept and how ~= REPLAY then
  local reservation = look('HGET', KEYS[2], nonce)
  if reservation and string.byte(reservation) == 1 then receipts = {} end -- released before, as lost
end

-- Read everything first.
local acts = kept and closed == 0 and verb ~= RENEW -- settles, releases or undoes
local allowed, again, held, lost = true, kept and closed == 1, false, false
for o = 0, last, STRIDE do
  load(o)
  local list, at, a, b, since = c[o + LIST], 0, 0, 0, 0
  local receipt = receipts[fingerprint] or {at = 0, cost = 0}
  if kind == LEASES then
    weigh_leases(list, now, 1)
    held = held or list.held
    lost = lost or receipts[fingerprint] and not list.held
  else
    if closed == 1 and receipt.cost ~= c[o + COST] then again = false end
    if list then
      weigh_log(list, now, 0)
      if list.damaged then return pack('>B', CORRUPT) end
    else
      at, a, b, since = advance()
    end
    c[o + AT], c[o + A], c[o + B] = at, a, b
    if acts then
      local more = c[o + COST] - receipt.cost
      if verb == UNDO and flags == 1 then more = 0 end -- denied calls count
      if more > 0 then
        local used, reach = usage(list, at, a, b, now)
        c[o + MORE] = more
        if overage == DENY then
          c[o + OK] = more <= capacity - used
          allowed = allowed and c[o + OK]
        else
          if overage ~= DEBT then reach = capacity end
          more = math.min(more, math.max(0, reach - used))
        end
        if list then
          c[o + PLAN] = more
        elseif c[o + OK] then
          a = a + more * (kind == BUCKET and ticks or 1)
        end
      elseif list then
        c[o + PLAN] = more < 0 and plan_give_back(list, receipt.at, -more)
        if list.damaged then return pack('>B', CORRUPT) end
      elseif kind == LEAKY then -- to be undone: if nobody queued up behind
        if receipt.at == since then a = math.max(0, a + more * ticks) end
      elseif kind == BUCKET then
        local latest = math.max(now, at)
        if receipt.at <= latest and receipt.at + window > latest then a = math.max(0, a + more * ticks) end
      elseif receipt.at >= at then
        if receipt.at < at + window then a = math.max(0, a + more) end -- else a wrong clock dated it
      elseif kind == COUNTER and receipt.at >= at - window then
        b = math.max(0, b + more)
      end
      if not list then c[o + PLAN] = {a = a, b = b} end
    end
  end
end
if closed == 1 and kept and (not again or verb == RENEW) then return pack('>B', CLOSED) end
if not kept and not uncertain and (verb == UNDO or not (only_leases and (held or verb ~= RENEW))) then
  return pack('>B', UNKNOWN)
end
if verb == RENEW and kept and lost then return pack('>B', UNKNOWN) end
if not kept and not held then again = true end

-- Extends the expiry of a key to that of what was written to it.
local function outlive(key, length)
  local ttl = length / 1000
  ttl = math.max(floor, ttl - ttl % 1 + 2)
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, string.format('%.0f', ttl)) end
end

-- Then write, additions first: a server that is out of memory refuses a script's first write or none.
local ends = 0
if verb == UNDO then
  redis.call('HDEL', KEYS[2], hold, nonce)
  if how == REPLAY or how == FIRST or how == AGAIN then
    local key = KEYS[2 + record]
    local text = look('GET', key)
    if text and #text == 23 then
      local first, replays = read('>I7B', text)
      if how == REPLAY and replays > 0 then
        redis.call('SET', key, sub(text, 1, 7) .. pack('>B', replays - 1) .. sub(text, 9), 'KEEPTTL')
      elseif first == till - length and how == FIRST then
        redis.call('DEL', key)
      elseif first == till - length then
        redis.call('SET', key, sub(kept, 9, 31), 'KEEPTTL')
      end
    end
  end
elseif uncertain and not kept and not held then -- leave a tombstone: a take that arrives later takes nothing
  for o = 0, only_leases and last or -1, STRIDE do
    load(o)
    local short = math.min(length, window) -- later takes let the key live that long
    redis.call('ZADD', c[o + LIST].key, string.format('%.0f', -now - short), nonce)
    outlive(c[o + LIST].key, short)
  end
  if not only_leases then
    redis.call('HSET', KEYS[2], nonce .. LOST, pack('>BI7', 0, now + length))
    outlive(KEYS[2], length)
  end
elseif kept and closed == 0 and allowed then
  local text
  if verb == RENEW then
    ends = now + length
    text = pack('>BI7', 0, ends) .. sub(kept, 9)
  else
    local costs = {pack('>BI7', 1, math.min(till, now + CLOSEDFOR))}
    for o = 0, last, STRIDE do
      load(o)
      if kind ~= LEASES and c[o + COST] > 0 then costs[#costs + 1] = pack('>c7I7I6', fingerprint, 0, c[o + COST]) end
    end
    text = table.concat(costs)
  end
  redis.call('HSET', KEYS[2], nonce, text)
  if verb == RENEW then outlive(KEYS[2], length) end
end
if verb == SETTLE and record > 0 and acts and allowed then
  load(last + STRIDE)
  local at, a, b = advance()
  if b < 262144 or at <= now then
    at, a, b = strike(at, a, b, now)
    put(at, a, b)
  end
  if b >= 262144 then ends = at end
end
local writes = allowed and not again
local parts = {}
for o = 0, last, STRIDE do
  load(o)
  local list, at, a, b = c[o + LIST], c[o + AT], c[o + A], c[o + B]
  if kind == LEASES then
    if writes and verb == RENEW and list.held and (not kept or receipts[fingerprint]) then
      at, a, b = finish_leases(list, now, 1, true, true, true, floor)
      if not kept then ends = ends == 0 and now + window or math.min(ends, now + window) end
    else
      local ends_here = list.held and verb ~= RENEW and (verb ~= UNDO or receipts[fingerprint])
      if writes and ends_here then redis.call('ZREM', list.key, nonce) end
      weigh_leases(list, now, 0)
      at, a, b = finish_leases(list, now, 0, true, false, false, floor)
    end
  elseif list then
    local plan = writes and c[o + PLAN]
    if not c[o + OK] then
      at, a, b = finish_log(list, false, now, c[o + MORE], 0, false, false, false, floor)
    elseif plan and c[o + MORE] > 0 then
      at, a, b = finish_log(list, false, now, 0, plan, true, true, plan > 0, floor)
    else
      if plan then give_back_log(list, plan) end
      at, a, b = finish_log(list, false, now, 0, 0, true, false, false, floor)
    end
  elseif acts and writes then
    a, b = c[o + PLAN].a, c[o + PLAN].b
    put(at, a, b)
  end
  parts[#parts + 1] = pack('>BI7I7I7I6', c[o + OK] and 1 or 0, at, a, b, c[o + OK] and 0 or c[o + MORE])
end
if lasts > 0 then save() end
return pack('>BBI7I7', DONE, (allowed and 1 or 0) + (again and 2 or 0), now, ends) .. table.concat(parts)
