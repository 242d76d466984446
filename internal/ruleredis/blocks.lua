-- Adds and lifts blocks, and deletes those that ended long ago.
--
-- KEYS[1]  the hash: a version, which changes with every write, and the blocks by id
-- ARGV     new version, time to live in ms, number of blocks to add, id and text of each, ids to delete
--
-- A text begins with B for a block or L for a lifted one. A lifted block stays lifted.

local key, added = KEYS[1], tonumber(ARGV[3])
for i = 4, 2 + 2 * added, 2 do
  local have = redis.call('HGET', key, ARGV[i])
  if not have or (string.sub(have, 1, 1) == 'B' and string.sub(ARGV[i + 1], 1, 1) == 'L') then
    redis.call('HSET', key, ARGV[i], ARGV[i + 1])
  end
end
for i = 4 + 2 * added, #ARGV do
  redis.call('HDEL', key, ARGV[i])
end
redis.call('HSET', key, 'version', ARGV[1])
local ttl = tonumber(ARGV[2])
if redis.call('PTTL', key) < ttl then
  redis.call('PEXPIRE', key, ttl)
end
return 1
