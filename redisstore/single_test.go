package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/storage"
)

// The path for tickets of a single limit and the general path give the same replies, store the same bytes and let
// them expire after the same time.
func TestSinglePath(t *testing.T) {
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
		"the state before is replied":             {"passes and 1 or 0, at, a, b", "passes and 1 or 0, at, a - cost, b"},
		"the next ticket reads the state before":  {"value[key] = v\n", ""},
		"given instants expire on the real clock": {"math.max(floor, ", "math.max("},
		"the next ticket sets the end":            {", ttls[key] or 0)", ")"},
		"the key ends with this slot":             {"> ttl then", "< 0 then"},
		"other slots are lost":                    {"if not v or", "if true or"},
		"stale slots stay":                        {"since + lives > now", "true"},
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
	general luaScript
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
	p := &twoPaths{store: s, addr: server.Addr, general: observed(WithoutSinglePath(takeScript.text))}
	for _, clocked := range []string{"'TIME'", "'PEXPIRE'", "value[key], 'PX'"} {
		if strings.Contains(p.general.text, clocked) {
			t.Fatalf("the script still depends on the server's clock: %s", clocked)
		}
	}
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
// reply. How long the subjects' keys should live is stored beside them, and no key of a limit expires, so that
// nothing depends on the server's clock.
func observed(script string) luaScript {
	return newScript(strings.NewReplacer(
		"local clock = redis.call('TIME')\nclock = clock[1] * 1000000 + clock[2]\n",
		"local clock = struct.unpack('>I7', ARGV[1], #ARGV[1] - 6)\n",
		"redis.call('SET', KEYS[key], value[key], 'PX', text)\n",
		"redis.call('SET', KEYS[key], value[key])\nredis.call('SET', KEYS[key] .. 'px', text)\n",
		"redis.call('PEXPIRE', ", "redis.call('EXISTS', ",
		"return table.concat(replies, '', 1, parts)\n",
		`for key = 1, subjects do
			parts = parts + 1
			replies[parts] = (redis.call('DUMP', KEYS[key]) or 'none') .. (redis.call('GET', KEYS[key] .. 'px') or 'never')
		end
		return table.concat(replies, '', 1, parts)
		`).Replace(script))
}

// compare plays random runs on a version of the script and on the general path. It returns how many tickets were of
// which sort, or the first difference.
func (p *twoPaths) compare(script string, seed uint64, runs int) (seen map[string]int, err error) {
	if _, err := redistest.Command(p.addr, "FLUSHALL"); err != nil {
		return nil, err
	}
	r, tried, client := rand.New(rand.NewPCG(seed, 1)), observed(script), p.store.conns.Load().pipelined
	seen = map[string]int{}
	clock := int64(1794704739699202)
	for run := range runs {
		clock = max(1<<50, clock+step(r))
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
		var replies [2]string
		for i, s := range []*luaScript{&p.general, &tried} {
			keys, arg := newRequest().pack(calls, prefixes[i], algorithm.Instant(node))
			replies[i], err = p.store.eval(context.Background(), client, s, keys, string(appendUint56([]byte(arg), clock)))
			if err != nil {
				return nil, err
			}
		}
		if replies[0] != replies[1] {
			return nil, fmt.Errorf("run %d of seed %d, clock %d: the general path replies and leaves\n%q, the other\n%q", run, seed, clock, replies[0], replies[1])
		}
		seen[[]string{statusDecided: "decided", statusCorrupt: "corrupt", statusClock: "clock"}[replies[0][7]]]++
		if replies[0][7] == statusDecided && !calls[0].guarded && calls[0].replySize == itemSize {
			seen[[]string{"denied", "passes"}[replies[0][8]]]++
		}
	}
	return seen, nil
}

var prefixes = [2]string{"general:", "single:"}

// step returns how far the clock moves: mostly a little, sometimes far, sometimes back.
func step(r *rand.Rand) int64 {
	far := []time.Duration{time.Millisecond, time.Second, 2 * time.Second, time.Hour, 3 * time.Hour, 24 * time.Hour}[r.IntN(6)]
	moved := r.Int64N(far.Microseconds())
	if r.IntN(4) == 0 {
		return -moved
	}
	return moved
}

// ticket returns a ticket that is mostly of a single limit.
func (p *twoPaths) ticket(r *rand.Rand, clock int64, seen map[string]int) *storage.Ticket {
	t := &storage.Ticket{Nonce: r.Uint64() | 1, MaxDelay: []time.Duration{0, time.Second, algorithm.AnyDelay}[r.IntN(3)]}
	if r.IntN(2) == 0 {
		t.Now = algorithm.Instant(max(1<<50, clock+step(r)))
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
	m := p.meters[r.IntN(len(p.meters))]
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
			b = appendUint56(append(b, 255), int64(p.meters[r.IntN(len(p.meters))].Fingerprint))
			b = append(b, 0, 0, 0, 0, 0)
		}
		for range 1 + r.IntN(3) {
			m := p.meters[r.IntN(len(p.meters))]
			b = appendUint56(b, int64(m.Fingerprint))
			b = appendUint56(b, max(0, clock+step(r)))
			b = append(b, byte(r.IntN(1+int(algorithm.LifeCode(m.Life)))))
			b = appendUint56(b, r.Int64N(2+2*max(m.Full, m.Capacity)))
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
