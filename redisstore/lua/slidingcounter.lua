-- Twin of slidingcounter.go: a is the current window's count, b the previous one's.

local function weigh_counter(limit, now, cost, at, a, b)
  local repaired = false
  local left = limit.ticks
  if at > now then
    if at - now > limit.window then
      at, repaired = now - now % limit.window, true
    end
  else
    local start = now - now % limit.window
    if at ~= start then
      if at == start - limit.window then b = a else b = 0 end
      at, a = start, 0
    end
  end
  if at < now then
    local gone = (now - at) / limit.tick
    left = left - (gone - gone % 1)
  end
  -- Products of sound numbers stay below 2^53. Where a sum does not, it is above full as well.
  return b * left + (a + cost) * limit.ticks <= limit.full, at, a, b, repaired
end
