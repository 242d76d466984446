-- Charges requests that were admitted without the store. Twin of latecharge.go.

-- Adds a late counter, dated from, to the state of the current limit, which is up to date.
local function add_late(at, a, b, from, more, previous)
  if kind == COUNTER then
    if from < at then
      previous = from >= at - window and more or 0
      more = 0
    end
    a = a + math.min(more, math.max(0, most - usage(nil, at, a, b, now)))
    local gone = (math.max(now, at) - at) / tick
    local room = math.max(0, most - a) * ticks / (ticks - (gone - gone % 1))
    return a, math.max(b, math.min(b + previous, most, room - room % 1))
  end
  if kind == WINDOW or kind == CALENDAR then
    if from < at then more = 0 end
  else
    local unit = kind == BUCKET and tick or window
    local t, u = at / unit, math.min(from, at) / unit
    local elapsed = (t - t % 1) - (u - u % 1)
    if elapsed >= drain then more = 0 else more = math.max(0, more - elapsed * count) end
  end
  return math.max(a, math.min(a + more, most)), b
end

-- The late entries that a log has room for and that still count, the newest first.
local function late_entries(log, offset, n)
  local ats, costs, at, room = {}, {}, log.at, math.min(most, MAXLOG) - log.sum
  local from, left = 0, math.max(0, log.at - window)
  log.start = log.base
  if not log.empty and not log.repaired then
    log.size = redis.call('LLEN', log.key)
    if log.size - 1 - log.base > MAXLATE then
      log.start = log.size - 1 - MAXLATE
      from = log_entry(log, log.start)
    end
  end
  for i = n - 1, 0, -1 do
    local when, cost = read('>I7I6', request, offset + 13 * i)
    at, cost = math.min(at, when), math.min(cost, room)
    if room <= 0 or at <= left or at < from then break end
    if cost > 0 then
      ats[#ats + 1], costs[#costs + 1] = at, cost
      room = room - cost
    end
  end
  return ats, costs
end

-- How to insert them: the elements from first on, rewritten.
local function plan_late(log, ats, costs)
  local k, old, total, first = #ats, {}, 0, 1
  if log.repaired then
    old, log.base = {pack('>I7I6', now, log.sum)}, 0
  elseif not log.empty then
    first = last_entry(log, log.start, ats[k]) + 1
    local _
    _, total = log_entry(log, first - 1)
    old = redis.call('LRANGE', log.key, first, -1)
  end
  local plan, more = {first = first, elements = {}}, 0
  local function put_late()
    more = more + costs[k]
    plan.elements[#plan.elements + 1] = pack('>I7I6', ats[k], (total + more) % WRAP)
    k = k - 1
  end
  for i = 1, #old do
    if #old[i] ~= 13 then
      log.damaged = true
      return nil
    end
    local when, sum = read('>I7I6', old[i])
    while k > 0 and ats[k] < when do put_late() end
    plan.elements[#plan.elements + 1] = pack('>I7I6', when, (sum + more) % WRAP)
    total = sum
  end
  while k > 0 do put_late() end
  return plan
end

local function insert_late(log, plan)
  if log.empty or log.repaired then
    redis.call('DEL', log.key)
    redis.call('RPUSH', log.key, pack('>I7I6', 0, 0))
  end
  rewrite_log(log, log.base, plan)
  local ttl = (log.at + window - now) / 1000
  redis.call('PEXPIRE', log.key, string.format('%.0f', math.max(floor, ttl - ttl % 1 + 2)))
end
