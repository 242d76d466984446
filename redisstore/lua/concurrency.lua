-- Twin of concurrency.go. Leases are a sorted set: expiry by the nonce that took it.

local function open_leases(key)
  if type(redis.pcall('ZCARD', key)) ~= 'number' then return nil end
  return {key = key}
end

local function weigh_leases(limit, now, cost, leases, nonce)
  local after = string.format('(%.0f', now)
  leases.after, leases.live, leases.held, leases.repaired = after, 0, false, false
  leases.live = redis.call('ZCOUNT', leases.key, after, '+inf')
  if leases.live > 0 then
    leases.latest = tonumber(redis.call('ZRANGE', leases.key, -1, -1, 'WITHSCORES')[2])
    leases.repaired = leases.latest > now + limit.window
  end
  if cost == 0 then return leases.live <= limit.count end
  if leases.live < limit.count and leases.live == 0 then return true end
  local expiry = redis.call('ZSCORE', leases.key, nonce)
  leases.held = expiry and tonumber(expiry) > now
  return leases.live < limit.count or leases.held
end

local function finish_leases(limit, now, cost, leases, nonce, passes, taken, writes, floor)
  local key, live, latest = leases.key, leases.live, now + limit.window
  local expiry = string.format('%.0f', latest)
  if leases.repaired and writes then
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. expiry, '+inf')) do
      redis.call('ZADD', key, expiry, member)
    end
  end
  local at, wait = latest, 0
  if live > 0 and leases.latest < latest then at = leases.latest end
  if not passes then
    local skip = live - limit.count
    if cost == 0 then skip = skip - 1 end
    wait = math.min(latest, tonumber(redis.call('ZRANGEBYSCORE', key, leases.after, '+inf', 'WITHSCORES', 'LIMIT', skip, 1)[2]))
  end
  if taken and writes then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
    redis.call('ZADD', key, expiry, nonce)
    at = latest
    if not leases.held then live = live + 1 end
  end
  if writes and (taken or leases.repaired) then
    local ttl = limit.life / 1000
    redis.call('PEXPIRE', key, math.max(floor, ttl - ttl % 1 + 2))
  end
  if live == 0 then return 0, 0, 0 end
  return at, live, wait
end
