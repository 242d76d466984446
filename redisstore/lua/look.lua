-- Runs a command on a key that may hold something that Penstock did not write. Returns nil if so.
function look(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    if string.sub(reply.err, 1, 9) ~= 'WRONGTYPE' then error(reply.err) end
    return nil
  end
  return reply
end
