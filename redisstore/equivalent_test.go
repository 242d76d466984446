package redisstore_test

import "slices"

// Reasons why a mutation of the script changes nothing that matters.
const (
	sameAtEqual   = "where both sides are equal, both branches come to the same"
	anotherSearch = "looks in another order, or asks for a length it knows: slower, and finds the same"
	savesWork     = "only saves work: the other branch does the same in general"
	millisecond   = "a key that is forgotten a millisecond later or sooner than an hour, or later than it could be"
	alreadyWhole  = "interval states are dated at multiples of the window, so the quotient is whole"
	belowGrain    = "microseconds of a stale slot's life, which is kept in units of 16 ms and ends in milliseconds"
	reservesMore  = "only leaves room between the charges' numbers, or lets two share one that are not needed at once"
	noneBetween   = "no number lies in between: forms, groups and strikes are far from it"
	writesNothing = "says what to write to who is told to write nothing"
)

// equivalents are the mutations that change no answer and no stored state, by their line.
var equivalents = []struct {
	line     string
	mistakes []string
	why      string
}{
	{"local VERSION, SLOT, HOUR = 1, 27, 3600000", []string{"3600001 for 3600000 at 36", "3599999 for 3600000 at 36"}, millisecond},
	{"if #KEYS > subjects then", []string{">= for > at 10"}, savesWork},
	{"log.head = redis.call('LRANGE', key, 0, 2)", []string{"3 for 2 at 41", "1 for 2 at 41"}, savesWork},
	{"while not hi or hi - lo > 1 do", []string{"+ for - at 20", ">= for > at 25"}, "the loop is left as soon as nothing lies between"},
	{"if mid > 2 and not log.size then log.size = redis.call('LLEN', log.key) end", []string{">= for > at 8", "1 for 2 at 10", "or for and at 12"}, anotherSearch},
	{"mid = lo + (hi - lo - (hi - lo) % 2) / 2", []string{"+ for - at 27"}, "sum and difference are both even or both odd"},
	{"if is then lo, step = mid, step * 2 else hi, step = mid, 1 end", []string{"3 for 2 at 35", "1 for 2 at 35"}, anotherSearch},
	{"if log.newest > now then log.at = log.newest end", []string{">= for > at 15"}, sameAtEqual},
	{"if log.base > 0 and not log.repaired then redis.call('LPOP', key, log.base) end", []string{">= for > at 13"}, "takes no element off the list"},
	{"redis.call('PEXPIRE', key, math.max(floor, ttl - ttl % 1 + 2))", []string{"3 for 2 at 60"}, millisecond},
	{"if cost > 0 then", []string{">= for > at 9"}, "looks up a lease that a peek makes no use of"},
	{"if live > 0 and leases.latest < latest then at = leases.latest end", []string{"<= for < at 31"}, sameAtEqual},
	{"elseif subjects > 1 then", []string{">= for > at 17"}, "one subject was dealt with before"},
	{"if redis.call('EXISTS', spread(names)) > 0 then", []string{">= for > at 40"}, savesWork},
	{"local STRIDE = 15", []string{"16 for 15 at 16"}, reservesMore},
	{"local FORM, GUARD, AMOUNT, SHORT, SINCE = 11, 12, 13, 14, 15", []string{"13 for 12 at 47", "12 for 13 at 51"}, reservesMore},
	{"return {key = key, nonce = nonce, lost = expiry and tonumber(expiry) < 0}", []string{"<= for < at 70"}, noneBetween},
	{"local PENAL, BUDGET, OVERDRAWN = 4, 8, 12", []string{"7 for 8 at 37", "11 for 12 at 40"}, noneBetween},
	{"local denied = groups > 127", []string{">= for > at 23", "128 for 127 at 25", "126 for 127 at 25"}, noneBetween},
	{"if groups == 1 and items == 1 and alone == 0 and form <= DATED and not denied then", []string{"< for <= at 55"}, savesWork},
	{"if form > 3 then form = form % 4 end", []string{">= for > at 9", "2 for 3 at 11"}, savesWork},
	{"if extras > 0 then", []string{">= for > at 11"}, savesWork},
	{"if unit > 0 then list = open_log(list.key) end", []string{">= for > at 9"}, "reads again what nobody has changed"},
	{"local place = v and find(v, fingerprint, 2, true)", []string{"1 for 2 at 42"}, "what is found at the version byte is not a slot's place"},
	{"if a > most then a = most end", []string{">= for > at 6"}, sameAtEqual},
	{"if at > now then", []string{">= for > at 7"}, sameAtEqual},
	{"if at < now then", []string{"<= for < at 7"}, sameAtEqual},
	{"if a < 0 then a = 0 end", []string{"<= for < at 6"}, sameAtEqual},
	{"if elapsed >= drain then", []string{"> for >= at 12"}, sameAtEqual},
	{"if refills >= drain then", []string{"> for >= at 12"}, sameAtEqual},
	{"if a > 0 then", []string{">= for > at 6"}, "an empty bucket's call departs at once either way"},
	{"refills = refills - refills % 1", []string{"left out", "+ for - at 19"}, alreadyWhole},
	{"if not v or #v == 1 + SLOT and find(v, fingerprint, 2, true) == 2 then",
		[]string{"- for + at 21", "3 for 2 at 53", "1 for 2 at 53", "3 for 2 at 65", "1 for 2 at 65"}, savesWork},
	{"if spare > 0 and not lasts then", []string{">= for > at 10", "or for and at 14"}, "a quotient of zero is equal to nothing, and a date is in the cell it is in"},
	{"if lives < 8 then lives = lives * 16384", []string{"<= for < at 10", "9 for 8 at 12"}, "code 8 means the same by both formulas"},
	{"if lives < 8 then lives = lives * 16384", []string{"16385 for 16384 at 35", "16383 for 16384 at 35"}, belowGrain},
	{"if print ~= fingerprint and (given or date + lives > now) then", []string{">= for > at 52"}, belowGrain},
	{"ttls[key] = math.max(floor, ttl - ttl % 1 + 2, ttls[key] or 0)", []string{"3 for 2 at 45", "+ for - at 33"}, millisecond},

	// Guards.
	{"if form >= OVERDRAWN and cost > 1 then cost = 1 end", []string{">= for > at 31"}, sameAtEqual},
	{"if cost > 1 then cost = 1 end", []string{">= for > at 9"}, sameAtEqual},
	{"if b >= 262144 then reach = a end", []string{"262143 for 262144 at 9"}, noneBetween},
	{"if b >= 262144 then at = now + a end", []string{"262143 for 262144 at 9"}, noneBetween},
	{"if b < 262144 or at <= now then", []string{"262143 for 262144 at 8"}, noneBetween},
	{"if b >= 262144 then ends = at end", []string{"262143 for 262144 at 9"}, noneBetween},
	{"passes = b < 262144 or at <= now", []string{"262143 for 262144 at 14"}, noneBetween},
	{"local some = redis.call('HRANDFIELD', key, 3, 'WITHVALUES')", []string{"4 for 3 at 44"}, "how many are looked at in passing"},
	{"if #some[i + 1] > 7 and read('>I7', some[i + 1], 2) <= now then redis.call('HDEL', key, some[i]) end",
		[]string{"< for <= at 53"}, "what ends at this very microsecond is tidied up the next time"},
	{"ttl = math.max(floor, ttl - ttl % 1 + 2)", []string{"+ for - at 27", "3 for 2 at 39"}, millisecond},
	{"if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, string.format('%.0f', ttl)) end", []string{"<= for < at 28"}, sameAtEqual},
	{"string.format('%.0f', math.max(floor, ttl - ttl % 1 + 2)))", []string{"+ for - at 43", "3 for 2 at 55"}, millisecond},
	{"if log.newest <= log.at - window then log.base = log.base - 1 end", []string{"+ for - at 25"}, "keeps an element that has left the window until the next write"},

	// Settlements.
	{"redis.call('SET', KEYS[1], v, 'PX', string.format('%.0f', math.max(floor, ttl - ttl % 1 + 2)))", []string{"+ for - at 79", "3 for 2 at 91"}, millisecond},
	{"redis.call('SET', KEYS[2], pack('>I7', now), 'PX', string.format('%.0f', math.max(floor, ttl - ttl % 1 + 2)))", []string{"+ for - at 94", "3 for 2 at 106"}, millisecond},
	{"redis.call('PEXPIRE', log.key, string.format('%.0f', math.max(floor, ttl - ttl % 1 + 2)))", []string{"+ for - at 74", "3 for 2 at 86"}, millisecond},
	{"local STRIDE, OFFSET, COST, LIST, OK, AT, A, B, MORE, PLAN = 9, 1, 2, 3, 4, 5, 6, 7, 8, 9", []string{"10 for 9 at 62"}, reservesMore},
	{"if first + i - 1 <= stop then sum = before + math.min((sum - before) % WRAP, left)", []string{"< for <= at 18"}, sameAtEqual},
	{"if not plan.spent and i < #elements then plan.before = when end", []string{"<= for < at 25"}, "asked for only if the newest counts nothing, and then it is not set there"},
	{"c[o + PLAN] = more < 0 and plan_give_back(list, receipt.at, -more)", []string{"<= for < at 20"}, "gives nothing back, and writes the log as it is"},
	{"at, a, b = finish_leases(list, now, 0, true, false, false, floor)", []string{"true for false at 46"}, writesNothing},
	{"at, a, b = finish_log(list, false, now, c[o + MORE], 0, false, false, false, floor)", []string{"true for false at 29", "true for false at 64"}, writesNothing},
	{"at, a, b = finish_log(list, false, now, 0, plan, true, true, plan > 0, floor)", []string{"true for false at 29"}, "whether denied calls count is not asked of what is taken"},
	{"at, a, b = finish_log(list, false, now, 0, 0, true, false, false, floor)", []string{"true for false at 29", "true for false at 53"}, writesNothing},
	{"at, a, b = finish_log(list, false, now, 0, 0, true, false, false, floor)", []string{"false for true at 47"}, "a wait that is told to nobody, as nothing is denied"},
	{"if elapsed >= drain then more = 0 else more = math.max(0, more - elapsed * count) end", []string{"> for >= at 12"}, sameAtEqual},
	{"if log.size - 1 - log.base > MAXLATE then", []string{">= for > at 28"}, "the base is older than the window, as whatever may not be inserted before it"},
	{"first = last_entry(log, log.start, ats[k]) + 1", []string{"left out"}, "rewrites the whole log, and not only from where the first is inserted"},
	{"if room <= 0 or at <= left or at < from then break end", []string{"< for <= at 9"}, "where there is no room, what is added is nothing"},
	{"while k > 0 and ats[k] < when do put_late() end", []string{"<= for < at 24"}, "entries of one instant leave the window together, in whatever order they stand"},
	{"return pack('>BBI7I7', DONE, (allowed and 1 or 0) + (again and 2 or 0), now, ends) .. table.concat(parts)",
		[]string{"- for + at 51"}, "one less two is a byte of ones, which has the same two bits"},
}

// equivalent returns why the mutant is equivalent to the script, or "".
func equivalent(m mutant) string {
	for _, e := range equivalents {
		if e.line == m.line && slices.Contains(e.mistakes, m.mistake) {
			return e.why
		}
	}
	return ""
}
