-- Decides a batch of tickets in one run. Twin of ticket.go.
--
-- KEYS     the states of all subjects, then all logs and sets of leases
-- ARGV[1]  the request, packed by wire.go
-- returns  the reply, packed: now, then for each ticket a status and its charges' states
--
-- A subject's fixed-size states share one value: a version byte, then slots of 27 bytes
--   fingerprint 7 | at 7 | life code 1 | a 7 | b 5
--
-- Redis does not roll back: everything that can fail is looked at before the first write.

local WINDOW, CALENDAR, COUNTER, BUCKET, LEAKY, LOG = 1, 2, 3, 4, 6, 7
local VERSION, SLOT, HOUR = 1, 27, 3600000
local LIMIT = 63                              -- bytes of a limit in the request
local DECIDED, CORRUPT, CLOCK = 0, 1, 2       -- statuses of a ticket
local FIXED, DATED, LOGGED = 0, 1, 2           -- how a charge keeps its state; 3 is leased

local pack, read, find, sub = struct.pack, struct.unpack, string.find, string.sub
local spread = unpack or table.unpack -- Lua 5.1, 5.4
local request = ARGV[1]
local clock = redis.call('TIME') -- once: two readings in one run may differ
clock = clock[1] * 1000000 + clock[2]
local subjects, tickets, pos = read('>HHI4', request)

-- Functions cost a run that does not need them more than a decision.
local open_log, weigh_log, finish_log, open_leases, weigh_leases, finish_leases
if #KEYS > subjects then
  -- A command that may find something else under the key than we put there. Returns nil then.
  local function look(...)
    local reply = redis.pcall(...)
    if type(reply) == 'table' and reply.err then
      if string.sub(reply.err, 1, 9) ~= 'WRONGTYPE' then error(reply.err) end
      return nil
    end
    return reply
  end

  --@include slidinglog
  --@include concurrency
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
-- The charges of the ticket at hand, so many numbers each.
local STRIDE = 10
local UNIT, OFFSET, COST, KEY, LIST, PASSES, AT, A, B, REPAIRED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local c = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
-- The limit at hand, and where it stands in the request.
local loaded, kind, flags, fingerprint, count, capacity, window, tick, ticks, full, drain, life, code

for _ = 1, tickets do
  -- A ticket, its first group and that group's first charge.
  local now, maxdelay, groups, subject, alone, charges, offset, cost, form
  now, maxdelay, groups, subject, alone, charges, offset, cost, form, pos =
    read('>I7I7BHBBI4I6B', request, pos)
  local given, floor = now > 0, 0 -- state written at a given instant must not expire on the real clock
  if given then floor = HOUR else now = clock end
  local n, units, failed = 0, 0, DECIDED -- unit 0 goes together, the others are groups alone
  for g = 1, groups do
    if g > 1 then
      subject, alone, charges, offset, cost, form, pos = read('>HBBI4I6B', request, pos)
    end
    units = units + alone
    for i = 1, charges do
      if i > 1 then offset, cost, form, pos = read('>I4I6B', request, pos) end
      c[n + UNIT], c[n + OFFSET], c[n + COST], c[n + KEY], c[n + LIST] = alone * units, offset, cost, subject, false
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
        if not opened then failed = CORRUPT end
        c[n + LIST] = opened
      end
      n = n + STRIDE
    end
  end

  for unit = 0, failed == DECIDED and units or -1 do
    local all = true
    for o = 0, n - 1, STRIDE do
      if c[o + UNIT] == unit then
        if c[o + OFFSET] ~= loaded then
          loaded = c[o + OFFSET]
          kind, flags, fingerprint, count, capacity, window, tick, ticks, full, drain, life, code =
            read('>BBc7I7I7I7I4I7I7I7I7B', request, loaded)
        end
        local passes
        local list, at, a, b, repaired = c[o + LIST], 0, 0, 0, false
        cost = c[o + COST]
        if list then
          if kind == LOG then
            if unit > 0 then list = open_log(list.key) end -- a group before may have written to it
            c[o + LIST] = list
            passes = weigh_log(list, count, window, now, cost)
            if list.damaged then failed = CORRUPT end
          else
            passes = weigh_leases(list, count, window, now, cost)
          end
        else
          local v = value[c[o + KEY]]
          local place = v and find(v, fingerprint, 2, true)
          while place and (place - 2) % SLOT ~= 0 do place = find(v, fingerprint, place + 1, true) end
          if place then
            local _
            at, _, a, b = read('>I7BI7I5', v, place + 7)
          end
          --@include weigh
        end
        c[o + PASSES], c[o + AT], c[o + A], c[o + B], c[o + REPAIRED] = passes, at, a, b, repaired
        all = all and passes
      end
    end
    if failed ~= DECIDED then break end

    for o = 0, n - 1, STRIDE do
      if c[o + UNIT] == unit then
        if c[o + OFFSET] ~= loaded then
          loaded = c[o + OFFSET]
          kind, flags, fingerprint, count, capacity, window, tick, ticks, full, drain, life, code =
            read('>BBc7I7I7I7I4I7I7I7I7B', request, loaded)
        end
        local list, key, at, a = c[o + LIST], c[o + KEY], c[o + AT], c[o + A]
        cost = c[o + COST]
        -- A peek writes nothing, nor does a cost that could never pass.
        local writes = cost > 0 and cost <= capacity
        if list then
          if kind == LOG then
            c[o + AT], c[o + A], c[o + B] =
              finish_log(list, count, window, flags == 1, now, cost, c[o + PASSES], all, writes, floor)
            if list.damaged then failed = CORRUPT end
          else
            c[o + AT], c[o + A], c[o + B] = finish_leases(list, count, window, now, cost, c[o + PASSES], all, floor)
          end
        elseif writes and (all or flags == 1 or c[o + REPAIRED]) then
          if not all then
            if flags == 1 then a = math.max(a, math.min(a + cost, count + 1)) end
          elseif kind == BUCKET or kind == LEAKY then
            a = a + cost * ticks
          else
            a = a + cost
          end
          c[o + A] = a
          local v, ttl = value[key], at + life - now
          if not v or (#v == 1 + SLOT and sub(v, 2, 8) == fingerprint) then -- no other slot is in it
            v = pack('>Bc7I7BI7I5', VERSION, fingerprint, at, code, a, c[o + B])
          else
            -- Other limits' slots stay, except those of limits no longer in use that say nothing any more.
            local slots = {pack('>Bc7I7BI7I5', VERSION, fingerprint, at, code, a, c[o + B])}
            for p = 2, #v, SLOT do
              local print, since, lives = read('>c7I7B', v, p)
              if lives < 8 then lives = lives * 16384
              else lives = (8 + lives % 8) * 2 ^ ((lives - lives % 8) / 8 - 1) * 16384 end
              if print ~= fingerprint and (given or since + lives > now) then
                slots[#slots + 1] = sub(v, p, p + SLOT - 1)
                if since + lives - now > ttl then ttl = since + lives - now end
              end
            end
            v = table.concat(slots)
          end
          value[key] = v
          ttl = ttl / 1000
          ttls[key] = math.max(floor, ttl - ttl % 1 + 2, ttls[key] or 0)
        end
      end
    end
  end

  parts = parts + 1
  if failed ~= DECIDED then
    replies[parts] = pack('>B', failed)
  else
    replies[parts] = pack('>BBI7I7I7', DECIDED, c[PASSES] and 1 or 0, c[AT], c[A], c[B])
    for o = STRIDE, n - 1, STRIDE do
      parts = parts + 1
      replies[parts] = pack('>BI7I7I7', c[o + PASSES] and 1 or 0, c[o + AT], c[o + A], c[o + B])
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
