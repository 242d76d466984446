-- Decides a ticket of any number of limits: reads them all, then weighs and charges the groups that go together.
local n, units, guards = 0, 0, nil -- unit 0 goes together, the others are groups alone
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
    if form <= DATED then
      if value[subject] == nil then
        failed = CORRUPT
      elseif form == DATED then
        --@include dated
      end
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
      offset = c[o + OFFSET]
      --@include limit
      local passes, departs
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
        local v, kept = value[c[o + KEY]], code
        --@include state
        --@include since
        c[o + SINCE] = since
        if kept < code and at + life > now then short = {at, a, b} end -- a faster limit has set its end
        if kind == PENALTY then
          --@include penalty
        else
          --@include weigh
        end
        if guard and departs then guard.departs = math.max(guard.departs, departs) end
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
      offset = c[o + OFFSET]
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
        --@include charge
      end
      c[o + AT], c[o + A], c[o + B] = at, a, b
      if write or c[o + SHORT] then
        local v, short, since = value[key], c[o + SHORT], c[o + SINCE]
        --@include keep
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

if failed == DECIDED then
  local first = 0
  parts = parts + 1
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
