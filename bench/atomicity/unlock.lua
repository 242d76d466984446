-- Deletes a lock only if it is still its holder's.
-- KEYS[1] the lock; ARGV[1] the token it was taken with. Returns 1 if deleted.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
