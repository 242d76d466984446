-- Twin of leakybucket.go: a continuous bucket whose level is the queue before the call.

local function weigh_leaky(limit, now, cost, at, a, _, maxdelay)
  local repaired
  at, a, repaired = drain_bucket(limit, now, at, a)
  local passes = a + cost * limit.ticks <= limit.full
  if passes and cost > 0 then
    local departs = at
    if a > 0 then
      local wait, t = (a + limit.count - 1) / limit.count, at / limit.tick
      departs = (t - t % 1 + wait - wait % 1) * limit.tick
    end
    passes = departs - now <= maxdelay
  end
  return passes, at, a, 0, repaired
end
