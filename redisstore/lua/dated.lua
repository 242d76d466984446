-- Fails the ticket if now is outside the calendar periods that the request brings for the limit at offset.
local first, _, _, last = read('>I7I7I7I7', request, offset + LIMIT)
if now < first or now >= last then failed = CLOCK end
