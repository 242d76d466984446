-- Loads the limit at offset, unless it is the current one.
if offset ~= loaded then
  loaded = offset
  kind, flags, fingerprint, count, capacity, window, tick, ticks, full, most, drain, life, code =
    read('>BBc7I7I7I7I4I7I7I7I7I7B', request, loaded)
end
