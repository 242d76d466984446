-- Reads the state of the limit at hand from a subject's value v.
local place = v and find(v, fingerprint, 2, true)
while place and (place - 2) % SLOT ~= 0 do place = find(v, fingerprint, place + 1, true) end
if place then
  local _
  at, _, a, b = read('>I7BI7I5', v, place + 7)
end
