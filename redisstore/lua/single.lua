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
  --@include since
  if kept < code and at + life > now then short = {at, a, b} end
  --@include weigh
  local all, amount, new = passes, cost
  local write = cost > 0 and cost <= capacity and (all or flags == 1 or repaired)
  if write then
    --@include charge
  else
    new = pack('>Bc7I7BI7I5', VERSION, fingerprint, at, code, a, b)
  end
  if write or short and not repaired then
    --@include keep
    if write then new = slot end
  end
  parts = parts + 2
  replies[parts - 1], replies[parts] = passes and PASSED or REFUSED, new
end
