-- Decides a ticket of one fixed-size limit, as most are: what several.lua does, without the list of items.
local key, v = subject, value[subject]
if v == nil then
  failed = CORRUPT
elseif form == DATED then
  --@include dated
end
if failed == DECIDED then
  --@include limit
  local at, a, b, kept, repaired, short, passes, departs = 0, 0, 0, code, false, false
  --@include state
  if kept < code and at + life > now then short = {at, a, b} end
  --@include weigh
  local all, amount = passes, cost
  local write = cost > 0 and cost <= capacity and (all or flags == 1 or repaired)
  if write then
    --@include charge
  end
  parts = parts + 1
  replies[parts] = pack('>BBI7I7I7', DECIDED, passes and 1 or 0, at, a, b)
  if write or short and not repaired then
    --@include keep
  end
end
