-- The fixed-size algorithms, inlined in take.lua where a charge is weighed. They are not functions,
-- because a script creates its functions again in every run, and that would cost a single request
-- as much as the decision itself.
--
-- In:   the limit's numbers, now, cost, maxdelay, and the state at, a, b
-- Out:  passes, the state brought up to now, and repaired; from a leaky bucket also departs
--
-- A state at most one window ahead of now means that the clock stepped back: time stands still.
-- One further ahead was written by a wrong clock: it gets the current time, even if denied.
-- All numbers are whole and below 2^53, where x - x % 1 is the exact quotient of a division.

if kind == BUCKET or kind == LEAKY then -- twin of tokenbucket.go, leakybucket.go
  if a > most then a = most end
  if at > now then
    if at - now > window then at, repaired = now, true end
  else
    local t, u = now / tick, at / tick
    local elapsed = (t - t % 1) - (u - u % 1)
    if elapsed >= drain then
      a = 0
    else
      a = a - elapsed * count
      if a < 0 then a = 0 end
    end
    at = now
  end
  passes = a + cost * ticks <= full
  if kind == LEAKY and passes and cost > 0 then
    departs = at
    if a > 0 then
      local wait, t = (a + count - 1) / count, at / tick
      departs = (t - t % 1 + (wait - wait % 1)) * tick
    end
    passes = departs - now <= maxdelay
  end
elseif kind == COUNTER then -- twin of slidingcounter.go; a is the current count, b the previous
  local left = ticks
  if at > now then
    if at - now > window then at, repaired = now - now % window, true end
  else
    local start = now - now % window
    if at ~= start then
      if at == start - window then b = a else b = 0 end
      at, a = start, 0
    end
  end
  if at < now then
    local gone = (now - at) / tick
    left = left - (gone - gone % 1)
  end
  -- If the sum is not exact, it is far above full.
  passes = b * left + (a + cost) * ticks <= full
elseif kind == WINDOW or kind == CALENDAR then -- twin of fixedwindow.go, calendar.go
  local start
  if kind == WINDOW then
    start = now - now % window
  else -- that now lies within the starts was seen to before
    local s1, s2, s3 = read('>I7I7I7', request, loaded + LIMIT)
    start = now >= s3 and s3 or now >= s2 and s2 or s1
  end
  if at > now then
    if at - now > window then at, repaired = start, true end
  elseif at < start then
    at, a = start, 0
  end
  passes = a + cost <= count
else -- INTERVAL: twin of tokenbucket.go
  if a > most then a = most end
  local start = now - now % window
  if at > now then
    if at - now > window then at, repaired = start, true end
  else
    local refills = (start - at) / window
    refills = refills - refills % 1
    if refills >= drain then
      a = 0
    else
      a = a - refills * count
      if a < 0 then a = 0 end
    end
    at = start
  end
  passes = a + cost <= full
end
