package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/naive"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// A counted is a rule with one override, and whether the override shares the rule's counters.
var counted = []struct {
	match, key, override string
	shares               bool
}{
	{"", "[user]", "{user: u1}", true},
	{"", "[user]", "{user: [u1, 'team-*']}", true},
	{"", "[ip]", "{ip: [10.0.0.0/8, '2001:db8::1']}", true},
	{"", "[user, plan]", "{plan: gold, user: u1}", true},
	{"", "[user]", "{}", true},
	{"", "[user]", "{domain: default, user: u1}", true},
	{"", "[method]", "{method: [GET, POST]}", true},
	{"", "[method]", "{attributes: {method: GET}}", true},
	{"", "[path]", "{path: '/static/{rest...}'}", true},
	{"", "[path]", "{attributes: {path: '/static/*'}}", true},
	{"", "[host]", "{host: 'api.*'}", true},
	{"", "[user]", "{plan: gold}", false},
	{"", "[]", "{user: u1}", false},
	{"", "[user]", "{user: u1, plan: gold}", false},
	{"", "[user]", "{user: u1, method: GET}", false},
	{"", "[user]", "{path: /login}", false},
	{"", "[user]", "{attributes: {path: '/static/*'}}", false},
	{"", "[user]", "{host: api.example.com}", false},

	// A missing optional attribute is empty in the key, and missing for a match.
	{"", "['user?']", "{user: u1}", true},
	{"", "['user?']", "{user: [u1, 'u*']}", true},
	{"", "['user?']", "{user: '*'}", false},
	{"", "['user?']", "{user: [u1, '*']}", false},
	{"", "['user?']", "{when: 'user != \"\"'}", true},
	{"", "[user]", "{user: '*'}", true},

	// Expressions read every name in them.
	{"", "[user]", "{when: 'user == \"u1\"'}", true},
	{"", "[user]", "{when: 'domain == \"default\" && user != \"u1\"'}", true},
	{"", "[user]", "{when: '[\"a\", \"b\"].exists(x, user.startsWith(x))'}", true},
	{"", "[user]", "{when: 'int(user) > 7'}", true},
	{"", "[user]", "{when: '\"plan\" == user'}", true},
	{"", "[user]", "{when: 'true'}", true},
	{"", "[user]", "{when: 'user == \"u1\" && plan == \"gold\"'}", false},
	{"", "[user]", "{when: 'user == \"u1\" || .plan == \"gold\"'}", false},
	{"", "[user]", "{when: '[\"a\"].exists(x, x == plan)'}", false},
	{"", "[user]", "{when: 'path == \"/login\"'}", false},
	{"", "[user]", "{when: 'method == \"GET\"'}", false},
	{"", "[user]", "{when: 'host.endsWith(\"x\") ? user == \"a\" : false'}", false},
	{"", "[user]", "{user: u1, when: 'plan == \"gold\"'}", false},

	// A path is read as far as the rule's own path leaves it open.
	{"/login", "[user]", "{path: /login}", true},
	{"/login", "[user]", "{when: 'path == \"/login\"'}", true},
	{"/{service}/{rest...}", "[service]", "{path: '/static/{rest...}'}", true},
	{"/{service}/{rest...}", "[service]", "{path: '/static/{file}'}", false},
	{"/{service}/{rest...}", "[service]", "{path: '/static/logo.png'}", false},
	{"/{service}/{rest...}", "[rest]", "{path: '/{any}/logo.png'}", true},
	{"/{service}/{rest...}", "[rest]", "{path: '/static/logo.png'}", false},
	{"/{service}/{rest...}", "[service, rest]", "{path: '/static/logo.png'}", true},
	{"/{service}/{rest...}", "[service, rest]", "{when: 'path.endsWith(\".png\")'}", true},
	{"/{service}/{rest...}", "[service]", "{when: 'path.endsWith(\".png\")'}", false},
	{"/{service}/{rest...}", "[service]", "{when: 'service == \"a\"'}", true},
	{"/{service}/{rest...}", "[service]", "{when: 'rest == \"a\"'}", false},
	{"/{service}/{rest...}", "[user]", "{path: '/{any}/{rest...}'}", true},
	{"/users/{id}", "[id]", "{path: /users/7}", true},
	{"/users/{id}", "[id]", "{path: '/users/{any}'}", true},
	{"/users/{id}", "[user]", "{path: /users/7}", false},
	{"/users/{id}/posts/{post}", "[id]", "{path: '/users/7/posts/{post}'}", true},
	{"/users/{id}/posts/{post}", "[id]", "{path: '/users/7/posts/1'}", false},
	{"/users/{id}/posts/{post}", "[id]", "{path: '/users/7/{rest...}'}", true},
	{"/users/{id}", "[id]", "{path: '/users/7/posts'}", true}, // never matches
}

func countedRule(t testing.TB, match, key string, overrides ...string) *Rule {
	t.Helper()
	if match != "" {
		match = "match: {path: '" + match + "'}, "
	}
	for i, o := range overrides {
		overrides[i] = "{match: " + o + ", limits: [{rate: 6000/1m, algorithm: token_bucket}, {rate: 7/day, algorithm: fixed_window}]}"
	}
	return snapshotOf(t, fmt.Sprintf(`
path_matching: exact
attributes: {user: {header: X-User}, plan: {header: X-Plan}}
rules:
  - {name: r, %skey: %s, dedup: {ttl: 1m}, limits: [{rate: 10/1m, algorithm: token_bucket}, {rate: 5/day, algorithm: fixed_window}], overrides: [%s]}
`, match, key, strings.Join(overrides, ", "))).Rules[0]
}

func counters(limits []*algorithm.Meter, d *algorithm.Dedup) (names []uint64) {
	for _, m := range limits {
		names = append(names, m.Fingerprint)
	}
	return append(names, d.Budget.Fingerprint)
}

func TestCountersOfOverrides(t *testing.T) {
	for _, test := range counted {
		r := countedRule(t, test.match, test.key, test.override)
		o := &r.Overrides[0]
		own, theirs := counters(r.Limits, r.Dedup), counters(o.Limits, o.Dedup)
		shared := 0
		for i := range own {
			if own[i] == theirs[i] {
				shared++
			}
		}
		if o.OwnCounters == test.shares || shared != map[bool]int{true: len(own), false: 0}[test.shares] {
			t.Errorf("match %q key %s override %s: shares %d of %d counters, own counters %v; want shared %v", test.match, test.key, test.override, shared, len(own), o.OwnCounters, test.shares)
		}
	}
}

// Counters are named by the conditions of a match, however it is written and wherever it is.
func TestCountersAreNamedByMatch(t *testing.T) {
	names := func(overrides ...string) map[string][]uint64 {
		all := map[string][]uint64{}
		r := countedRule(t, "", "[user]", slices.Clone(overrides)...)
		for i := range r.Overrides {
			all[overrides[i]] = counters(r.Overrides[i].Limits, r.Overrides[i].Dedup)
		}
		return all
	}
	one := func(match string) []uint64 { return names(match)[match] }
	several := []string{"{plan: gold}", "{plan: free}", "{path: /login}", "{method: GET}", "{when: 'plan == \"gold\"'}"}
	before := names(several...)
	slices.Reverse(several)
	after := names(append([]string{"{host: example.com}"}, several...)...)
	seen := map[uint64]string{}
	for match, want := range before {
		if !slices.Equal(after[match], want) {
			t.Errorf("%s has other counters elsewhere", match)
		}
		for _, name := range want {
			if other, taken := seen[name]; taken {
				t.Errorf("%s and %s share a counter", match, other)
			}
			seen[name] = match
		}
	}
	for _, same := range [][2]string{
		{"{plan: [gold, free]}", "{attributes: {plan: [free, gold, gold]}}"},
		{"{method: [GET, POST]}", "{method: [POST, GET]}"},
		{"{path: '/a/{x}/{y...}'}", "{path: '/a/{id}/{rest...}'}"},
		{"{path: '/a%20b'}", "{path: '/a b'}"},
		{"{ip: '::ffff:10.0.0.1'}", "{ip: 10.0.0.1}"},
		{"{ip: 10.0.0.1}", "{ip: 10.0.0.1/32}"},
		{"{domain: default, plan: gold}", "{plan: gold}"},
	} {
		if !slices.Equal(one(same[0]), one(same[1])) {
			t.Errorf("%s and %s have different counters", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{"{plan: gold}", "{plan: golden}"},
		{"{plan: [a, bc]}", "{plan: [ab, c]}"},
		{"{plan: a, host: b}", "{plan: b, host: a}"},
		{"{path: '/a/{x}'}", "{path: '/a/{x...}'}"},
		{"{path: '/{x}'}", "{attributes: {path: '/*'}}"},
		{"{method: GET}", "{attributes: {method: GET}}"},
		{"{when: 'plan == \"a\"'}", "{when: 'plan == \"a \"'}"},
	} {
		if a, b := one(other[0]), one(other[1]); slices.ContainsFunc(a, func(name uint64) bool { return slices.Contains(b, name) }) {
			t.Errorf("%s and %s share counters", other[0], other[1])
		}
	}
}

// The names of counters are in stores: another release must compute the same.
func TestRecordedMatchID(t *testing.T) {
	r := countedRule(t, "", "[user]", "{method: [PUT, POST], path: '/a/{b}/{c...}', plan: [gold, '10.0.0.0/8', 'x*'], when: 'user != \"\"'}")
	if got, want := r.Overrides[0].MatchID, uint64(0xda0007b5bd725079); got != want {
		t.Errorf("the match is named %#x, before %#x", got, want)
	}
}

// A sharing decides whether an override shares its rule's counters.
type sharing = func(rule *index.Conditions, key []KeyPart, override *index.Conditions) bool

// sharesWrongly draws a rule, an override that is said to share its counters, and two requests of one key. It
// returns what it drew if the override holds for only one of them.
func sharesWrongly(t *testing.T, r *rand.Rand, l *expr.Language, shares sharing) (found string) {
	some := func(of ...string) string { return of[r.IntN(len(of))] }
	match := naive.Match{Path: some(append(naive.Paths, "")...)}
	var key []KeyPart
	for _, name := range []string{"user", "plan", "path", "method", "domain", "x", "y", "r"} {
		if r.IntN(4) == 0 {
			key = append(key, KeyPart{Name: name, Optional: r.IntN(2) == 0})
		}
	}
	var o naive.Match
	for range 1 + r.IntN(2) {
		switch r.IntN(5) {
		case 0:
			o.Methods = []string{some("GET", "POST")}
		case 1:
			o.Path = some(naive.Paths...)
		case 2:
			o.Attributes = naive.Attributes(some("user", "plan"), some("gold", "7", "*", "g*"))
		case 3:
			o.Attributes = naive.Attributes(some("path", "method", "domain"), some("/a", "/a*", "GET", "default", "*"))
		case 4:
			o.When = some(slices.Sorted(maps.Keys(naive.Whens))...)
		}
	}
	ignore := []urlform.Ignore{0, 0, urlform.TrailingSlash, urlform.Case | urlform.MatrixParameters}[r.IntN(4)]
	rule, _ := match.Conditions(l, ignore)
	rule.Domain = penstock.DefaultDomain
	override, err := o.Conditions(l, ignore)
	if err != nil {
		t.Fatal(err)
	}
	items := []index.Item{{Conditions: rule, Key: indexKey(key), Overrides: []index.Item{{Conditions: override}}}}
	s := indexed(items, nil, nil, func(int, int) OnError { return ErrorMatches })
	var first *RuleExplanation
	for range 8 {
		call := &penstock.Call{}
		for _, a := range [][]string{{"user", "", "gold", "7"}, {"plan", "", "gold", "7"}, append([]string{"path"}, naive.RequestPaths...), {"method", "GET", "POST"}, {"x", "a", "c"}, {"r", "b", "c"}} {
			if r.IntN(4) > 0 {
				call.Attributes = append(call.Attributes, penstock.Attribute{Name: a[0], Value: some(a[1:]...)})
			}
		}
		c := s.consider(&s.all[0], penstock.InstantOf(naive.Moment), s.index.Values(call))
		switch {
		case !c.Matches || first != nil && !slices.Equal(first.Key, c.Key):
		case first == nil:
			first = &c
		case first.Override != c.Override && shares(&items[0].Conditions, key, &items[0].Overrides[0].Conditions):
			return fmt.Sprintf("path %q key %v override %+v: key %v has override %d and %d", match.Path, key, o, c.Key, first.Override, c.Override)
		}
	}
	return ""
}

// wrongly repeats sharesWrongly until it finds something.
func wrongly(t *testing.T, trials int, shares sharing) string {
	l, err := naive.NewLanguage()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range trials {
		if found := sharesWrongly(t, r, l, shares); found != "" {
			return found
		}
	}
	return ""
}

const sharingTrials = 20_000

// A key always gets the same override among those that share the rule's counters.
func TestSharedCountersHaveOneLimit(t *testing.T) {
	if found := wrongly(t, sharingTrials, sharesCounters); found != "" {
		t.Error(found)
	}
}

// The test must detect each of these.
func TestSharedCountersNotices(t *testing.T) {
	without := func(change func(*index.Conditions)) sharing {
		return func(rule *index.Conditions, key []KeyPart, override *index.Conditions) bool {
			changed := *override
			change(&changed)
			return sharesCounters(rule, key, &changed)
		}
	}
	for name, shares := range map[string]sharing{
		"always":             func(*index.Conditions, []KeyPart, *index.Conditions) bool { return true },
		"ignores methods":    without(func(c *index.Conditions) { c.Methods = nil }),
		"ignores paths":      without(func(c *index.Conditions) { c.Path = pattern.Path{} }),
		"ignores attributes": without(func(c *index.Conditions) { c.Attributes = nil }),
		"ignores when":       without(func(c *index.Conditions) { c.When = nil }),
		"ignores missing optional attributes": func(rule *index.Conditions, key []KeyPart, override *index.Conditions) bool {
			key = slices.Clone(key)
			for i := range key {
				key[i].Optional = false
			}
			return sharesCounters(rule, key, override)
		},
		"ignores missing slashes": func(rule *index.Conditions, key []KeyPart, override *index.Conditions) bool {
			changed, other := *rule, *override
			changed.Path.Ignore, other.Path.Ignore = 0, 0
			return sharesCounters(&changed, key, &other)
		},
		"knows every wildcard": func(rule *index.Conditions, key []KeyPart, override *index.Conditions) bool {
			for _, name := range rule.Path.Wildcards() {
				key = append(key[:len(key):len(key)], KeyPart{Name: name})
			}
			return sharesCounters(rule, key, override)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if wrongly(t, sharingTrials, shares) == "" {
				t.Error("nobody noticed")
			}
		})
	}
}
