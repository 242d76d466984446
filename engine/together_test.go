package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

// onEveryStore runs a test in memory, on Redis and on a cluster. Each store it asks for is empty.
func onEveryStore(t *testing.T, test func(t *testing.T, newStore func() penstock.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, func() penstock.Store { return newMemory(t) }) })
	t.Run("redis", func(t *testing.T) {
		server, used := redistest.Start(t), 0
		test(t, func() penstock.Store {
			used++
			return newRedis(t, server, fmt.Sprintf("t%d:", used))
		})
	})
	t.Run("cluster", func(t *testing.T) {
		cluster, used := redistest.StartCluster(t, 3), 0
		test(t, func() penstock.Store {
			used++
			s, err := redisstore.Open(redisstore.Options{
				Addresses: cluster.Addrs, Mode: redisstore.Cluster, KeyPrefix: fmt.Sprintf("t%d:", used), Timeout: patience,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		})
	})
}

// callOf parses a call: its cost, then name=value.
func callOf(t testing.TB, text string) (c penstock.Call) {
	t.Helper()
	fields := strings.Fields(text)
	cost, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatalf("%q does not begin with a cost: %v", text, err)
	}
	c.Cost = cost
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: name, Value: value})
	}
	return c
}

// decideTogether decides the calls in a text, separated by |, and renders the verdicts in the same way.
func decideTogether(t testing.TB, e *engine.Engine, text string) string {
	t.Helper()
	var calls []penstock.Call
	for part := range strings.SplitSeq(text, "|") {
		calls = append(calls, callOf(t, part))
	}
	verdicts, errs := make([]penstock.Verdict, len(calls)), make([]error, len(calls))
	e.DecideTogether(t.Context(), calls, verdicts, errs)
	var got []string
	for i := range verdicts {
		got = append(got, render(&verdicts[i], errs[i]))
	}
	return strings.Join(got, " | ")
}

const togetherRules = `
rules:
  - {name: per-user, key: [user], limits: [{rate: 3/1h, algorithm: fixed_window}]}
  - {name: per-path, key: [path], limits: [{rate: 2/1m, algorithm: fixed_window}, {rate: 9/1d, algorithm: fixed_window}]}
  - {name: penalised, key: [client], limits: [{rate: 1/1h, algorithm: fixed_window}], penalty: {after: 2, within: 1h, bans: [1m]}}
  - {name: counted, key: [counted], limits: [{rate: 2/1h, algorithm: fixed_window}], count_denied: true}
  - {name: tried, mode: shadow, key: [tried], limits: [{rate: 1/1h, algorithm: fixed_window}]}
  - {name: places, key: [place], limits: [{concurrent: 2, ttl: 1m}]}
lists: {deny: [{user: mallory}], allow: [{user: root}]}
`

var togetherCases = []struct {
	name  string
	steps [][2]string
}{
	{"all or nothing", [][2]string{
		{"1 user=u | 2 path=p", "allow ok per-user 1/3 | allow ok per-path 2/2 { per-path:1m 2/2 per-path:1d 2/9 }"},
		{"1 user=u | 1 path=p", "allow ok per-user 1/3 | deny over_limit per-path 2/2 wait=1m0s { !per-path:1m 2/2 per-path:1d 2/9 }"},
		{"1 path=p | 1 user=u", "deny over_limit per-path 2/2 wait=1m0s { !per-path:1m 2/2 per-path:1d 2/9 } | allow ok per-user 1/3"},
		{"1 user=u | 1 path=q", "allow ok per-user 2/3 | allow ok per-path 1/2 { per-path:1m 1/2 per-path:1d 1/9 }"},
	}},
	{"the same twice is one, with the sum", [][2]string{
		{"1 user=u | 1 user=u", "allow ok per-user 2/3 | allow ok per-user 2/3"},
		{"1 user=u | 1 user=u", "deny over_limit per-user 2/3 wait=1h0m0s | deny over_limit per-user 2/3 wait=1h0m0s"},
		{"0 user=u | 1 user=u", "allow ok per-user 3/3 | allow ok per-user 3/3"},
		{"1 client=c | 1 client=d | 0 client=c", "allow ok penalised 1/1 | allow ok penalised 1/1 | allow ok penalised 1/1"},
	}},
	{"lists", [][2]string{
		{"1 user=u | 1 user=mallory | 1 user=root", "allow ok per-user 0/3 | deny deny_list wait=never | allow allow_list"},
		{"1 user=u | 1 user=root | 1 other=o", "allow ok per-user 1/3 | allow allow_list | allow no_rule"},
	}},
	{"an invalid one", [][2]string{
		{"1 user=u | -1 path=p | 1 user=mallory", "deny ok error=invalid | deny ok error=invalid | deny ok error=invalid"},
		{"0 user=u", "allow ok per-user 0/3"},
	}},
	{"one client's costs above what any limit holds", [][2]string{
		{"600000000000 user=u | 600000000000 user=u | 1 path=p", "deny ok error=invalid | deny ok error=invalid | deny ok error=invalid"},
		{"1 path=p | 0 user=u", "allow ok per-path 1/2 { per-path:1m 1/2 per-path:1d 1/9 } | allow ok per-user 0/3"},
		{"600000000000 user=u | 400000000000 user=u | 1 path=p", "deny over_limit per-user 0/3 wait=never | deny over_limit per-user 0/3 wait=never | allow ok per-path 1/2 { per-path:1m 1/2 per-path:1d 1/9 }"},
	}},
	{"denied calls count where they do, and as strikes of who is denied", [][2]string{
		{"1 client=c | 1 counted=c", "allow ok penalised 1/1 | allow ok counted 1/2"},
		{"1 client=c | 1 counted=c | 1 client=d", "deny over_limit penalised 1/1 wait=1h0m0s | allow ok counted 2/2 | allow ok penalised 0/1"},
		{"1 client=c | 1 client=d", "deny banned penalised 1/1 wait=1h0m0s banned=1m0s | allow ok penalised 0/1"},
	}},
	{"what is only tried has no say", [][2]string{
		{"1 tried=a | 1 user=u", "allow no_rule { ~tried 1/1 } | allow ok per-user 1/3"},
		{"1 tried=a | 1 user=u", "allow no_rule { ~!tried 1/1 } | allow ok per-user 2/3"},
	}},
	{"places", [][2]string{
		{"1 place=a | 1 place=b", "allow ok places 1/2 reserved | allow ok places 1/2 reserved"},
		{"1 place=a | 9 user=u", "allow ok places 1/2 | deny over_limit per-user 0/3 wait=never"},
	}},
}

func TestTogether(t *testing.T) {
	onEveryStore(t, func(t *testing.T, newStore func() penstock.Store) {
		for _, c := range togetherCases {
			t.Run(c.name, func(t *testing.T) {
				e := newEngine(t, togetherRules, engine.Options{Store: newStore(), Now: func() penstock.Instant { return beginning }})
				for i, s := range c.steps {
					if got := decideTogether(t, e, s[0]); got != s[1] {
						t.Errorf("step %d: %s\ngot  %s\nwant %s", i, s[0], got, s[1])
					}
				}
			})
		}
		t.Run("as counted", func(t *testing.T) { testTogetherAsCounted(t, newStore()) })
		t.Run("exactly", func(t *testing.T) { testTogetherExactly(t, newStore()) })
	})
}

// A party passes if every counter has room for all that its requests cost there, and otherwise leaves no
// trace.
func testTogetherAsCounted(t *testing.T, store penstock.Store) {
	const parties, limit = 300, 12
	random := rand.New(rand.NewPCG(3, 4))
	var o recordingObserver
	e := newEngine(t, fmt.Sprintf(`
rules:
  - {name: user, key: [user], limits: [{rate: %[1]d/1h, algorithm: fixed_window}]}
  - {name: path, key: [path], limits: [{rate: %[1]d/1h, algorithm: token_bucket}]}
`, limit), engine.Options{Store: store, Observe: o.observe, Now: func() penstock.Instant { return beginning }})
	used := map[penstock.Attribute]int64{}
	asked := 0
	for range parties {
		calls := make([]penstock.Call, 1+random.IntN(5))
		asked += len(calls)
		more := map[penstock.Attribute]int64{}
		for i := range calls {
			c := &calls[i]
			c.Cost, c.Attributes = random.Int64N(3), attributes("user", fmt.Sprint(random.IntN(9)))
			if random.IntN(2) == 0 {
				c.Attributes = append(c.Attributes, attributes("path", fmt.Sprint(random.IntN(9)))...)
			}
			for _, a := range c.Attributes {
				more[a] += c.Cost
			}
		}
		want := true
		for a, n := range more {
			want = want && used[a]+n <= limit
		}
		verdicts, errs := make([]penstock.Verdict, len(calls)), make([]error, len(calls))
		e.DecideTogether(t.Context(), calls, verdicts, errs)
		got := true
		for i := range verdicts {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			got = got && verdicts[i].Allowed
		}
		if got != want {
			t.Fatalf("%+v: allowed %v, want %v; used %v", calls, got, want, used)
		}
		for a, n := range more {
			if want {
				used[a] += n
			}
		}
	}
	if len(o.seen) != asked {
		t.Errorf("%d verdicts were observed, of %d calls", len(o.seen), asked)
	}
	for a, n := range used {
		c, v := penstock.Call{Attributes: []penstock.Attribute{a}}, penstock.Verdict{}
		if err := e.Decide(t.Context(), &c, &v); err != nil || v.Decision.Used != n {
			t.Errorf("%v: %d used, want %d (%v)", a, v.Decision.Used, n, err)
		}
	}
}

// Many at once: the scarce rule allows its limit, and the others have counted what passed. On a cluster a
// request may be denied by a charge that is undone a moment later.
func testTogetherExactly(t *testing.T, store penstock.Store) {
	const callers, each, limit = 32, 12, 50
	e := newEngine(t, fmt.Sprintf(`
rules:
  - {name: scarce, key: [scarce], limits: [{rate: %d/1h, algorithm: fixed_window}]}
  - {name: roomy, key: [roomy], limits: [{rate: 100000/1h, algorithm: fixed_window}]}
`, limit), engine.Options{Store: store, Now: func() penstock.Instant { return beginning }})
	var passed atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				calls := []penstock.Call{
					{Cost: 1, Attributes: attributes("roomy", "a")}, {Cost: 1, Attributes: attributes("scarce", "s")}, {Cost: 1, Attributes: attributes("roomy", "b")},
				}
				verdicts, errs := make([]penstock.Verdict, 3), make([]error, 3)
				e.DecideTogether(t.Context(), calls, verdicts, errs)
				if errs[0] != nil {
					t.Error(errs[0])
				}
				if verdicts[1].Allowed {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	n := passed.Load()
	if n > limit || n < limit && !strings.Contains(t.Name(), "cluster") {
		t.Errorf("%d passed, at a limit of %d", n, limit)
	}
	want := fmt.Sprintf("allow ok roomy %d/100000 | allow ok roomy %[1]d/100000 | allow ok scarce %[1]d/%d", n, limit)
	if got := decideTogether(t, e, "0 roomy=a | 0 roomy=b | 0 scarce=s"); got != want {
		t.Errorf("counted %s\nwant    %s", got, want)
	}
}

// While the store does not answer, what the node counts by itself is all or nothing too.
func TestTogetherWithoutTheStore(t *testing.T) {
	const text = `
rules:
  - {name: here, key: [here], limits: [{rate: 2/1h, algorithm: fixed_window}]}
  - {name: scarce, key: [scarce], limits: [{rate: 1/1h, algorithm: fixed_window}]}
  - {name: closed, key: [closed], on_store_error: deny, limits: [{rate: 9/1h, algorithm: fixed_window}]}
  - {name: open, key: [open], on_store_error: allow, limits: [{rate: 9/1h, algorithm: fixed_window}]}
`
	e := newEngine(t, text, engine.Options{Store: panics{}, Local: newMemory(t), Now: func() penstock.Instant { return beginning }})
	for i, s := range [][2]string{
		{"1 here=h | 1 open=o", "allow ok local here 1/2 error=unavailable | allow store_error open error=unavailable"},
		{"1 here=h | 1 closed=c", "allow ok local here 1/2 error=unavailable | deny store_error closed closed 0/0 error=unavailable"},
		{"1 here=h | 2 scarce=s", "allow ok local here 1/2 error=unavailable | deny over_limit local scarce 0/1 wait=never error=unavailable"},
		{"1 here=h | 1 scarce=s", "allow ok local here 2/2 error=unavailable | allow ok local scarce 1/1 error=unavailable"},
		{"1 scarce=t | 1 here=h", "allow ok local scarce 0/1 error=unavailable | deny over_limit local here 2/2 wait=1h0m0s error=unavailable"},
	} {
		if got := decideTogether(t, e, s[0]); got != s[1] {
			t.Errorf("step %d: %s\ngot  %s\nwant %s", i, s[0], got, s[1])
		}
	}
}

// The permit that a shadow rule gave to a request is free again when another request is denied.
func TestTogetherGivesUpPlaces(t *testing.T) {
	e := newEngine(t, `
rules:
  - {name: tried, mode: shadow, key: [place], limits: [{concurrent: 2, ttl: 1m}]}
  - {name: none, key: [none], limits: [{rate: 0/1h, algorithm: fixed_window}]}
`, engine.Options{Now: func() penstock.Instant { return beginning }})
	for range 5 {
		if got, want := decideTogether(t, e, "1 place=p | 1 none=n"), "allow no_rule { ~tried 1/2 } | deny over_limit none 0/0 wait=never"; got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

// Permits of the same client cannot be added up: the requests are decided one by one.
func TestTogetherPlacesOfOneCaller(t *testing.T) {
	e := newEngine(t, togetherRules, engine.Options{Now: func() penstock.Instant { return beginning }})
	want := "allow ok places 1/2 reserved | allow ok places 2/2 reserved | deny over_limit per-user 0/3 wait=never"
	if got := decideTogether(t, e, "1 place=c | 1 place=c | 9 user=u"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// More than a ticket can hold is decided request by request.
func TestTogetherMoreThanATicket(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 40 {
		fmt.Fprintf(&text, "  - {name: r%d, key: [user], limits: [{rate: 1/1h, algorithm: fixed_window}]}\n", i)
	}
	var o recordingObserver
	e := newEngine(t, text.String(), engine.Options{Observe: o.observe, Now: func() penstock.Instant { return beginning }})
	for range 2 {
		calls := []penstock.Call{{Cost: 1, Attributes: attributes("user", "a")}, {Cost: 2, Attributes: attributes("user", "b")}}
		verdicts, errs := make([]penstock.Verdict, 2), make([]error, 2)
		e.DecideTogether(t.Context(), calls, verdicts, errs)
		if len(verdicts[0].Limits) != 40 || len(verdicts[1].Limits) != 40 || verdicts[1].Allowed {
			t.Errorf("%d and %d limits, want 40 each; %v", len(verdicts[0].Limits), len(verdicts[1].Limits), errs)
		}
	}
	if len(o.seen) != 4 || !strings.HasPrefix(o.seen[0], "allow ok") || !strings.HasPrefix(o.seen[2], "deny over_limit") {
		t.Errorf("observed: %.60q; want the first call alone to pass, once", o.seen)
	}
}
