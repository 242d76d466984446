-- Reads the state of the current limit from a subject's value v, and the life code it was kept with.
local place = v and find(v, fingerprint, 2, true)
while place and (place - 2) % SLOT ~= 0 do place = find(v, fingerprint, place + 1, true) end
if place then at, kept, a, b = read('>I7BI7I5', v, place + 7) end
