-- The guards of a group: twin of penalty.go and dedup.go, and the records of reservation.go.
--
--   record       first 7 | replays 1 | departs 7 | nonce 8
--   reservation  a field of a hash, under its nonce: closed 1 | until 7 | receipts
--   hold         another, of nine bytes: record 1 | until 7 | replaced record 23, if so | receipts
--   tombstone    another, the nonce and LOST: 0 | until 7. Its request was abandoned and takes nothing
--   receipt      fingerprint 7 | at 7 | cost 6

local REMEMBERS, RESERVES, SPENDS, HOLDS = 4, 8, 16, 32 -- bits of a guard; 1 is alone, 2 a penalty
local LOST = '\255' -- the number of no group
local FIRST, REPLAY, AGAIN = 1, 2, 3 -- what a hold says of the record: made, counted, or made in place of another

local function has(guard, bit) return guard.bits % (2 * bit) >= bit end

-- Reads the guard at pos of the request, and finds its record. Returns the position after it.
function open_guard(guard, at)
  guard.spends = has(guard, SPENDS)
  guard.departed, guard.high, guard.low, guard.departs = 0, 0, 0, 0
  local key
  if has(guard, REMEMBERS) then
    key, guard.ttl, guard.most, at = read('>HI7B', request, at)
    guard.remembers = KEYS[subjects + key]
    local record = look('GET', guard.remembers)
    if record == nil or record and #record ~= 23 then
      guard.corrupt = true
    elseif record then
      guard.record = record
      guard.first, guard.replays, guard.departed, guard.high, guard.low = read('>I7BI7I4I4', record)
    end
  end
  if has(guard, RESERVES) then
    key, guard.reserved, at = read('>HI7', request, at)
    guard.reserves, guard.receipts = KEYS[subjects + key], {}
  end
  if guard.remembers or guard.reserves then guard.nonce, at = read('>c8', request, at) end
  if guard.reserves then
    local tombstone = look('HGET', guard.reserves, guard.nonce .. LOST)
    if tombstone == nil then guard.corrupt = true end
    guard.closed = tombstone -- released as lost, before it arrived
  end
  if has(guard, HOLDS) then
    key, guard.held, guard.hold, at = read('>HI7c9', request, at)
    guard.holds, guard.receipts = KEYS[subjects + key], {}
    if look('HLEN', guard.holds) == nil then guard.corrupt = true end
  end
  return at
end

-- Sets a field of a hash, and extends the expiry of the hash to that of the field.
local function keep(key, field, text, lasts, now, floor)
  redis.call('HSET', key, field, text)
  if floor == 0 then -- tidy up a little: fields do not expire by themselves
    local some = redis.call('HRANDFIELD', key, 3, 'WITHVALUES')
    for i = 1, #some, 2 do
      if #some[i + 1] > 7 and read('>I7', some[i + 1], 2) <= now then redis.call('HDEL', key, some[i]) end
    end
  end
  local ttl = lasts / 1000
  ttl = math.max(floor, ttl - ttl % 1 + 2)
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, string.format('%.0f', ttl)) end
end

-- Whether the group is a duplicate, if its subject may have duplicates at all.
function recalls(guard, now)
  return not guard.banned and guard.record and guard.first <= now + guard.ttl and now < guard.first + guard.ttl
    and guard.replays < guard.most
end

--@include strike
--@include usage

-- How much of the current limit a cost takes that must be recorded.
function amount_of(list, cost, at, a, b, now, taken)
  if not taken then return cost end
  local used, reach = usage(list, at, a, b, now)
  return math.min(cost, reach - used)
end

-- Writes the record, the reservation and the hold of a group whose unit was decided.
function finish_guard(guard, taken, now, floor)
  if not taken then return end
  local how, replaced = 0, ''
  if guard.remembers then
    local first, replays, rest = now, 0, pack('>I7c8', guard.departs, guard.nonce)
    how = FIRST
    if guard.replay then
      how, first, replays, rest = REPLAY, guard.first, guard.replays + 1, sub(guard.record, 9)
    elseif guard.record then
      how, replaced = AGAIN, guard.record
    end
    local ttl = (first + guard.ttl - now) / 1000
    redis.call('SET', guard.remembers, pack('>I7B', first, replays) .. rest, 'PX',
      string.format('%.0f', math.max(floor, ttl - ttl % 1 + 2)))
  end
  local receipts = guard.receipts and table.concat(guard.receipts)
  if guard.reserves and guard.spends and not guard.replay then
    keep(guard.reserves, guard.nonce, pack('>BI7', 0, now + guard.reserved) .. receipts, guard.reserved, now, floor)
  end
  if guard.holds then
    keep(guard.holds, guard.hold, pack('>BI7', how, now + guard.held) .. replaced .. receipts, guard.held, now, floor)
  end
end
