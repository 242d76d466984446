-- Twin of slidinglog.go. The log is a list of 13-byte elements, oldest first: instant (7 bytes) and
-- running total of costs (6 bytes, which wraps: only differences count). Element 0 is the base.

local WRAP = 281474976710656

-- Returns nil if the key holds something else.
function open_log(key)
  local tail = look('LRANGE', key, -2, -1)
  if tail == nil then return nil end
  local log = {key = key, empty = #tail == 0, head = {}}
  if #tail > 0 then
    for i = 1, #tail do
      if #tail[i] ~= 13 then return nil end
    end
    log.newest, log.total = struct.unpack('>I7I6', tail[#tail])
    log.head = redis.call('LRANGE', key, 0, 2)
    if #tail == 2 then -- all of the newest entry may have been given back
      local before, total = struct.unpack('>I7I6', tail[1])
      if total == log.total then log.spent, log.before = true, before end
    end
  end
  return log
end

local function log_entry(log, i)
  local element = log.head[i + 1]
  if not element then element = redis.call('LINDEX', log.key, i) end
  if #element ~= 13 then
    log.damaged = true
    return 0, 0
  end
  return struct.unpack('>I7I6', element)
end

-- The last entry from lo on that has left the window (at <= cutoff) or, given a total, after
-- which more than `above` was spent. lo is one. Gallops, because the answer is usually near.
local function last_entry(log, lo, cutoff, total, above)
  local step, hi = 1, nil
  while not hi or hi - lo > 1 do
    local mid = lo + step
    if mid > 2 and not log.size then log.size = redis.call('LLEN', log.key) end
    local size = log.size or #log.head
    if not hi and mid >= size then hi = size end
    if hi and mid >= hi then
      mid = lo + (hi - lo - (hi - lo) % 2) / 2
      if mid == lo then break end
    end
    local at, sum = log_entry(log, mid)
    local is
    if total then is = (total - sum) % WRAP > above else is = at <= cutoff end
    if is then lo, step = mid, step * 2 else hi, step = mid, 1 end
  end
  return lo
end

function weigh_log(log, now, cost)
  log.at, log.base, log.sum, log.repaired = now, 0, 0, false
  if not log.empty then
    if log.newest > now then log.at = log.newest end
    log.base = last_entry(log, 0, log.at - window)
    local _, base = log_entry(log, log.base)
    log.sum = (log.total - base) % WRAP
    if log.newest - now > window then log.at, log.repaired = now, true end
  end
  return log.sum + cost <= count
end

-- Additions come before removals: a server that is out of memory refuses a script's first write
-- or none.
local function write_log(log, cost, now, floor)
  local key, total = log.key, log.total
  if log.repaired then
    total = log.sum
    redis.call('DEL', key)
    redis.call('RPUSH', key, struct.pack('>I7I6', 0, 0), struct.pack('>I7I6', now, total))
  elseif log.empty then
    total = 0
    redis.call('RPUSH', key, struct.pack('>I7I6', 0, 0))
  end
  if cost > 0 then
    local element = struct.pack('>I7I6', log.at, (total + cost) % WRAP)
    if log.spent and not log.repaired then -- it counts nothing: its place is taken
      redis.call('LSET', key, -1, element)
      if log.newest <= log.at - window then log.base = log.base - 1 end
    else
      redis.call('RPUSH', key, element)
    end
  end
  if log.base > 0 and not log.repaired then redis.call('LPOP', key, log.base) end
  if log.rest then redis.call('LSET', key, 0, struct.pack('>I7I6', 0, (total + cost - log.rest) % WRAP)) end
  local ttl = (log.at + window - now) / 1000
  redis.call('PEXPIRE', key, math.max(floor, ttl - ttl % 1 + 2))
end

-- Records the amount that the decision calls for, and returns the summary (at, a, b). cost is what
-- would have to pass.
function finish_log(log, count_denied, now, cost, amount, passes, taken, writes, floor)
  local newest, sum, wait = log.newest, log.sum, 0
  if log.spent then newest = log.before end
  if log.repaired then newest = now end
  local total, recorded = log.total, writes and (taken or count_denied)
  if recorded then
    if not taken then amount = math.min(amount, count) end
    newest, sum = log.at, sum + amount
    -- Denied costs are recorded only up to one above the limit, or up to a debt.
    local bound = math.max(count + 1, log.sum)
    if not taken and not log.empty and not log.repaired then
      total = (total + amount) % WRAP
      log.base = last_entry(log, log.base, nil, total, count)
      local _, base = log_entry(log, log.base)
      sum = (total - base) % WRAP
    end
    if not taken and sum > bound then log.rest, sum = bound, bound end
  end
  if not passes and cost <= count then
    if log.repaired then
      wait = now
    else
      local i = 1 + last_entry(log, log.base, nil, total, count - cost)
      if i < (log.size or #log.head) then wait = log_entry(log, i) else wait = log.at end
    end
  end
  if log.damaged then return 0, 0, 0 end -- seen only on the way: not ours to rewrite
  if recorded then
    write_log(log, amount, now, floor)
  elseif log.repaired and writes then
    write_log(log, 0, now, floor)
  end
  if sum == 0 then return 0, 0, 0 end
  return newest, sum, wait
end
