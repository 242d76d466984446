-- Twin of concurrency.go. Permits are a sorted set of nonces, scored by expiry. A negative score is a
-- tombstone: the request of that nonce was abandoned, and takes nothing if it arrives before -score.

-- Returns nil if the key holds something else.
function open_leases(key, nonce)
  local expiry = look('ZSCORE', key, nonce)
  if expiry == nil then return nil end
  return {key = key, nonce = nonce, lost = expiry and tonumber(expiry) < 0}
end

function weigh_leases(leases, now, cost)
  local key, after = leases.key, string.format('(%.0f', now)
  local live = redis.call('ZCOUNT', key, after, '+inf')
  leases.after, leases.live, leases.held, leases.repaired = after, live, false, false
  if live > 0 then
    leases.latest = tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
    leases.repaired = leases.latest > now + window
    if cost > 0 then
      local expiry = redis.call('ZSCORE', key, leases.nonce)
      leases.held = expiry and tonumber(expiry) > now
    end
  end
  if cost == 0 then return live <= count end
  return live < count or leases.held
end

-- Takes the permit if its ticket was allowed, and returns the summary (at, a, b).
function finish_leases(leases, now, cost, passes, taken, writes, floor)
  local key, live, latest = leases.key, leases.live, now + window
  local expiry = string.format('%.0f', latest)
  if leases.repaired and writes then
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. expiry, '+inf')) do
      redis.call('ZADD', key, expiry, member)
    end
  end
  local at, wait = latest, 0
  if live > 0 and leases.latest < latest then at = leases.latest end
  if not passes then
    local skip = live - count -- a call needs a free place below the limit, a peek passes at it
    if cost == 0 then skip = skip - 1 end
    local free = redis.call('ZRANGEBYSCORE', key, leases.after, '+inf', 'WITHSCORES', 'LIMIT', skip, 1)
    wait = math.min(latest, tonumber(free[2]))
  end
  if taken and writes then
    redis.call('ZADD', key, expiry, leases.nonce) -- first: refused where there is no memory
    redis.call('ZREMRANGEBYSCORE', key, string.format('%.0f', -now), string.format('%.0f', now))
    at = latest
    if not leases.held then live = live + 1 end
  end
  if writes and (taken or leases.repaired) then
    local ttl = window / 1000
    redis.call('PEXPIRE', key, math.max(floor, ttl - ttl % 1 + 2))
  end
  if live == 0 then return 0, 0, 0 end
  return at, live, wait
end
