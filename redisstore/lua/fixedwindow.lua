-- Twin of fixedwindow.go: windows of one length, and calendar periods.
--
-- A weigh function takes a limit, now, the cost and a state (at, a, b) and returns whether the
-- cost passes, the state brought up to now, and whether a wrong clock had written it.
-- A state after now within one window is a clock that stepped back: time stands still. Further
-- ahead a wrong clock wrote it: it is dated anew.

local function weigh_window(limit, now, cost, at, a)
  local repaired = false
  if at > now then
    if at - now > limit.window then
      at, repaired = now - now % limit.window, true
    end
  else
    local start = now - now % limit.window
    if at < start then at, a = start, 0 end
  end
  return a + cost <= limit.count, at, a, 0, repaired
end

-- Redis knows no time zones: the caller sends the starts of four consecutive periods. Whether
-- now lies within them has been checked before.
local function period_start(limit, now)
  local starts = limit.starts
  local i = 3
  while starts[i] > now do i = i - 1 end
  return starts[i]
end

local function weigh_calendar(limit, now, cost, at, a)
  local repaired = false
  if at > now then
    if at - now > limit.window then
      at, repaired = period_start(limit, now), true
    end
  else
    local start = period_start(limit, now)
    if at < start then at, a = start, 0 end
  end
  return a + cost <= limit.count, at, a, 0, repaired
end
