-- Adds an amount to the state of the current limit. If it does not pass, it counts only where denied requests do.
if not all then
  if flags == 1 then a = math.max(a, math.min(a + amount, count + 1)) end
elseif kind == BUCKET or kind == LEAKY then
  a = a + amount * ticks
else
  a = a + amount
end
