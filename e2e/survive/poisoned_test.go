//go:build linux

package survive

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
)

// poisonedRules have a rule of every kind of state, by the path of a request.
const poisonedRules = `
rules:
  - {name: window, match: {path: /window}, key: [user], limits: [{rate: 1000/year, algorithm: fixed_window}]}
  - {name: counter, match: {path: /counter}, key: [user], limits: [{rate: 1000/h, algorithm: sliding_window_counter}]}
  - {name: log, match: {path: /log}, key: [user], limits: [{rate: 1000/h, algorithm: sliding_window_log}]}
  - {name: bucket, match: {path: /bucket}, key: [user], limits: [{rate: 1/h, burst: 1000, algorithm: token_bucket}]}
  - {name: leaky, match: {path: /leaky}, key: [user], limits: [{rate: 100000/s, queue: 100, algorithm: leaky_bucket}]}
  - {name: penalty, match: {path: /penalty}, key: [user], limits: [{rate: 1000/year, algorithm: fixed_window}], penalty: {after: 100, within: 1h, bans: [1h]}}
  - {name: permits, match: {path: /permits}, key: [user], limits: [{concurrent: 1000, ttl: 1h}]}
  - {name: strict, match: {path: /strict}, key: [user], on_store_error: deny, limits: [{rate: 1000/year, algorithm: fixed_window}]}
`

var poisonedKinds = []string{"window", "counter", "log", "bucket", "leaky", "penalty", "permits", "strict"}

// A poison is a command that puts something under the key KEY.
type poison []string

// poisons are values of every type that Penstock does not write, and such as it could have written.
func poisons() (all []poison) {
	long := strings.Repeat("x", 1<<20)
	for _, value := range []string{
		"", " ", "0", "-1", "NaN", "1e400", "null", "{}", "OK", "\x00", "\x01", "\x02", "\x7f", "\xff", "\x01\x00", "\x02" + strings.Repeat("\x00", 27), strings.Repeat("\x01", 28), strings.Repeat("\xff", 28), "\x01" + strings.Repeat("\xff", 27), "\x01" + strings.Repeat("\x00", 27), "\x01" + strings.Repeat("\x7f", 27),
		"\x01" + strings.Repeat("\xff", 27*64), "\x01" + strings.Repeat("\x00", 26), long, "\x01" + long, "-ERR x\r\n", "$-1\r\n", "*1\r\n$1\r\nx\r\n", "return redis.call('FLUSHALL')", "]] redis.call('FLUSHALL') --",
	} {
		all = append(all, poison{"SET", "KEY", value})
	}
	for _, value := range []string{"", "x", strings.Repeat("\xff", 13), strings.Repeat("\x00", 13), strings.Repeat("\x00", 12), strings.Repeat("\x00", 14), long} {
		all = append(all, poison{"RPUSH", "KEY", value}, poison{"RPUSH", "KEY", value, value, value})
	}
	for _, score := range []string{"0", "-1", "inf", "-inf", "1e308", "9007199254740993", "NaN"} {
		if score == "NaN" { // which Redis refuses
			continue
		}
		all = append(all, poison{"ZADD", "KEY", score, "member"}, poison{"ZADD", "KEY", score, "", score, long})
	}
	return append(all,
		poison{"HSET", "KEY", "field", "value"}, poison{"HSET", "KEY", "", ""}, poison{"HSET", "KEY", "1", strings.Repeat("\xff", 28)}, poison{"HSET", "KEY", long, long},
		poison{"SADD", "KEY", "member"}, poison{"XADD", "KEY", "*", "field", "value"}, poison{"PFADD", "KEY", "a"}, poison{"SETBIT", "KEY", "8000000", "1"}, poison{"GEOADD", "KEY", "1", "1", "a"},
	)
}

// A poisonedNode is a node and the Redis into which an attacker writes.
type poisonedNode struct {
	*node
	redis string
	known map[string]bool // keys that were there before

	poisoned, noticed int // clients
}

func (p *poisonedNode) command(args ...string) string {
	p.t.Helper()
	reply, err := redistest.Command(p.redis, args...)
	if err != nil {
		p.t.Fatalf("%.100q: %v", args, err)
	}
	return reply
}

// newKeys returns those that were not there when it was called last.
func (p *poisonedNode) newKeys() (keys []string) {
	p.t.Helper()
	for key := range strings.FieldsSeq(p.command("KEYS", "pen:*")) {
		if !p.known[key] {
			p.known[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// check asks for a decision and returns it.
func (p *poisonedNode) check(kind, user, id string) (v struct {
	Allowed bool
	Quality string
	Reason  string
}) {
	p.t.Helper()
	res, err := p.client.Post(p.url("http", "/v1/check"), "application/json", strings.NewReader(fmt.Sprintf(`{"attributes": {"path": "/%s", "user": %q}, "id": %q}`, kind, user, id)))
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil || res.StatusCode != http.StatusOK {
		p.t.Errorf("a request of %s under %s: status %d, %v", user, kind, res.StatusCode, err)
	}
	return v
}

// Whatever its keys in Redis hold, a node answers every request with a verdict. on_store_error decides
// the requests of clients whose state is bad; all others are decided exactly.
func TestPoisonedRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	n := &poisonedNode{
		node: start(t, setup{rules: poisonedRules, config: "upstreams: [{url: \"http://127.0.0.1:1\"}]\n", env: []string{
			"PENSTOCK_STORE_REDIS_ADDRESSES=" + redis.Addr, "PENSTOCK_STORE_REDIS_TIMEOUT=60s", "PENSTOCK_KEY_SECRET=0123456789abcdef0123456789abcdef",
		}}),
		redis: redis.Addr, known: map[string]bool{},
	}
	random := rand.New(rand.NewPCG(16, 2))
	sent := map[string]int{} // innocent requests
	all := poisons()
	for i, p := range all {
		kinds := poisonedKinds
		if longer == 1 { // every poison for some kinds, and every kind with some poisons
			kinds = []string{poisonedKinds[i%len(poisonedKinds)], poisonedKinds[(i/2+3)%len(poisonedKinds)]}
		}
		for j, kind := range kinds {
			n.poisonOne(kind, fmt.Sprintf("victim-%d-%d", i, j), func(key string) { n.put(p, key) })
			n.innocent(kind, sent)
		}
	}
	for i := range 30 * longer {
		kind := poisonedKinds[i%len(poisonedKinds)]
		n.poisonOne(kind, fmt.Sprint("flipped-", i), func(key string) { n.flip(random, key) })
		n.innocent(kind, sent)
	}
	for _, key := range []string{"pen:nodes", "pen:{pen:nodes}", "pen:{cleared}", "pen:rules"} {
		for _, p := range all[:len(all):len(all)] {
			n.put(p, key)
			n.innocent(poisonedKinds[random.IntN(len(poisonedKinds))], sent)
		}
	}
	t.Logf("%d clients had poisoned state, which was noticed of %d", n.poisoned, n.noticed)
	if n.noticed < n.poisoned/3 {
		t.Error("the corpus has lost its point")
	}
	for kind, want := range sent {
		if used := n.used(kind, map[string]string{"path": "/" + kind, "user": "innocent"}); used != want && kind != "leaky" { // which empties
			t.Errorf("%s: counted %d of %d requests of an innocent client", kind, used, want)
		}
	}
	if n.metric("penstock_store_up") != 1 {
		t.Error("the circuit breaker is open: poisoned state was taken for a failure of Redis")
	}
	n.isWell(maxMiB)
}

// poisonOne lets a client create its state, changes that state, and lets the client continue.
func (p *poisonedNode) poisonOne(kind, user string, change func(key string)) {
	p.t.Helper()
	p.newKeys()
	p.check(kind, user, "an-id")
	keys := p.newKeys()
	for tries := 0; len(keys) == 0 && tries < 1000; tries++ { // what leaks away is gone before a slow machine looks
		p.check(kind, user, "")
		keys = p.newKeys()
	}
	if len(keys) == 0 {
		p.t.Errorf("%s has no keys in Redis", kind)
	}
	for _, key := range keys {
		change(key)
	}
	p.poisoned++
	if v := p.check(kind, user, ""); v.Quality != "exact" {
		p.noticed++
	}
	for range 2 {
		v := p.check(kind, user, "another-id")
		if v.Reason == "store_error" && (kind != "strict" || v.Allowed) {
			p.t.Errorf("%s: %+v", kind, v)
		}
		p.check(kind, user, "an-id")
	}
}

// put writes a poison under a key, in the place of what is there.
func (p *poisonedNode) put(value poison, key string) {
	p.t.Helper()
	command := slices.Clone(value)
	command[1] = key
	p.command("DEL", key)
	p.command(command...)
}

// flip changes some bits of a string's state. Other types stay as they are.
func (p *poisonedNode) flip(random *rand.Rand, key string) {
	p.t.Helper()
	if p.command("TYPE", key) != "string" {
		return
	}
	for range 1 + random.IntN(4) {
		p.command("SETBIT", key, fmt.Sprint(random.IntN(8*28)), fmt.Sprint(random.IntN(2)))
	}
}

// innocent sends a request of a client whose state nobody touches. It is decided exactly.
func (p *poisonedNode) innocent(kind string, sent map[string]int) {
	p.t.Helper()
	sent[kind]++
	if v := p.check(kind, "innocent", ""); !v.Allowed || v.Quality != "exact" {
		p.t.Errorf("%s: an innocent client: %+v", kind, v)
	}
	p.newKeys()
}
