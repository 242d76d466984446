-- Sets a slot (fingerprint, at, code, a, b) into a subject's value v, and makes ttl (µs) that of its
-- longest-lived slot. In place, as weigh.lua.
local slot = pack('>Bc7I7BI7I5', VERSION, fingerprint, at, code, a, b)
if not v or #v == 1 + SLOT and find(v, fingerprint, 2, true) == 2 then -- no other slot is in it
  v = slot
else
  -- Other slots stay, except expired ones of limits that are no longer in use.
  local slots = {slot}
  for p = 2, #v, SLOT do
    local print, date, lives = read('>c7I7B', v, p)
    if lives < 8 then lives = lives * 16384
    else lives = (8 + lives % 8) * 2 ^ ((lives - lives % 8) / 8 - 1) * 16384 end
    if print ~= fingerprint and (given or date + lives > now) then
      slots[#slots + 1] = sub(v, p, p + SLOT - 1)
      ttl = math.max(ttl, date + lives * 1.125 - now) -- with what keep.lua spares, whatever its limit is
    end
  end
  v = table.concat(slots)
end
