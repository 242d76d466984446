-- How much longer than it needs a state of the current limit is kept: 0 if its date is that of a window, which
-- stays the same until the next window.
local spare = kind > COUNTER and life / 8 or 0
