-- A command that may find something else under the key than we put there. Returns nil then.
function look(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    if string.sub(reply.err, 1, 9) ~= 'WRONGTYPE' then error(reply.err) end
    return nil
  end
  return reply
end
