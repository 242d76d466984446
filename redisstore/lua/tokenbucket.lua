-- Twin of tokenbucket.go: a is what is missing from the bucket.

-- Continuous: a counts token * tick and drains by the count each tick.
local function drain_bucket(limit, now, at, a)
  if a > limit.full then a = limit.full end
  if at > now then
    if at - now > limit.window then return now, a, true end
    return at, a, false
  end
  local t, u = now / limit.tick, at / limit.tick
  local elapsed = (t - t % 1) - (u - u % 1)
  if elapsed >= limit.drain then return now, 0, false end
  a = a - elapsed * limit.count
  if a < 0 then a = 0 end
  return now, a, false
end

local function weigh_bucket(limit, now, cost, at, a)
  local repaired
  at, a, repaired = drain_bucket(limit, now, at, a)
  return a + cost * limit.ticks <= limit.full, at, a, 0, repaired
end

-- Interval: a counts tokens; the count is added at every multiple of the window.
local function weigh_interval(limit, now, cost, at, a)
  local repaired = false
  if a > limit.full then a = limit.full end
  if at > now then
    if at - now > limit.window then
      at, repaired = now - now % limit.window, true
    end
  else
    local start = now - now % limit.window
    local refills = (start - at) / limit.window
    refills = refills - refills % 1
    if refills >= limit.drain then
      a = 0
    else
      a = a - refills * limit.count
      if a < 0 then a = 0 end
    end
    at = start
  end
  return a + cost <= limit.full, at, a, 0, repaired
end
