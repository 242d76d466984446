package redisstore_test

import "slices"

// Reasons why a mistake in the script changes nothing that matters.
const (
	sameAtEqual   = "where both sides are equal, both branches come to the same"
	anotherSearch = "looks in another order, or asks for a length it knows: slower, and finds the same"
	savesWork     = "only saves work: the other branch does the same in general"
	millisecond   = "a key that is forgotten a millisecond later or sooner than an hour, or later than it could be"
	alreadyWhole  = "interval states are dated at multiples of the window, so the quotient is whole"
	belowGrain    = "microseconds of a stale slot's life, which is kept in units of 16 ms and ends in milliseconds"
	reservesMore  = "only leaves room between the charges' numbers, or lets two that save work share one"
)

// equivalents are the mistakes that change no answer and nothing that is stored, by their line.
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
	{"local STRIDE = 10", []string{"11 for 10 at 16"}, reservesMore},
	{"if unit > 0 then list = open_log(list.key) end", []string{">= for > at 9"}, "reads again what nobody has changed"},
	{"if c[o + OFFSET] ~= loaded then", []string{"- for + at 8"}, "reads a limit again that is at hand already"},
	{"local place = v and find(v, fingerprint, 2, true)", []string{"1 for 2 at 42"}, "what is found at the version byte is not a slot's place"},
	{"if a > full then a = full end", []string{">= for > at 6"}, sameAtEqual},
	{"if at > now then", []string{">= for > at 7"}, sameAtEqual},
	{"if at < now then", []string{"<= for < at 7"}, sameAtEqual},
	{"if a < 0 then a = 0 end", []string{"<= for < at 6"}, sameAtEqual},
	{"if elapsed >= drain then", []string{"> for >= at 12"}, sameAtEqual},
	{"if refills >= drain then", []string{"> for >= at 12"}, sameAtEqual},
	{"if a > 0 then", []string{">= for > at 6"}, "an empty bucket's call departs at once either way"},
	{"refills = refills - refills % 1", []string{"left out", "+ for - at 19"}, alreadyWhole},
	{"if not v or (#v == 1 + SLOT and sub(v, 2, 8) == fingerprint) then",
		[]string{"- for + at 22", "3 for 2 at 40", "1 for 2 at 40", "9 for 8 at 43", "7 for 8 at 43"}, savesWork},
	{"if lives < 8 then lives = lives * 16384", []string{"<= for < at 10", "9 for 8 at 12"}, "code 8 means the same by both formulas"},
	{"if lives < 8 then lives = lives * 16384", []string{"16385 for 16384 at 35", "16383 for 16384 at 35"}, belowGrain},
	{"if print ~= fingerprint and (given or since + lives > now) then", []string{">= for > at 53"}, belowGrain},
	{"if since + lives - now > ttl then ttl = since + lives - now end", []string{">= for > at 24"}, sameAtEqual},
	{"ttls[key] = math.max(floor, ttl - ttl % 1 + 2, ttls[key] or 0)", []string{"3 for 2 at 45"}, millisecond},
}

// equivalent returns why the mutant is no worse than the script, or nothing.
func equivalent(m mutant) string {
	for _, e := range equivalents {
		if e.line == m.line && slices.Contains(e.mistakes, m.mistake) {
			return e.why
		}
	}
	return ""
}
