package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/storage"
)

// The path for tickets of a single limit and the general path give the same replies, store the same bytes and let
// them expire after the same time.
func TestSinglePath(t *testing.T) {
	t.Parallel()
	p := newTwoPaths(t)
	seen, err := p.compare(takeScript.text, 1, 4000)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"passes", "denied", "corrupt", "clock", "single", "several"} {
		if seen[what] < 20 {
			t.Errorf("%d tickets were %s, so little was compared (%v)", seen[what], what, seen)
		}
	}
}

// A mistake in any step of the path for single limits makes it differ from the general path.
func TestSinglePathSabotaged(t *testing.T) {
	t.Parallel()
	p := newTwoPaths(t)
	path := SinglePathText()
	for name, change := range map[string][2]string{
		"tickets of several groups":               {"groups == 1 and ", ""},
		"groups of several limits":                {"items == 1 and ", ""},
		"groups alone and guards":                 {"alone == 0 and ", ""},
		"logs":                                    {"form <= DATED", "form <= LOGGED"},
		"overdrafts":                              {"form <= DATED", "form % 4 <= DATED"},
		"tickets denied elsewhere":                {" and not denied", ""},
		"another format is taken for no state":    {"if v == nil then", "if false then"},
		"the periods' ends are ignored":           {"now >= last", "false"},
		"the periods' start is ignored":           {"now < first", "false"},
		"the limit before is used":                {"if offset ~= loaded then", "if not loaded then"},
		"a find within a slot":                    {"% SLOT ~= 0", "% SLOT < 0"},
		"a shorter life is kept":                  {"if kept < code", "if false"},
		"what has ended is kept":                  {"at + life > now", "true"},
		"a peek writes":                           {"cost > 0 and cost <= capacity", "cost <= capacity"},
		"what can never pass writes":              {"cost <= capacity", "true"},
		"denied requests do not write":            {"all or flags == 1 or", "all or"},
		"denied requests do not count":            {"if flags == 1 then", "if false then"},
		"denied requests count without an end":    {"math.min(a + amount, count + 1)", "a + amount"},
		"repaired state is not written":           {" or repaired)", ")"},
		"repaired state is overwritten":           {"short and not repaired", "short"},
		"state that was read changes":             {"if not write then", "if false then"},
		"buckets count whole requests":            {"a = a + amount * ticks", "a = a + amount"},
		"windows do not count":                    {"else\na = a + amount", "else\na = a"},
		"the state before is replied":             {"code, a, b)\nend\nif write", "code, a - cost, b)\nend\nif write"},
		"the state that is kept is replied":       {"if write then new", "if true then new"},
		"denied requests are replied as passed":   {"passes and PASSED or REFUSED", "PASSED"},
		"the next ticket reads the state before":  {"value[key] = v\n", ""},
		"given instants expire on the real clock": {"math.max(floor, ", "math.max("},
		"the next ticket sets the end":            {", ttls[key] or 0)", ")"},
		"the next ticket keeps the end":           {"elseif not ttls[key] then", "else"},
		"the key ends with this slot":             {"math.max(ttl, date + lives * 1.125 - now)", "ttl"},
		"the expiry of given instants is kept":    {"if given or not lasts", "if not lasts"},
		"the expiry is kept in the next cell":     {"not lasts or", "false or"},
		"the expiry is kept with fewer slots":     {"or #v ~= length", ""},
		"the expiry is set every time":            {"lasts = cell - cell % 1 == before - before % 1", "lasts = false"},
		"a window's expiry is set every time":     {"lasts, length = at == since", "lasts, length = false"},
		"nothing is spared":                       {"life / 8", "0"},
		"a shorter life's expiry is kept":         {"kept == code and at or 0", "at"},
		"other slots are lost":                    {"if not v or", "if true or"},
		"stale slots stay":                        {"date + lives > now", "true"},
		"slots of given instants go stale":        {"given or ", ""},
		"any wait is short enough":                {"departs - now <= maxdelay", "true"},
		"buckets: a clock that stepped back":      {"at, repaired = now, true", "at = now"},
		"buckets: a larger level":                 {"if a > most then", "if false then"},
		"counters: the window before":             {"b = a else", "b = 0 else"},
		"counters: a clock that stepped back":     {"at, repaired = now - now % window, true", "at = now - now % window"},
		"calendars: the next period":              {"now >= s3 and s3", "false"},
		"windows: a clock that stepped back":      {"at, repaired = start, true end\nelseif at < start", "at = start end\nelseif at < start"},
		"intervals: a clock that stepped back":    {"at, repaired = start, true end\nelse", "at = start end\nelse"},
		"intervals: refills":                      {"a = a - refills * count", "a = a"},
	} {
		broken := strings.Replace(path, change[0], change[1], 1)
		if broken == path {
			t.Errorf("%s: %q is not in the script", name, change[0])
		} else if _, err := p.compare(strings.Replace(takeScript.text, path, broken, 1), 1, 4000); err == nil {
			t.Errorf("%s: not detected", name)
		}
	}
}

// twoPaths runs versions of the script beside the general path, each on its own keys.
type twoPaths struct {
	store   *Store
	addr    string
	meters  []*algorithm.Meter
	used    []*algorithm.Meter // now, of meters
	general luaScript
	real    bool // tickets bring no instants of their own, and expiry times are checked
}

func newTwoPaths(t *testing.T) *twoPaths {
	if testing.Short() {
		t.Skip("both paths are in a script, in which nothing runs concurrently")
	}
	server := redistest.Start(t)
	s, err := Open(Options{Addresses: []string{server.Addr}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p := newPaths(s, server.Addr, WithoutSinglePath(takeScript.text))
	for _, clocked := range []string{"'TIME'", "'PEXPIRE'", "value[key], 'PX', text)"} {
		if strings.Contains(p.general.text, clocked) {
			t.Fatalf("the script still depends on the server's clock: %s", clocked)
		}
	}
	return p
}

func newPaths(s *Store, addr, general string) *twoPaths {
	p := &twoPaths{store: s, addr: addr, general: observed(general)}
	for _, count := range []int64{3, 40} { // limits that differ only in this share their state
		for _, window := range []time.Duration{time.Second, time.Hour + time.Millisecond} {
			for _, l := range []algorithm.Limit{
				{Algorithm: algorithm.FixedWindow},
				{Algorithm: algorithm.FixedWindow, CountDenied: true, Ordinal: 1},
				{Algorithm: algorithm.FixedWindow, Period: algorithm.Day},
				{Algorithm: algorithm.FixedWindow, Period: algorithm.Month, CountDenied: true},
				{Algorithm: algorithm.SlidingWindowCounter},
				{Algorithm: algorithm.SlidingWindowCounter, CountDenied: true, Ordinal: 1},
				{Algorithm: algorithm.TokenBucket},
				{Algorithm: algorithm.TokenBucket, Burst: 2 * count, Ordinal: 1},
				{Algorithm: algorithm.TokenBucket, Refill: algorithm.Interval},
				{Algorithm: algorithm.TokenBucket, Refill: algorithm.Interval, Burst: 5 * count, Ordinal: 1},
				{Algorithm: algorithm.LeakyBucket, Queue: 2 * count},
				{Algorithm: algorithm.SlidingWindowLog},
			} {
				if l.Count = count; l.Period == 0 {
					l.Window = window
				}
				p.meters = append(p.meters, l.MustCompile())
			}
		}
	}
	return p
}

// observed returns the script with a clock from the end of its argument. It returns what it leaves behind after its
// reply. When the subjects' keys should expire is stored beside them, in µs, and no key of a limit expires, so that
// nothing depends on the server's clock.
func observed(script string) luaScript {
	return newScript(strings.NewReplacer(
		"local clock = call('TIME')\nclock = clock[1] * 1000000 + clock[2]\n",
		"local clock = struct.unpack('>I7', ARGV[1], #ARGV[1] - 6)\n",
		"call('SET', KEYS[key], value[key], 'PX', text)\n",
		"call('SET', KEYS[key], value[key])\ncall('SET', KEYS[key] .. 'px', string.format('%.0f', clock - clock % 1000 + 1000 * text))\n",
		"redis.call('PEXPIRE', ", "redis.call('EXISTS', ",
		"return table.concat(replies, '', 1, parts)\n",
		`local left = {}
		for key = 1, subjects do
			local text, expiry = redis.call('TYPE', KEYS[key]).ok, redis.call('GET', KEYS[key] .. 'px') or ''
			if text == 'string' then text = redis.call('GET', KEYS[key]) end
			left[key] = struct.pack('>HH', #text, #expiry) .. text .. expiry
		end
		left = table.concat(left)
		return table.concat(replies, '', 1, parts) .. left .. struct.pack('>I4', #left)
		`).Replace(script))
}

// observedRun is what a run of an observed script replies and leaves behind.
type observedRun struct {
	status  byte // of the first ticket
	results []string
	left    string
}

// run runs an observed script.
func (p *twoPaths) run(s *luaScript, calls []*pendingTicket, prefix string, node, clock int64) (o observedRun, err error) {
	client := p.store.conns.Load().pipelined
	keys, arg := newRequest().pack(calls, prefix, algorithm.Instant(node))
	reply, err := p.store.eval(context.Background(), client, s, keys, string(appendUint56([]byte(arg), clock)))
	if err != nil {
		return o, err
	}
	rest := len(reply) - 4
	rest -= int(binary.BigEndian.Uint32([]byte(reply[rest:])))
	if err := split(reply[:rest], calls); err != nil {
		return o, err
	}
	o.status, o.left = calls[0].reply[0], reply[rest:len(reply)-4]
	for _, c := range calls {
		err := c.unpack()
		o.results = append(o.results, fmt.Sprint(c.now, c.found, c.sights, err))
	}
	return o, nil
}

// compare plays random runs on a version of the script and on the general path. It returns how many tickets were of
// which sort, or the first difference.
func (p *twoPaths) compare(script string, seed uint64, runs int) (seen map[string]int, err error) {
	if _, err := redistest.Command(p.addr, "FLUSHALL"); err != nil {
		return nil, err
	}
	r, tried := rand.New(rand.NewPCG(seed, 1)), observed(script)
	seen = map[string]int{}
	clock := int64(1794704739699202)
	far := 0
	for run := range runs {
		if run%40 == 0 { // for a while few limits are in use, or the clock moves only a little
			from := r.IntN(len(p.meters) - 2)
			p.used, far = p.meters[from:from+3], 1+r.IntN(len(steps))
			if r.IntN(2) == 0 {
				p.used, far = p.meters, len(steps)
			}
		}
		clock = max(1<<50, clock+step(r, far))
		if r.IntN(5) == 0 {
			if err := p.plant(r, clock); err != nil {
				return nil, err
			}
		}
		var calls []*pendingTicket
		for range 1 + r.IntN(4) {
			calls = append(calls, newCall(p.ticket(r, clock, seen)))
		}
		node := clock // where the node's clock is, which looks up the periods of calendars
		if r.IntN(4) == 0 {
			days := []int64{-100, -31, -1, 1, 31, 100}[r.IntN(6)]
			node += days * (24 * time.Hour).Microseconds()
		}
		var observed [2]observedRun
		for i, s := range []*luaScript{&p.general, &tried} {
			if observed[i], err = p.run(s, calls, prefixes[i], node, clock); err != nil {
				return nil, err
			}
		}
		if diff := cmp.Diff(observed[0].results, observed[1].results); diff != "" || observed[0].left != observed[1].left {
			return nil, fmt.Errorf("run %d of seed %d, clock %d: the general path leaves\n%q, the other\n%q and replies (-general +other)\n%s",
				run, seed, clock, observed[0].left, observed[1].left, diff)
		}
		if p.real {
			if err := p.lives(observed[1].left, clock, seen); err != nil {
				return nil, fmt.Errorf("run %d of seed %d, clock %d: %w", run, seed, clock, err)
			}
		}
		seen[map[byte]string{statusDecided: "decided", statusCorrupt: "corrupt", statusClock: "clock"}[observed[0].status]]++
		if observed[0].status == statusDecided && !calls[0].guarded && calls[0].replySize == itemSize {
			seen[map[bool]string{false: "denied", true: "passes"}[calls[0].found[0].Passes]]++
		}
	}
	return seen, nil
}

var prefixes = [2]string{"general:", "single:"}

var steps = []time.Duration{time.Millisecond, time.Second, 2 * time.Second, time.Hour, 3 * time.Hour, 24 * time.Hour}

// step returns how far the clock moves: mostly a little, sometimes far, sometimes back.
func step(r *rand.Rand, far int) int64 {
	moved := r.Int64N(steps[r.IntN(far)].Microseconds())
	if r.IntN(4) == 0 {
		return -moved
	}
	return moved
}

// ticket returns a ticket that is mostly of a single limit.
func (p *twoPaths) ticket(r *rand.Rand, clock int64, seen map[string]int) *storage.Ticket {
	t := &storage.Ticket{Nonce: r.Uint64() | 1, MaxDelay: []time.Duration{0, time.Second, algorithm.AnyDelay}[r.IntN(3)]}
	if r.IntN(2) == 0 && !p.real {
		t.Now = algorithm.Instant(max(1<<50, clock+step(r, len(steps))))
	}
	t.Groups = []storage.Group{p.group(r)}
	g := &t.Groups[0]
	switch r.IntN(20) {
	case 0:
		t.Groups = append(t.Groups, p.group(r))
	case 1:
		g.Charges = append(g.Charges, p.group(r).Charges...)
	case 2:
		g.Alone = true
	case 3:
		t.Denied = true
	case 4:
		g.Charges[0].Overdraw = true
	case 5:
		g.Reserve = time.Minute
	default:
		seen["single"]++
		return t
	}
	seen["several"]++
	return t
}

func (p *twoPaths) group(r *rand.Rand) storage.Group {
	m := p.used[r.IntN(len(p.used))]
	cost := []int64{0, 1, 1, 1, 2, m.Count, m.Capacity, m.Capacity + 1, algorithm.MaxCount}[r.IntN(9)]
	return storage.Group{Subject: subjectOf(r), Charges: []algorithm.Charge{{Meter: m, Cost: cost}}}
}

func subjectOf(r *rand.Rand) storage.Subject { return storage.Subject{byte(r.IntN(6))} }

// plant replaces the state of a subject: by slots of any content, by another format, by another type, by nothing.
func (p *twoPaths) plant(r *rand.Rand, clock int64) error {
	who, value := subjectOf(r), ""
	switch r.IntN(12) {
	case 0:
		value = "\x02" + strings.Repeat("\x00", 27)
	case 1:
		value = "\x01" + strings.Repeat("\x00", r.IntN(26))
	case 2, 3, 4:
	default:
		b := []byte{1}
		if r.IntN(4) == 0 { // a slot of a limit that is not in use, which looks as if another slot started within it
			b = appendUint56(appendUint56(b, 12345), clock)
			b = appendUint56(append(b, 255), int64(p.used[r.IntN(len(p.used))].Fingerprint))
			b = append(b, 0, 0, 0, 0, 0)
		}
		for range 1 + r.IntN(3) {
			m := p.used[r.IntN(len(p.used))]
			b = appendUint56(b, int64(m.Fingerprint))
			b = appendUint56(b, max(0, clock+step(r, len(steps))))
			b = append(b, byte(r.IntN(1+int(algorithm.LifeCode(m.Life)))))
			b = appendUint56(b, r.Int64N(min(1<<40, 2+2*max(m.Full, m.Capacity)))) // the next window's b has five bytes
			b = binary.BigEndian.AppendUint32(append(b, 0), uint32(r.Int64N(100)))
		}
		value = string(b)
	}
	hash := r.IntN(20) == 0
	for _, prefix := range prefixes {
		key := string(appendSubjectKey(nil, prefix, who))
		if _, err := redistest.Command(p.addr, "DEL", key, key+"px"); err != nil {
			return err
		}
		put := []string{"SET", key, value}
		if hash {
			put = []string{"HSET", key, "field", "value"}
		}
		if value != "" || hash {
			if _, err := redistest.Command(p.addr, put...); err != nil {
				return err
			}
		}
	}
	return nil
}
