-- The state after a strike. The penalty is loaded as the current limit: count is strikes within a
-- window, and capacity is the number of bans that follow it.
function strike(at, a, b, now)
  local strikes, level = b % 16384, (b - b % 16384) / 16384 % 16
  local last = math.max(now, at)
  local age = last - at + a
  if strikes == 0 or age >= window then strikes, age = 0, 0 end
  strikes = strikes + 1
  if strikes < count then return last, age, level * 16384 + strikes end
  local length = read('>I7', request, loaded + LIMIT + 7 * math.min(level, capacity - 1))
  return now + length, length, 262144 + math.min(level + 1, capacity) * 16384
end
