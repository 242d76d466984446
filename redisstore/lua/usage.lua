-- How much of the current limit a state uses, and the most it could use, overdraft included.
local function usage(list, at, a, b, now)
  if list then return list.sum, most end
  if kind == BUCKET then
    local used = (a + ticks - 1) / ticks
    return used - used % 1, most / ticks
  end
  if kind == COUNTER then
    local gone = (math.max(now, at) - at) / tick
    local fading = (b * (ticks - (gone - gone % 1)) + ticks - 1) / ticks
    return a + (fading - fading % 1), most -- a + fading is not exact
  end
  return a, most
end
