-- Publishes a text unless a newer one is there.
--
-- KEYS[1]  the hash, and the name of the channel
-- ARGV     version, checksum, text
-- returns  the version that is there now

local have = redis.call('HMGET', KEYS[1], 'version', 'checksum')
local version = tonumber(have[1] or '') or -1
if version > tonumber(ARGV[1]) then
  return have[1]
end
if have[1] ~= ARGV[1] or have[2] ~= ARGV[2] then
  redis.call('HSET', KEYS[1], 'version', ARGV[1], 'checksum', ARGV[2], 'text', ARGV[3])
  redis.call('PUBLISH', KEYS[1], ARGV[1])
end
return ARGV[1]
