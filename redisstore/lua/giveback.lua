-- How to refund part of what was charged at an instant: the elements from first on, rewritten.
-- Returns nil if there is nothing to refund, because that instant has left the window.
-- Twin of Meter.ResettleLog.
local function plan_give_back(log, at, back)
  if log.empty or log.repaired then return nil end
  local stop = last_entry(log, log.base, at)
  local first = stop + 1
  while first - 1 > log.base and log_entry(log, first - 1) == at do first = first - 1 end
  if first > stop then return nil end
  local _, before = log_entry(log, first - 1)
  local _, total = log_entry(log, stop)
  back = math.min(back, (total - before) % WRAP)
  local left = (total - before) % WRAP - back
  local plan = {first = first, elements = {}, back = back, before = log_entry(log, first - 1)}
  local elements, last = redis.call('LRANGE', log.key, first, -1), before
  for i = 1, #elements do
    if #elements[i] ~= 13 then
      log.damaged = true
      return nil
    end
    local when, sum = struct.unpack('>I7I6', elements[i])
    if first + i - 1 <= stop then sum = before + math.min((sum - before) % WRAP, left)
    else sum = sum - back end
    sum = sum % WRAP
    -- Elements that no longer count are dropped, except the newest: it keeps the time.
    plan.spent = sum == last
    if not plan.spent or i == #elements then
      plan.elements[#plan.elements + 1] = struct.pack('>I7I6', when, sum)
    end
    if not plan.spent and i < #elements then plan.before = when end
    last = sum
  end
  return plan
end

-- Keeps the elements from base up to those of the plan, and appends the plan's.
local function rewrite_log(log, base, plan)
  redis.call('LTRIM', log.key, base, plan.first - 1)
  for i = 1, #plan.elements, 1000 do
    redis.call('RPUSH', log.key, spread(plan.elements, i, math.min(i + 999, #plan.elements)))
  end
end

local function give_back_log(log, plan)
  rewrite_log(log, 0, plan)
  log.sum, log.spent, log.before = log.sum - plan.back, plan.spent, plan.before
end
