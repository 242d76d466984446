-- Loads the limit of the item at o, unless it is the current one.
if c[o + OFFSET] ~= loaded then
  loaded = c[o + OFFSET]
  kind, flags, fingerprint, count, capacity, window, tick, ticks, full, most, drain, life, code =
    read('>BBc7I7I7I7I4I7I7I7I7I7B', request, loaded)
end
