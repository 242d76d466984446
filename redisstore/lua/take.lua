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
local DATED, LOGGED = 1, 2                 -- how an item keeps its state; 0 is a slot, 3 is leased
local PENAL, BUDGET, OVERDRAWN = 4, 8, 12  -- added to it: what the item is, if not a plain charge
local PASSED, REFUSED = '\5', '\6'         -- statuses of a ticket of one limit, before its slot

local pack, read, find, sub, byte = struct.pack, struct.unpack, string.find, string.sub, string.byte
local call = redis.call
local spread = unpack or table.unpack -- Lua 5.1, 5.4
local request = ARGV[1]
local clock = call('TIME') -- once: two readings in one run may differ
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
    if not v or byte(v) == VERSION and (#v - 1) % SLOT == 0 then value[1] = v end
  elseif sub(v.err, 1, 9) ~= 'WRONGTYPE' then
    error(v.err)
  end
elseif subjects > 1 then
  value = call('MGET', spread(KEYS, 1, subjects))
  local missing
  for i = 1, subjects do
    local v = value[i]
    if not v then
      missing = missing or {}
      missing[#missing + 1] = i
    elseif byte(v) ~= VERSION or (#v - 1) % SLOT ~= 0 then
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

local ttls = {false} -- of the subjects to write at the end, each once; 0: the key lives long enough already
local replies, parts = {pack('>I7', clock), ''}, 1
-- The items of the current ticket, a fixed number of values each.
local STRIDE = 15
local UNIT, OFFSET, COST, KEY, LIST, PASSES, AT, A, B, REPAIRED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local FORM, GUARD, AMOUNT, SHORT, SINCE = 11, 12, 13, 14, 15
local c = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0}

for _ = 1, tickets do
  -- A ticket, its first group and that group's first item.
  local now, maxdelay, groups, subject, alone, items, offset, cost, form
  now, maxdelay, groups, subject, alone, items, offset, cost, form, pos =
    read('>I7I7BHBBI4I6B', request, pos)
  local denied = groups > 127 -- elsewhere: the bit above the number
  if denied then groups = groups - 128 end
  local given, floor = now > 0, 0 -- state written at a given instant must not expire on the real clock
  if given then floor = HOUR else now = clock end
  local failed = DECIDED
  if groups == 1 and items == 1 and alone == 0 and form <= DATED and not denied then
    --@include single
  else
    --@include several
  end
  if failed ~= DECIDED then
    parts = parts + 1
    replies[parts] = pack('>B', failed)
  end
end

local last, text -- most end at the same time, and a number is slower to pass than a string
for key = 1, subjects do
  local ttl = ttls[key]
  if ttl == 0 then -- same length, same end: half the cost of SET
    call('SETRANGE', KEYS[key], '0', value[key])
  elseif ttl then
    if ttl ~= last then last, text = ttl, string.format('%.0f', ttl) end
    call('SET', KEYS[key], value[key], 'PX', text)
  end
end
return table.concat(replies, '', 1, parts)
