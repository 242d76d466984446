-- As weigh.lua, for a penalty. Twin of penalty.go; a window is what strikes count within.
if at + drain <= now then
  at, a, b = 0, 0, 0
else
  local reach = window
  if b >= 262144 then reach = a end -- banned: a is how long
  if at - now > reach then
    at, repaired = now, true
    if b >= 262144 then at = now + a end
  end
end
passes = b < 262144 or at <= now
